"""Operators' tables and acts in the admin."""
