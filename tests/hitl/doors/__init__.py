"""Messages, export and erasure of threads."""
