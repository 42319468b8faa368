"""Tests of `runs.engine.commit`: the one hot path."""
