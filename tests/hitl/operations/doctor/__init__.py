"""What is set up wrong is said in words."""
