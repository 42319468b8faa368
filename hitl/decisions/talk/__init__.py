"""What people say to each other at a question, beside answering it."""
