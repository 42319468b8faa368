"""`make chaos`: many runs, everything is killed and restarted under them, twenty clients race for each answer; then the books are checked.

`orders` says what is run, `faults` breaks the servers, `clients` are the doors at which people answer, `race` brings them together, and
`books` compares what was recorded with what people were told and what the world outside has seen.
"""
