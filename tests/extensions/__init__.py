"""What is switched on beside the core, each at its real work."""
