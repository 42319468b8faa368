"""Writing and reading checkpoints as rows."""
