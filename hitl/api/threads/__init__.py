"""The REST addresses of threads, with their runs, checkpoints, events and messages."""
