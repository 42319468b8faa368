"""The human face: questions, decisions and the ledger, and every door to them."""
