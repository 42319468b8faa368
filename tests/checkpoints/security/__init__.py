"""Files that only Waystation reads."""
