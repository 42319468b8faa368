"""Tests of `runs.engine.workers`: leases, and how workers end."""
