"""States as text: codec, reducers, redaction and encryption."""
