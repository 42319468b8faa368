"""What of the Python client needs no server."""
