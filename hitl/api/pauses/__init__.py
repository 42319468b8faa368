"""The REST addresses of questions: read, answer, claim and move them."""
