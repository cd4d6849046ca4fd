"""State as something that can be moved."""
