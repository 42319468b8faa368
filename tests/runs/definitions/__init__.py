"""Templates: saved, frozen, misspelt, and code that changed under them."""
