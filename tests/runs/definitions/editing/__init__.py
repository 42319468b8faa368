"""Templates as wholes, and declared workflows that people edited."""
