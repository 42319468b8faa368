"""Stepping around a review: a run that begins behind a reviewed step with a step, a state or input
of one's own, on the record.

That is for operators with a right to it, who say why. It approves nothing: a step that asks whether
its effect was approved (`runs.engine.approvals`) still finds no approval. What is recorded is a
question that was closed with its answer: so the ledger, receipts, exports, verification and erasure
need to know nothing of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.events import log
from checkpoints.models import Checkpoint, EventKind
from checkpoints.state import codec
from hitl.decisions import services, step_up
from hitl.decisions.reviewers import policy
from hitl.ledger import chain
from hitl.models import STEP_AROUND, Decision, Via
from runs import services as runs
from runs.models import Pause, Run
from runs.services.forks import STEPPED_AROUND, NothingToFork, check_reason
from runs.states import NotificationStage, PauseStatus
from runs.threads import turns
from runs.threads.turns import ThreadBusy, Turn
from runs.workflows.reviews import rules as review_rules
from runs.workflows.sequence import FrozenStep, named

RIGHT = "runs.step_around_review"
PHASE = "stepped_around"


def say(thread_id: uuid.UUID, turn: Turn, *, by: User, via: Via) -> Run:
    """`runs.threads.turns.invoke` for a turn that steps around what stands in its way.

    Raises as it, forks.ReasonMissing, policy.NotAllowed.
    """
    _check_right(by)
    reason = check_reason(turn.reason)
    try:
        with transaction.atomic(durable=True):
            return _record_bypass(
                turns.take_turn(thread_id, turn, by=by), by=by, via=via, reason=reason
            )
    except IntegrityError as error:  # run_one_live_per_thread: of two turns at once one wins
        raise ThreadBusy(
            gettext("Another run of this thread began at the same moment. Nothing was changed.")
        ) from error


def fork(
    checkpoint_id: uuid.UUID,
    *,
    by: User,
    via: Via,
    reason: str,
    state: Mapping[str, Any] | None,
    around: str | None = None,
) -> Run:
    """`services.fork` that steps around what stands in its way.

    Raises as it, and policy.NotAllowed.

    `around` is why the review is stepped around, where that is said apart from why there is a fork.
    """
    _check_right(by)
    checkpoint = services.find_checkpoint(checkpoint_id, by=by)
    reason = check_reason(reason)
    why = reason if around is None else check_reason(around)
    try:
        with transaction.atomic(durable=True):
            return _record_bypass(
                runs.begin_fork(checkpoint.pk, by=by, reason=reason, state=state, around=True),
                by=by,
                via=via,
                reason=why,
            )
    except IntegrityError as error:
        raise runs.too_late_to_fork(checkpoint_id) from error
    except codec.NotJson as error:
        raise NothingToFork(str(error)) from error


def may_step_around(by: User) -> bool:
    return by.has_perm(RIGHT)


def _check_right(by: User) -> None:
    if not may_step_around(by):
        message = gettext(
            "Bypassing a review needs a right of its own (“Can bypass a review”), so nothing began."
        )
        raise policy.NotAllowed("step_around_not_allowed", message)


def _record_bypass(run: Run, *, by: User, via: Via, reason: str) -> Run:
    """Write down what a new run steps around, where it does.

    Call inside the transaction that made it.
    """
    first = Checkpoint.objects.get(run_id=run.pk)
    passed = [named(run.frozen.steps, name) for name in first.metadata.get(STEPPED_AROUND, [])]
    if not passed:
        return run
    reviews = [review_rules.of(step) or {} for step in passed]
    factor = step_up.proven_by(
        by,
        {"step_up": any(review.get("step_up") for review in reviews)},
        high=any(review.get("risk") == "high" for review in reviews),
    )
    pause = _question(run, first, passed, reason)
    pause.save(force_insert=True)
    decision = Decision(
        pause=pause,
        action=STEP_AROUND,
        feedback=reason,
        decided_by=by,
        decided_at=pause.opened_at,
        factor=factor.kind if factor else "",
        factor_at=factor.at if factor else None,
        via=via,
        revision=pause.revision,
        content_digest=pause.content_digest,
    )
    told = {
        "decision_id": decision.shown_id,
        "by": decision.name,
        "reason": reason,
        "via": str(via),
    }
    event = {
        "what": "stepped_around",
        "pause_id": pause.shown_id,
        "step": pause.step,
        "review": _titles(passed),
        **told,
    }
    log.append(run.thread_id, run.pk, [(EventKind.PAUSE_UPDATED, event)])
    chain.append(decision)
    return run


def _question(run: Run, first: Checkpoint, passed: Sequence[FrozenStep], reason: str) -> Pause:
    """What was decided, as a closed question: which reviews, what they were about, and what the run
    begins with.
    """
    now = clock.now()
    facts = [
        *_facts(run, passed),
        ["Begins at", first.next_step or "the end"],
        ["Begins with the state", first.digest],
    ]
    content = (
        f"Nobody answered by the rules of {_titles(passed)} for what this run begins with.\n\n"
        f"Reason: {reason}"
    )
    return Pause(
        run=run,
        checkpoint=first,
        step=passed[0]["name"],
        phase=PHASE,
        status=PauseStatus.ANSWERED,
        question=f"Bypass the review of {_titles(passed)}?"[:300],
        content=content,
        facts=facts,
        content_digest=codec.digest(codec.encode({"content": content, "facts": facts})),
        answers={STEP_AROUND: first.next_step},
        labels={STEP_AROUND: "Bypassed the review"},
        opened_at=now,
        closed_at=now,
        told=NotificationStage.END,
    )


def _facts(run: Run, passed: Sequence[FrozenStep]) -> Iterator[list[str]]:
    """Of each review its rules, and the last question of its step on this thread, with the digest
    of what was asked about.
    """
    for step in passed:
        yield [
            f"Rules of {step['name']}",
            codec.digest(codec.encode(step.get("review") or step.get("sub_steps", []))),
        ]
        asked = (
            Pause.objects.filter(run__thread=run.thread_id, step=step["name"])
            .exclude(phase=PHASE)
            .order_by("-id")
            .first()
        )
        if asked is not None:
            text = (
                f"{asked.shown_id}, revision {asked.revision}, "
                f"{asked.get_status_display().lower()}: {asked.content_digest}"
            )
            yield [f"Last asked at {step['name']}", text]


def _titles(passed: Sequence[FrozenStep]) -> str:
    return " and ".join(f"“{step['title']}”" for step in passed)
