"""The machine, tested."""
