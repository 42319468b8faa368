"""What a reviewer was shown, kept with the decision: one canonical JSON document in a blob, under
the digest that the decision signs.

What is read or printed of it is made from the document, so there is nothing else to trust.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

from checkpoints import store
from checkpoints.models import Blob
from checkpoints.state import codec
from hitl.models import Decision
from runs.models import Pause

SHOWN = (*Pause.CARD, "review", "stage")


class Missing(Exception):
    """The document is not there, or not as it was kept."""


def of(pause: Pause, *, early_at: dt.datetime | None = None) -> dict[str, Any]:
    """The document of a question as it stands; `pause` is `answerable`.

    Of an answer that came before it, it says so: nobody saw it.
    """
    run = pause.run
    order = run.work_order
    titles = {step["name"]: step["title"] for step in run.frozen.steps}
    return {
        **{name: getattr(pause, name) for name in SHOWN},
        "pause": pause.shown_id,
        "run": run.shown_id,
        "thread": run.thread.shown_id,
        "order": order.shown_id if order else None,
        "title": order.title if order else run.thread.title,
        "template": str(run.frozen),
        "patch": pause.patch_digest or None,
        "opened_at": pause.opened_at.isoformat(),
        "deadline_at": pause.deadline_at.isoformat() if pause.deadline_at else None,
        "leads_to": {way: titles.get(to, "") for way, to in pause.answers.items()},
        **({"answered_unseen_at": early_at.isoformat()} if early_at else {}),
    }


def keep(pause: Pause, *, early_at: dt.datetime | None = None) -> str:
    """Keep the document of a question and give its digest. Call inside a transaction."""
    return keep_all([(pause, early_at)])[0]


def keep_all(asked: Sequence[tuple[Pause, dt.datetime | None]]) -> list[str]:
    """Keep the documents of questions, each as `of` has it, and give their digests in order.

    Call inside a transaction.
    """
    documents = [of(pause, early_at=early_at) for pause, early_at in asked]
    return store.put_blobs([codec.encode(document).encode() for document in documents])


def load(decision: Decision) -> dict[str, Any]:
    """The document that a decision names. Raises Missing."""
    try:
        return read(store.get_blob(decision.evidence))
    except (Blob.DoesNotExist, store.CheckpointDamaged) as error:
        raise Missing("What the reviewer was shown cannot be read any more.") from error


def read(content: bytes) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(content)
    return document
