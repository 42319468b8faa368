"""Tests of `runs.workflows.reviews`: when rules act."""
