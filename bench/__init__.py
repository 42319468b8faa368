"""Measurements and breakage: what is too long for `make test`."""
