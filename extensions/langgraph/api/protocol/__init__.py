"""The event protocol of LangGraph's newer clients: commands, and a thread's events under numbers
that stay.
"""
