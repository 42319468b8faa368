"""Runs that cannot go on as usual: their worker was lost, the database is away, a checkpoint is
damaged, or the code of a step has changed.
"""
