"""Search, filters, order, counts and saved views of lists."""
