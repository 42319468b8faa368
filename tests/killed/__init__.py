"""Servers and workers that are killed: at a chosen statement, at each COMMIT, in the middle of a
request.
"""
