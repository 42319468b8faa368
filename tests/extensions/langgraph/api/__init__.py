"""Tests of the doors for protocols of others, in process."""
