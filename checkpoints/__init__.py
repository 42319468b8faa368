"""The memory: threads, checkpoints, events, and everything that is done with history."""
