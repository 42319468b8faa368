"""SQLite: see `hitl.testing.backends.counted`."""
