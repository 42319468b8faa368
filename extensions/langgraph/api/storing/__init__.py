"""The store of LangGraph's clients: what programs of an account note beside all threads."""
