"""Closing a question: with a person's answer, or with what its rules say.

One decision is written, and the run moves; all of it or nothing.

Only `services.decide` and the deadline come here, with everything checked.
"""

from __future__ import annotations

import datetime as dt
import uuid

from django.db import transaction
from django.db.models import Q

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.state import redaction
from hitl.decisions.answers import Answer
from hitl.decisions.reviewers import policy
from hitl.decisions.reviewers.outsiders import Outsider
from hitl.decisions.reviewers.policy import Actor
from hitl.ledger import chain
from hitl.models import Decision, Via, Vote
from runs import services as runs
from runs.models import Pause
from runs.states import NotificationStage
from runs.workflows import external_reviewers
from runs.workflows.sequence import APPROVE

PASSED = "Passed by the workflow"
"""What the reason of a step that passed its review begins with."""


@transaction.atomic(durable=True)
def decide_by_policy(pause: Pause, *, action: str, feedback: str, at: dt.datetime) -> Decision:
    """Record what the rules of a question, `answerable`, say of it at its deadline, and let the run
    act on it. It is nobody's vote.

    Raises PauseClosed where it was answered, or its deadline moved, since it was read; what `close`
    raises else.
    """
    decision = record_policy_decision(pause, action=action, feedback=feedback, at=at)
    chain.append(decision)
    return decision


def record_policy_decision(
    pause: Pause, *, action: str, feedback: str, at: dt.datetime
) -> Decision:
    """`decide_by_policy` without the decision's place in its ledger: whoever calls gives it one, at
    the end of this transaction.
    """
    answer = Answer(action, Via.POLICY, feedback=feedback)
    return _closed(
        pause,
        answer,
        by=None,
        seat=None,
        votes=[],
        at=at,
        while_=runs.unmoved(pause),
    )


def by_workflow(pause_id: uuid.UUID, reason: str) -> Decision:
    """Record that a step passed its review, as its template allows, and let the run go on.

    The question was asked in this transaction, so nobody sees it open and nobody is told of it.
    Call inside a transaction.
    """
    Pause.objects.filter(pk=pause_id).update(told=NotificationStage.END)
    pause = Pause.objects.answerable().get(pk=pause_id)
    answer = Answer(APPROVE, Via.WORKFLOW, feedback=f"{PASSED}: {reason}")
    at, open_yet = clock.now(), runs.While(Q)
    return close(pause, answer, by=None, seat=None, votes=[], at=at, while_=open_yet)


def close(
    pause: Pause,
    answer: Answer,
    *,
    by: Actor | None,
    seat: Actor | None,
    votes: list[Vote],
    at: dt.datetime,
    while_: runs.While,
) -> Decision:
    """Close the pause, write the decision and move the run.

    Call inside a transaction; `while_` is as for `Resumption`.
    """
    decision = _closed(pause, answer, by=by, seat=seat, votes=votes, at=at, while_=while_)
    chain.append(decision)  # last: the ledger's row stays locked until the commit
    return decision


def _closed(
    pause: Pause,
    answer: Answer,
    *,
    by: Actor | None,
    seat: Actor | None,
    votes: list[Vote],
    at: dt.datetime,
    while_: runs.While,
) -> Decision:
    """`close`, but for the decision's place in its ledger, which comes last."""
    action, payload = answer.action, answer.payload
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
        factor=answer.factor.kind if answer.factor else "",
        factor_at=answer.factor.at if answer.factor else None,
        data_only=isinstance(by, Outsider)
        and not external_reviewers.counts(pause.review, by.address),
        decided_at=at,
        goes_on_at=runs.goes_on_at(pause, action, now=at),
        via=answer.via,
        revision=pause.revision,
        content_digest=pause.content_digest,
    )
    details = {
        **({"external": True} if decision.external else {}),
        **({"data_only": True} if decision.data_only else {}),
        **({"early": True} if decision.early_at else {}),
        **({"factor": decision.factor} if decision.factor else {}),
        **({"on_behalf_of": policy.name_of(seat)} if seat and seat != by else {}),
        **({"edited": True} if decision.edited_content else {}),
        **({"votes": len(votes)} if votes else {}),
        "via": answer.via,
        "revision": pause.revision,
        **({"sender": redaction.redact(dict(answer.sender))} if answer.sender else {}),
    }
    resumption = runs.Resumption(
        action=action,
        decision_id=decision.shown_id,
        by=decision.name,
        at=at,
        while_=while_,
        feedback=answer.feedback,
        # what it decides of tool calls is in the ledger alone (`tool_calls.decided`)
        update=answer.update if payload is None or pause.calls else payload,
        edited=decision.edited_content,
        external=decision.external,
        by_rules=by is None,
        goes_on_at=decision.goes_on_at,
        details=details,
    )
    runs.resume(pause, resumption)
    return decision
