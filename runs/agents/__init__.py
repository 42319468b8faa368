"""What agents work with: the tools they may call, and the rules on which calls a person is asked about. Plain Python, as workflows are."""

from runs.agents import builtin as builtin
