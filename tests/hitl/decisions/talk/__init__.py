"""Tests of what reviewers say to each other about a question."""
