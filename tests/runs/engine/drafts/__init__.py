"""Tests of `runs.engine.drafts`: what a run may write."""
