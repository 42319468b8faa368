"""State as text: canonical form, digests and deltas, how updates join it, and what of it is hidden
or encrypted.
"""
