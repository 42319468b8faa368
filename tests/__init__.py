"""The proof: tests by app as the code stands, and what they share in folders of their own."""
