"""The testing kit: what an author tests a workflow with, on the engine itself.

Nothing in the product imports this package. See docs/how-to/test-workflows.md.
"""

from hitl.testing import configured as configured  # first: the others read models
from hitl.testing.crashes import NotCrashProof, Survived, survives_every_crash
from hitl.testing.effects import outside
from hitl.testing.engine import Endless, Engine
from hitl.testing.playing import LinkRefused, MailedLink, NothingAsked, Play, play
from hitl.testing.reading import Effect, Point, Question
from hitl.testing.replaying import ReplayDiffers, Replayed, replays

__all__ = [
    "Effect",
    "Endless",
    "Engine",
    "LinkRefused",
    "MailedLink",
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
