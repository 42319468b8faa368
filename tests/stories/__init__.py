"""Whole stories: the product in real processes, with a browser where one is needed."""
