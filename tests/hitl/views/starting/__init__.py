"""Tests of the pages by which work begins."""
