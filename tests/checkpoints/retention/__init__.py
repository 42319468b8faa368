"""What is dropped, what never is, and what is freed."""
