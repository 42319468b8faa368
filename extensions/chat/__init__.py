"""`chat-agent`: one agent on a thread."""
