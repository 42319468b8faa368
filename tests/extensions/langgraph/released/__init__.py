"""LangGraph's clients as they were released, which the door `/langgraph` is tried through."""
