"""The one hot path: run row, checkpoint and events of a step, committed in one statement."""

from runs.engine.commit.fenced import write
from runs.engine.commit.statements import Fence

__all__ = ["Fence", "write"]
