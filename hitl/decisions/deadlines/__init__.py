"""Deadlines: what the rules of a question do when its time comes, and how people move it."""
