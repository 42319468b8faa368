"""The ledger: chained, append-only, verified offline."""
