"""REST: questions and answers, threads and runs, the ledger, the wait gate."""
