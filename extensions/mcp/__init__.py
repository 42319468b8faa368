"""MCP: the door `/mcp` for agents that ask people, and tools of other servers for agents inside."""
