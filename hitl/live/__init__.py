"""Everything that watchers see at once: the hub, sockets and streams."""
