"""The database of the tests: copies with tables in them, how each test leaves it empty, and looks
at all of it.
"""
