"""The workflows that we ship, each at its real work."""
