"""The card of a question: its contents, and the words that somebody typed on it."""
