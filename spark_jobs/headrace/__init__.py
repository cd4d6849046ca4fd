"""Headrace: streaming SQL on Spark, compiled into hash-partitioned stateful jobs."""

__version__ = "0.1.0"
