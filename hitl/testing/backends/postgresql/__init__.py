"""PostgreSQL: see `hitl.testing.backends.counted`."""
