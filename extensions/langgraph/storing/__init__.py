"""The store of LangGraph: what an account's programs, and graphs that work for it, note beside all
threads.
"""
