"""The code of a step: its digest, whether it is still the frozen one, and libraries it needs."""
