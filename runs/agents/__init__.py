"""What agents are: the loop, the tools they may call, and the rules on which calls a person is
asked about. Plain Python, as workflows are.

Importing this package registers the step `agent` and the tools that come with Waystation.
"""

from runs.agents import step as step
from runs.agents.tools import builtin as builtin
from runs.agents.tools import files as files
