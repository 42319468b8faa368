"""`make chaos`: many runs, everything is broken under them, twenty clients race for each answer;
then the books are checked.

`orders` says what is run, `asking` asks for it, `faults` break the `world`, whose processes reach
their servers over a `wire`, `clients` are the doors at which people answer, `race` brings them
together, and `books` compares what was recorded with what people were told and what the world
outside has seen.
"""

EFFECTS = "effects"
"""The file in which each effect of a step is a line: what the world outside has seen."""
ONCE = "once"
"""The same of effects under `context.once`."""
