"""What stands beside the core, each extension with tests of its own."""
