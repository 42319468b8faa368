"""Tests of `hitl.identity`."""
