"""How lists are asked: words, filters, order, counts, and the views that people save of them."""
