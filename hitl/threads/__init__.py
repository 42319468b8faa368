"""Messages on threads, their export and their erasure."""
