"""Tests of `project.identity`."""
