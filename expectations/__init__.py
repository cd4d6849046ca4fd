"""The quality gate: the pipeline's own text run as one plain Spark batch, and the results held against it."""
