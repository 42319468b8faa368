"""LangGraph: its saver over Waystation's checkpoints, its graphs as steps, and its API."""
