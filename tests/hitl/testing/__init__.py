"""Tests of the testing kit: that it finds what it is there to find, and lets good work pass."""
