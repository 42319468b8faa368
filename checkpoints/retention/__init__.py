"""What is kept and what is dropped, in small transactions."""
