"""The pages of threads: their conversation, runs, checkpoints and events."""
