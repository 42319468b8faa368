"""The revisions of a question: what the one at hand changed against an earlier one."""

from __future__ import annotations

from hitl.rendering import word_diff
from runs.models import Pause


def earlier(pause: Pause, revision: int | None = None) -> Pause | None:
    """An earlier revision of the same question: the one of that number, else the one just before;
    None where there is none.
    """
    asked = Pause.objects.filter(
        run__thread=pause.run.thread_id, step=pause.step, phase=pause.phase, pk__lt=pause.pk
    ).order_by("-id")
    return asked.filter(revision=revision).first() if revision is not None else asked.first()


def text_of(pause: Pause) -> str:
    """What was shown, as text: the facts, and below them the content."""
    facts = "".join(f"{label}: {value}\n" for label, value in pause.facts)
    return f"{facts}\n{pause.content}" if facts else pause.content


def changes(before: Pause, after: Pause) -> list[word_diff.DiffLine]:
    """The lines of both revisions; empty where they read the same (a patch is compared file by file
    elsewhere).
    """
    return word_diff.compare(text_of(before), text_of(after))


def changes_as_text(before: Pause, after: Pause) -> str:
    return word_diff.as_text(text_of(before), text_of(after))
