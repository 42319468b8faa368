"""The moments at which a worker may die: either side of each commit, and either side of each effect
outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


class Killed(BaseException):
    """The worker ends here. No `except Exception` sees it."""


@dataclass
class Moments:
    """The moments of a worker, numbered from 1 as they come."""

    die_at: int = 0
    """The moment at which the worker dies; 0 for never."""
    die: Callable[[], None] = lambda: None
    """The end of a real process; where it returns, `Killed` is raised."""
    names: list[str] = field(default_factory=list)
    dead: bool = False

    def tick(self, name: str) -> None:
        """Reach a moment, and die there where it is the one."""
        if self.dead:
            raise Killed
        self.names.append(name)
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


@contextmanager
def commit(name: str) -> Iterator[None]:
    """Be the two sides of a commit."""
    tick(f"before {name}")
    yield
    tick(f"after {name}")


def tick(name: str) -> None:
    if _current is not None:
        _current.tick(name)


def refuse_the_dead() -> None:
    """Raise Killed where the worker is dead: it sends no statement any more."""
    if _current is not None and _current.dead:
        raise Killed
