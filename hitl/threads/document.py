"""The sections of a thread's exported document that people wrote: the questions of its runs with
their votes and comments, and the decisions.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Prefetch

from checkpoints import ids
from checkpoints.export.schema import (
    COUNT,
    DIGEST,
    DIGEST_OR_EMPTY,
    LIST,
    MARK,
    OBJECT,
    TIME,
    TIME_OR_NULL,
    listed,
    of_column,
    one_of,
    record,
    shown,
    text,
)  # fmt: skip
from checkpoints.export.sections import Section
from checkpoints.export.thread_document import Document, opened
from checkpoints.models import Checkpoint, Thread
from hitl.models import Comment, Decision, Vote
from runs.models import Pause, Run

PAUSE = ("status", "patch_digest", *Pause.CARD)
DECISION = (
    "action", "feedback", "payload", "edited_content", "external", "via", "revision",
    "content_digest", "votes", "evidence", "by_name",
    "for_name", "data_only", "factor",
)  # fmt: skip
VOTE = (
    "stage",
    "action",
    "feedback",
    "payload",
    "edited_content",
    "external",
    "via",
    "content_digest",
    "digest",
    "by_name",
    "for_name",
    "factor",
)
"""Columns that the document holds as the rows do."""
NAMES: dict[str, Any] = {
    "by_name": {**text(), "description": "What the person was called then."},
    "for_name": {**text(), "description": "And who that one stood in for."},
    "early_at": {
        **TIME_OR_NULL,
        "description": "When it came, where that was before its question.",
    },
    "factor": {**text(16), "description": "The second factor that was proven, where one was."},
    "factor_at": {**TIME_OR_NULL, "description": "When it was."},
}
NEWER = ("answers", "answers_without_input")
OLDER = {"ways": OBJECT, "bare": LIST}
"""What a question's answers were called in documents of before, in the same order."""
VOTE_ROW = record(
    {
        "id": shown("vote"),
        "action": text(64),
        "feedback": text(),
        "payload": {"type": ["object", "null"]},
        "edited_content": text(),
        "voter": {
            "type": ["string", "null"],
            "maxLength": 200,
            "description": "Null where external.",
        },
        "seat": {"type": ["string", "null"], "maxLength": 200, "description": "Whose vote it is."},
        "external": {
            **text(254),
            "description": "The mail address of who voted without an account.",
        },
        "voted_at": TIME,
        "via": text(16),
        "content_digest": DIGEST,
        "digest": DIGEST,
        "stage": {**text(40), "description": "The stage of the review that it counted at."},
        **NAMES,
    },
    optional=(*NAMES, "stage"),
)
COMMENT_ROW = record(
    {
        "id": shown("cmt"),
        "author": text(200),
        "by_name": {**text(), "description": "What the author was called then."},
        "text": {**text(), "description": "Empty where the author took it back."},
        "path": {**text(), "description": "The file of the patch that it is about."},
        "line": {"type": ["integer", "null"], "minimum": 1},
        "side": one_of("", "old", "new"),
        "made_at": TIME,
        "withdrawn_at": TIME_OR_NULL,
        "mentions": {**LIST, "description": "The accounts that it mentions."},
        "asked": {**LIST, "description": "Those of them whose opinion it asks."},
    },
    optional=("path", "line", "side"),
)
PAUSE_ROW = record(
    {
        "id": shown("pse"),
        "run_id": shown("run"),
        "checkpoint_id": shown("ckpt"),
        **{name: of_column(Pause, name) for name in Pause.CARD},
        "content_digest": DIGEST,
        "status": one_of("open", "answered", "cancelled", "expired"),
        "patch_digest": DIGEST_OR_EMPTY,
        "opened_at": TIME,
        "closed_at": TIME_OR_NULL,
        "outside": {
            **OBJECT,
            "description": "Who without an account was asked too, and what they were shown.",
        },
        "votes": {
            **listed(VOTE_ROW),
            "description": "Also those of a question that was then closed otherwise.",
        },
        "comments": {
            **listed(COMMENT_ROW),
            "description": "What people said to each other at it.",
        },
        **{name: {**shape, "deprecated": True} for name, shape in OLDER.items()},
        "imported": MARK,
    },
    optional=(
        *("kind", "calls", "outside", "votes", "comments", "imported", "summary"),
        *(*NEWER, *OLDER),
    ),
    anyOf=[{"required": [*NEWER]}, {"required": [*OLDER]}],
)
DECISION_ROW = record(
    {
        "id": shown("dec"),
        "pause_id": shown("pse"),
        "action": text(64),
        "feedback": text(),
        "payload": {
            "type": ["object", "null"],
            "description": "The data that came with the answer.",
        },
        "edited_content": {
            **text(),
            "description": "The content as it was approved, where a reviewer edited it.",
        },
        "decided_by": {
            "type": ["string", "null"],
            "maxLength": 200,
            "description": "Null where the template's rules answered.",
        },
        "external": {
            **text(254),
            "description": (
                "The mail address of who answered by the link sent there, without an account."
            ),
        },
        "on_behalf_of": {
            "type": ["string", "null"],
            "maxLength": 200,
            "description": "For whom, by a delegation.",
        },
        "votes": {
            **LIST,
            "description": (
                "Digests of the votes where several had to approve; they are with the question."
            ),
        },
        "evidence": {
            **DIGEST_OR_EMPTY,
            "description": "The blob that holds what the reviewer was shown.",
        },
        "goes_on_at": {**TIME_OR_NULL, "description": "Until then it could be taken back."},
        "undoes": {
            **shown("dec", null=True),
            "description": "The decision that this one takes back.",
        },
        "decided_at": TIME,
        "via": text(16),
        "revision": COUNT,
        "content_digest": DIGEST,
        "ledger": {
            **OBJECT,
            "description": (
                "Its place in the chain of the server where it was given; the chain itself "
                "stays there."
            ),
        },
        "data_only": {"type": "boolean", "description": "It brought data, and approved nothing."},
        **NAMES,
        "imported": MARK,
    },
    optional=(
        "edited_content",
        "external",
        "on_behalf_of",
        "votes",
        "evidence",
        "goes_on_at",
        "undoes",
        "data_only",
        *NAMES,
        "imported",
    ),
)


def _pause(pause: Pause) -> Document:
    return {
        "id": pause.shown_id,
        "run_id": ids.show(Run.PREFIX, pause.run_id),
        "checkpoint_id": ids.show(Checkpoint.PREFIX, pause.checkpoint_id),
        **{name: opened(pause, name) for name in PAUSE},
        "opened_at": pause.opened_at.isoformat(),
        "closed_at": pause.closed_at.isoformat() if pause.closed_at else None,
        "votes": [_vote(vote) for vote in pause.votes.all()],
        "comments": [_comment(comment) for comment in pause.comments.all()],
    }


def _read_pauses(thread: Thread) -> Any:
    votes = Prefetch("votes", Vote.objects.select_related("voter", "seat").order_by("pk"))
    with_people = Comment.objects.select_related("author").prefetch_related("mentions__person")
    comments = Prefetch("comments", with_people.order_by("pk"))
    return Pause.objects.filter(run__thread=thread).prefetch_related(votes, comments).order_by("pk")


def _comment(comment: Comment) -> Document:
    mentions = sorted(comment.mentions.all(), key=lambda mention: mention.person.get_username())
    return {
        "id": comment.shown_id,
        "author": comment.author.get_username(),
        "by_name": comment.by_name,
        **{name: opened(comment, name) for name in ("text", "path", "line", "side")},
        "made_at": comment.made_at.isoformat(),
        "withdrawn_at": comment.withdrawn_at.isoformat() if comment.withdrawn_at else None,
        "mentions": [mention.person.get_username() for mention in mentions],
        "asked": [mention.person.get_username() for mention in mentions if mention.asked],
    }


def _vote(vote: Vote) -> Document:
    return {
        "id": vote.shown_id,
        **{name: opened(vote, name) for name in VOTE},
        "voter": vote.voter.get_username() if vote.voter else None,
        "seat": vote.seat.get_username() if vote.seat else None,
        "voted_at": vote.voted_at.isoformat(),
        "early_at": vote.early_at.isoformat() if vote.early_at else None,
        "factor_at": vote.factor_at.isoformat() if vote.factor_at else None,
    }


def _read_decisions(thread: Thread) -> Any:
    return (
        Decision.objects.filter(pause__run__thread=thread)
        .select_related("decided_by", "on_behalf_of")
        .order_by("pk")
    )


def _decision(decision: Decision) -> Document:
    return {
        "id": decision.shown_id,
        "pause_id": ids.show(Pause.PREFIX, decision.pause_id) if decision.pause_id else None,
        **{name: opened(decision, name) for name in DECISION},
        "decided_by": decision.decided_by.get_username() if decision.decided_by else None,
        "on_behalf_of": decision.on_behalf_of.get_username() if decision.on_behalf_of else None,
        "decided_at": decision.decided_at.isoformat(),
        "early_at": decision.early_at.isoformat() if decision.early_at else None,
        "factor_at": decision.factor_at.isoformat() if decision.factor_at else None,
        "goes_on_at": decision.goes_on_at.isoformat() if decision.goes_on_at else None,
        "undoes": ids.show(Decision.PREFIX, decision.undoes_id) if decision.undoes_id else None,
        "ledger": {
            "name": decision.ledger_id,
            **{name: getattr(decision, name) for name in ("position", "previous", "digest")},
        },
    }


SECTIONS = (
    Section(
        name="pauses",
        after="runs",
        row=PAUSE_ROW,
        prefix=Pause.PREFIX,
        write=lambda thread, *, root: [_pause(pause) for pause in _read_pauses(thread)],
        run_column="run_id",
        blobs=lambda row: [row["patch_digest"]],
    ),
    Section(
        name="decisions",
        after="pauses",
        row=DECISION_ROW,
        prefix=Decision.PREFIX,
        write=lambda thread, *, root: [_decision(decision) for decision in _read_decisions(thread)],
        blobs=lambda row: [row.get("evidence", "")],
    ),
)
