"""Child runs: started by a step that gathers, all at once or in turn, joined when all have ended,
taken up again when their parent is retried.

A parent that waits is `paused` with `awaited` counting the children that have not ended; each
child's end counts it down in its own transaction, and the last one makes the parent pending. The
join is then the work of whoever takes the parent up.
"""

from runs.engine.children.joining import join
from runs.engine.children.starting import Started, check, start, start_more

__all__ = ["Started", "check", "join", "start", "start_more"]
