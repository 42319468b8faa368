"""Pages and hooks of others, unmodified, against the running product: by `make foreign`."""
