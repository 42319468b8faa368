"""The human face, tested."""
