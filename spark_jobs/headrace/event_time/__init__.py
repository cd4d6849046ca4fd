"""Event time as plain values: marks, watermarks, intervals, windows. No Spark, no clock of its own, no I/O."""
