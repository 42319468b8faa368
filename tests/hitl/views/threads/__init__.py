"""Tests of the pages of threads."""
