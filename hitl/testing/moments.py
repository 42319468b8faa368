"""The moments at which a worker may die: either side of each commit, and either side of each effect
outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from runs.engine.workers.shutdown import ProcessEnds

BEFORE_COMMIT, AFTER_COMMIT = "before a commit", "after a commit"


class Killed(ProcessEnds):
    """The worker ends here. No `except Exception` sees it."""


@dataclass
class Moments:
    """The moments of a worker, numbered from 1 as they come."""

    die_at: int = 0
    """The moment at which the worker dies; 0 for never."""
    die: Callable[[], None] = lambda: None
    """The end of a real process; where it returns, `Killed` is raised."""
    tell: Callable[[str], None] = lambda name: None
    """Hears each moment before anybody dies there."""
    where: str = "before the first step"
    quiet: bool = False
    """Since a commit no step has been at work, so before the next one is the same moment."""
    names: list[str] = field(default_factory=list)
    dead: bool = False

    def tick(self, name: str) -> None:
        """Reach a moment, and die there where it is the one."""
        if self.dead:
            raise Killed
        if self.quiet and name == BEFORE_COMMIT:
            return
        self.quiet = name == AFTER_COMMIT and not self.where.startswith("in ")
        self.names.append(f"{self.where}, {name} ({len(self.names) + 1})")
        self.tell(self.names[-1])
        if len(self.names) == self.die_at:
            self.die()
            self.dead = True  # whatever a `finally` still does is not done by a dead process
            raise Killed


_current: Moments | None = None


@contextmanager
def counted(moments: Moments) -> Iterator[None]:
    """Count the moments of this block; the block ends where the worker dies."""
    global _current
    _current = moments
    try:
        yield
    except Killed:
        if not moments.dead:
            raise
    finally:
        _current = None


def tick(name: str) -> None:
    if _current is not None:
        _current.tick(name)


@contextmanager
def within(step: str) -> Iterator[None]:
    """Name the step that is at work in this block."""
    if _current is not None:
        _current.where, _current.quiet = f"in {step}", False
    yield
    if _current is not None:
        _current.where = f"after {step}"


def refuse_the_dead() -> None:
    """Raise Killed where the worker is dead: it sends no statement any more."""
    if _current is not None and _current.dead:
        raise Killed
