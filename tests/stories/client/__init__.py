"""The Python client against the running product."""
