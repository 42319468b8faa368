"""The SDK, name by name."""
