"""The stores that checkpoints can be kept in.

`checkpoints.contract.configured` says which are chosen.
"""
