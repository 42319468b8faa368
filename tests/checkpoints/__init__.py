"""The memory, tested."""
