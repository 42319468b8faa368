"""Child runs: what many of them cost their parent."""
