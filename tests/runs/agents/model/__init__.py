"""Tests of `runs.agents.model`: which endpoint is asked, and how answers end."""
