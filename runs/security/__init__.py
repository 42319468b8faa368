"""Secrets, hosts and addresses: what may be known, sent and reached."""
