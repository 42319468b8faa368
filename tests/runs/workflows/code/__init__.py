"""Tests of `runs.workflows.code`: what a step's code does."""
