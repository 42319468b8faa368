"""Pages, as browsers get them."""
