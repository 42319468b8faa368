"""What stands around every request: logins, tokens, sizes, keys, hosts."""
