"""The testing kit: what an author tests a workflow with, on the engine itself.

Nothing in the product imports this package. See docs/how-to/test-workflows.md.
"""

from runs.testing import configured as configured  # first: the others read models
from runs.testing.crashes import NotCrashProof, Survived, survives_every_crash
from runs.testing.effects import outside
from runs.testing.engine import Endless, Engine
from runs.testing.playing import Effect, NothingAsked, Play, Point, Question, play
from runs.testing.replaying import ReplayDiffers, Replayed, replays

__all__ = [
    "Effect",
    "Endless",
    "Engine",
    "NotCrashProof",
    "NothingAsked",
    "Play",
    "Point",
    "Question",
    "ReplayDiffers",
    "Replayed",
    "Survived",
    "outside",
    "play",
    "replays",
    "survives_every_crash",
]
