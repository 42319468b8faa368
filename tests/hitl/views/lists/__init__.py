"""Tests of the pages that are lists."""
