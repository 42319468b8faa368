"""The one hot path: run row, checkpoint and events of a step, committed in one statement."""

from runs.engine.commit.fenced import write, write_gathered, write_or_note
from runs.engine.commit.gathering import current
from runs.engine.commit.statements import Fence

__all__ = ["Fence", "current", "write", "write_gathered", "write_or_note"]
