"""The machine's tables and their constraints."""
