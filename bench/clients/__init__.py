"""Processes of many clients each, which know nothing of Django: a bench starts them."""
