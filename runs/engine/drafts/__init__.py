"""The rows that a commit will write: checkpoints, questions and events, drafted and counted."""
