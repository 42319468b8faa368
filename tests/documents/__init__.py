"""Tests of README and tutorial, and the script that takes their picture."""
