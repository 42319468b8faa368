"""The Model Context Protocol at `/mcp`: agents ask people, and a person's own assistant answers."""
