"""The log: numbers without gaps, visible in order."""
