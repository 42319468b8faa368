"""`repo-tidy`: what it reads, plans, changes and proves."""
