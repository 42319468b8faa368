"""Closing a question: with a person's answer, or with what its rules say.

One decision is written, and the run moves; all of it or nothing.

Only `services.decide` and the deadline come here, with everything checked.
"""

from __future__ import annotations

import datetime as dt

from django.db import transaction
from django.db.models import Q

from checkpoints.database.people import User
from checkpoints.state import redaction
from hitl.decisions import policy, tool_calls, voting
from hitl.decisions.external_reviewer import Outsider
from hitl.decisions.policy import Actor
from hitl.ledger import chain
from hitl.models import Decision, Via, Vote
from runs import services as runs
from runs.models import Pause
from runs.services.undo import goes_on_at
from runs.states import FailureCode, PauseStatus
from runs.workflows import external_reviewers
from runs.workflows.sequence import CANCEL


@transaction.atomic(durable=True)
def by_policy(pause: Pause, *, action: str, words: str, at: dt.datetime) -> Decision:
    """Record what the rules of a question, `answerable`, say of it at its deadline, and let the run
    act on it. It is nobody's vote.

    Raises PauseClosed where it was answered, or its deadline moved, since it was read; what `close`
    raises else.
    """
    answer = voting.Answer(action, Via.POLICY, words, None, None, None, None)
    return close(
        pause,
        answer,
        by=None,
        seat=None,
        votes=[],
        at=at,
        while_=Q(deadline_at=pause.deadline_at, stage=pause.stage),
    )


def close(
    pause: Pause,
    answer: voting.Answer,
    *,
    by: Actor | None,
    seat: Actor | None,
    votes: list[Vote],
    at: dt.datetime,
    while_: Q,
) -> Decision:
    """Close the pause, write the decision and move the run.

    Call inside a transaction; `while_` is as for `close_pause`.
    """
    action, payload = answer.action, answer.payload
    runs.close_pause(
        pause,
        PauseStatus.CANCELLED if action == CANCEL else PauseStatus.ANSWERED,
        at=at,
        while_=while_,
    )
    decision = Decision(
        pause=pause,
        action=action,
        feedback=answer.feedback,
        payload=None if payload is None else redaction.redact(dict(payload)),
        edited_content=answer.edited_content or "",
        decided_by=by if isinstance(by, User) else None,
        external=by.address if isinstance(by, Outsider) else "",
        on_behalf_of=seat if isinstance(seat, User) and seat != by else None,
        votes=[vote.digest for vote in votes],
        early_at=answer.early_at,
        data_only=isinstance(by, Outsider)
        and not external_reviewers.counts(pause.review, by.address),
        decided_at=at,
        goes_on_at=goes_on_at(pause, action, now=at),
        via=answer.via,
        revision=pause.revision,
        content_digest=pause.content_digest,
    )
    name = decision.name
    told = {
        "decision_id": decision.shown_id,
        "decision": action,
        "feedback": answer.feedback,
        "by": name,
        **({"external": True} if decision.external else {}),
        **({"data_only": True} if decision.data_only else {}),
        **({"early": True} if decision.early_at else {}),
        **({"on_behalf_of": policy.name_of(seat)} if seat and seat != by else {}),
        **({"edited": True} if decision.edited_content else {}),
        **({"votes": len(votes)} if votes else {}),
        "via": answer.via,
        "revision": pause.revision,
        **({"sender": redaction.redact(dict(answer.sender))} if answer.sender else {}),
    }
    if action == CANCEL:
        code = FailureCode.CANCELLED_BY_USER if by else FailureCode.CANCELLED_BY_POLICY
        runs.cancel_paused(pause, by=name, answer=told, code=code)
    else:
        runs.resume(
            pause,
            action=action,
            by=name,
            feedback=answer.feedback,
            answer=told,
            update=tool_calls.brought(pause, action, payload, answer.update),
            edited=decision.edited_content,
            external=decision.external,
            at=decision.goes_on_at,
        )
    chain.append(decision)
    return decision
