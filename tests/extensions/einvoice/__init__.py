"""E-invoices: what is read, and what the rules say of it."""
