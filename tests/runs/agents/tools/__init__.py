"""Tests of `runs.agents.tools`: those that come with Waystation, and how others are called."""
