"""Tests of `runs.engine.context`: what a step is handed."""
