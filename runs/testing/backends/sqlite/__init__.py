"""SQLite: see `runs.testing.backends.counted`."""
