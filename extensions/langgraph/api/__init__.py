"""LangGraph's API, `/langgraph`: its clients over Waystation's threads, runs and questions.

The door translates words and holds no rule of its own. A *wire run* is what such a client calls a
run: it ends at a question, and the answer to that begins the next one (`segments`).
"""
