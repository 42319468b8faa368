"""LangGraph's graphs as steps; the runner alone imports LangGraph."""
