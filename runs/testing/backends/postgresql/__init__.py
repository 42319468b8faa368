"""PostgreSQL: see `runs.testing.backends.counted`."""
