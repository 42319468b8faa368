"""The review rules of a step: their types, their checks, and when they act."""
