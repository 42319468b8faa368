"""Tests of `runs.engine.dispatch`: how a worker has runs taken up."""
