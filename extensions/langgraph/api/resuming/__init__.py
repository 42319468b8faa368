"""What a client resumes an interrupt with, as an answer to a question."""
