"""What is played: steps, templates, and the book of what the steps did."""
