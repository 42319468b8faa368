"""Turns of a thread: new input, what was said, what is remembered, and messages in line."""
