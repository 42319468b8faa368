"""Crews: runs that begin others and wait for them."""
