"""The ledger of decisions: a chain per team that the database keeps append-only, verified, anchored
and exported.
"""
