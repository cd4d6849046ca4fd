"""Where Spark lives: sources, lowering, sinks, the audit and the running query."""
