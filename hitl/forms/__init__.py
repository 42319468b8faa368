"""Questions and templates as plain HTML forms, and what a browser sends for them."""
