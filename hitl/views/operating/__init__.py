"""Pages of operators: how things stand, and what failed."""
