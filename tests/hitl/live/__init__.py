"""The hub, sockets and streams."""
