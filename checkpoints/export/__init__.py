"""A thread as one document, and whether what is stored is what was written."""
