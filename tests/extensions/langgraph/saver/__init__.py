"""LangGraph's saver, by its own conformance kit and by our rules."""
