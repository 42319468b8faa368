"""The database beneath: what an older one is told."""
