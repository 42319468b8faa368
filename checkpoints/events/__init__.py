"""A thread's log, its only writer, and the hints that tell watchers of it."""
