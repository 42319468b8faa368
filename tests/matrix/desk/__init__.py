"""The admin against every role."""
