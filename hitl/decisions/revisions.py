"""The revisions of a question: what the one at hand changed against an earlier one, what it cost,
and what was approved before it.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Exists, OuterRef

from checkpoints.database.people import User
from checkpoints.store.prepared_queries import Prepared
from hitl.models import Comment, Decision, Vote
from hitl.rendering import word_diff
from runs.models import Pause
from runs.models.pauses import PauseQuerySet
from runs.workflows.sequence import APPROVE, REVISE

COUNTED = ("input_tokens", "output_tokens", "cost")


@dataclass(frozen=True)
class Spent:
    """What agents used, as far as they told it."""

    input_tokens: float
    output_tokens: float
    cost: float  # US dollars


class EarlierRevision(NamedTuple):
    pause: Pause
    seen: bool
    """Whether the person who looks took part in it."""


@dataclass(frozen=True)
class Planned:
    """What was approved before a question, beside what the question shows now."""

    decision: Decision
    facts: list[tuple[str, str, str]]
    """Label, as it was planned, as it is; "" where the question does not say it."""
    effects: list[str]


def earlier(pause: Pause, revision: int | None = None) -> Pause | None:
    """An earlier revision of the same question: the one of that number, else the one just before;
    None where there is none.
    """
    asked = _before(pause)
    return asked.filter(revision=revision).first() if revision is not None else asked.first()


def _before(pause: Pause) -> PauseQuerySet:
    """The earlier revisions of a question, the latest first."""
    return Pause.objects.filter(
        run__thread=pause.run.thread_id, step=pause.step, phase=pause.phase, pk__lt=pause.pk
    ).order_by("-id")


def seen_or_earlier(pause: Pause, by: User) -> EarlierRevision | None:
    """The latest earlier revision that a person answered, voted on or commented, and so has seen;
    else the one just before.
    """
    seen = (
        Exists(Decision.objects.filter(pause=OuterRef("pk"), decided_by=by))
        | Exists(Vote.objects.filter(pause=OuterRef("pk"), voter=by))
        | Exists(Comment.objects.filter(pause=OuterRef("pk"), author=by))
    )
    found = _before(pause).annotate(seen=seen).order_by("-seen", "-id").first()
    return EarlierRevision(found, bool(vars(found)["seen"])) if found is not None else None


def asked_for(before: Pause, after: Pause) -> list[Decision]:
    """The answers that sent a question back from one revision to another, the oldest first."""
    sent_back = Decision.objects.filter(
        action=REVISE,
        pause__run__thread=after.run.thread_id,
        pause__step=after.step,
        pause__phase=after.phase,
        pause__gte=before.pk,
        pause__lt=after.pk,
    )
    people = sent_back.select_related("decided_by", "on_behalf_of").order_by("pk")
    return [decision for decision in people if decision.feedback]


def text_of(pause: Pause) -> str:
    """What was shown, as text: the facts, and below them the content."""
    return f"{_facts(pause)}{pause.content}"


def _facts(pause: Pause) -> str:
    facts = "".join(f"{label}: {value}\n" for label, value in pause.facts)
    return f"{facts}\n" if facts else ""


def changes(before: Pause, after: Pause) -> list[word_diff.DiffLine]:
    """The lines of both revisions; empty where they read the same (a patch is compared file by file
    elsewhere).
    """
    return word_diff.compare(*_comparable(before, after))


def changes_as_text(before: Pause, after: Pause) -> str:
    return word_diff.as_text(*_comparable(before, after))


def _comparable(before: Pause, after: Pause) -> tuple[str, str]:
    """Both texts. Where both are JSON, one value to a line and names in order, so that what was
    only written otherwise is no change, and each change stands at its name.
    """
    documents = _document(before.content), _document(after.content)
    if None in documents:
        return text_of(before), text_of(after)
    one, other = (
        f"{_facts(pause)}{document}"
        for pause, document in zip((before, after), documents, strict=True)
    )
    return one, other


def _document(content: str) -> str | None:
    """A JSON object or list, as it stands or in a fence of Markdown, written in one way; None for
    all else.
    """
    text = content.strip()
    if text.startswith("```json") and text.endswith("```"):
        text = text.removeprefix("```json").removesuffix("```")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict | list):
        return None
    return json.dumps(found, indent=2, sort_keys=True, ensure_ascii=False)


def spent(pause: Pause) -> Spent | None:
    """What was used since the question before it, which may be its earlier revision; None where
    nothing was told.
    """
    total = _totals(pause)
    if not any(total):
        return None
    before = (
        Pause.objects.filter(run__thread=pause.run.thread_id, pk__lt=pause.pk)
        .select_related("checkpoint")
        .order_by("-id")
        .first()
    )
    earlier_total = _totals(before) if before is not None else [0.0] * len(COUNTED)
    # a fork or a retry may begin again with less
    used = [max(0.0, now - then) for now, then in zip(total, earlier_total, strict=True)]
    return Spent(*used) if any(used) else None


def _totals(pause: Pause) -> list[float]:
    """Of all steps up to a question, as its checkpoint has them."""
    outputs = pause.checkpoint.metadata.get("outputs", {})
    values = [outputs.get(name) for name in COUNTED]
    return [
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
        for value in values
    ]


def planned(pause: Pause) -> Planned | None:
    """The last approval of another step before this question, with its figures beside those of now;
    None where there is none, or it has no figure in common with this one.
    """
    if not getattr(pause, "has_approved", True):  # as its page read it
        return None
    decision = next(iter(_approved_before.get(pause.run.thread_id, pause.pk, pause.step)), None)
    if decision is None or decision.pause is None:
        return None
    then = {str(label): str(value) for label, value in decision.pause.facts}
    now = {str(label): str(value) for label, value in pause.facts}
    if not then.keys() & now.keys():
        return None
    facts = [(label, value, now.get(label, "")) for label, value in then.items()]
    return Planned(decision, facts, [str(effect) for effect in decision.pause.effects])


_approved_before = Prepared(
    lambda thread, key, step: (
        Decision.objects.filter(pause__run__thread=thread, pause__lt=key, action=APPROVE)
        .exclude(pause__step=step)
        .select_related("pause")
        .order_by("-pk")[:1]
    ),
    uuid.UUID,
    uuid.UUID,
    str,
)
