"""Look up what people approved when it counts, and again before an effect that needs the approval.

A checkpoint's metadata holds, by step, the id of the decision on the step's last question:
`approved: {step: "dec_…"}`; "" says that there was a decision which does not count any more. The id
is a name and no verdict: the rows that `WAYSTATION_DECISIONS` reads hold the answer, its rules and
what it was given for, and `flaw` says whether the decision counts for this run.

A person who edits a state behind an answer, or names a place to begin at, takes the approvals away
(`dropped`); `runs.services.forks.terms` decides when. From then on the metadata says `edited`: a
step with review rules is then never passed over, and never counts as a step that asks nobody.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from django.conf import settings
from django.db.models import QuerySet

from checkpoints import ids
from checkpoints.models import Checkpoint, Thread
from checkpoints.state import codec
from runs.engine import questions
from runs.engine.decisions import descent
from runs.engine.decisions.records import DecisionRecord as DecisionRecord
from runs.engine.decisions.records import reader
from runs.models import Pause, Run
from runs.states import STOPS
from runs.workflows import external_reviewers, refusals, registry, sequence
from runs.workflows.base import BELOW, Approval, Step, StepFailed, below
from runs.workflows.reviews import narrowing, stages
from runs.workflows.reviews import rules as review_rules
from runs.workflows.sequence import FrozenStep

KEY, MATERIAL, SKIPPED, EDITED, RELIED = "approved", "material", "skipped", "edited", "relied"
"""Keys of metadata: decisions by step; the digest of a question's material; steps that were passed
over; whether a person edited the state before; and the decisions that a step relied on, each with
the digest of what the step was to do.
"""
APPROVES, UNASKED = "approves", "unasked"
"""Keys of metadata: the answers to a question that are approvals beside `approve`; and the steps
whose approval a step went on without, since its template does not ask there.
"""
ABOVE = "above"
"""The value of EDITED in a child run whose parent's state was edited before the child began; else
the value is True.
"""
STAYS = "between_runs"
"""The value of EDITED where the thread's state was edited between its runs: its later turns take it
over.
"""
UNAPPROVED_EFFECT = "unapproved_effect"
PREFIX = "dec"


class Progress(Protocol):
    """The part of `runs.engine.context.claimed_run.Progress` that approvals need."""

    approved: Mapping[str, DecisionRecord]
    metadata: Mapping[str, Any]
    written: tuple[Checkpoint, dict[str, Any]]

    def rely_on(self, step: str, decision_id: str, material: str) -> None: ...

    def go_unasked(self, steps: Iterable[str]) -> None: ...


class Claimed(Protocol):
    """The part of a run that a worker holds (`runs.engine.context.claimed_run.ClaimedRun`) that
    approvals need.
    """

    @property
    def run(self) -> Run: ...
    @property
    def steps(self) -> list[FrozenStep]: ...
    @property
    def progress(self) -> Progress: ...


def digest_of(material: Any) -> str:
    """Make the digest of what an answer is for. Raises codec.NotJson."""
    codec.check(material, "material")
    return codec.digest(codec.encode(material))


def material_of(pause: Pause, *, edited: str = "") -> str:
    """Give the digest of what an answer is for; of the text as `edited`, where the answer is for
    the question's content itself.

    The answer is for the material that the step named, or else for the whole state in which the
    step asked. "" where the question's digest does not cover the named material.
    """
    named = pause.checkpoint.metadata.get(MATERIAL)
    if named is None:
        return pause.checkpoint.digest
    if (
        questions.digest([{"material": named}], pause.facts, pause.required_inputs, pause.calls)
        != pause.content_digest
    ):
        return ""
    return digest_of(edited) if edited and named == digest_of(pause.content) else str(named)


def named(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Read the decisions by step: step → id of the decision, "" for one that does not count any
    more.
    """
    records = metadata.get(KEY, {})
    if not isinstance(records, Mapping):
        return {}
    # until version 0.1 the metadata held the whole decision; only the id in it is believed
    return {
        step: str(record.get("decision", "") if isinstance(record, Mapping) else record)
        for step, record in records.items()
    }


def asking(
    metadata: Mapping[str, Any], step: str, material: Any, *, approves: Sequence[str] = ()
) -> dict[str, Any]:
    """Give what the checkpoint of a question records: the step's earlier approval holds no more."""
    before = named(metadata)
    left = {KEY: _without(before, step)} if before else {}
    return {
        **left,
        **({MATERIAL: digest_of(material)} if material is not None else {}),
        **({APPROVES: list(approves)} if approves else {}),
    }


def _without(names: Mapping[str, str], step: str) -> dict[str, str]:
    """Leave out what a step asked, itself or by child runs."""
    return {name: key for name, key in names.items() if name.partition(BELOW)[0] != step}


def handed_up(
    before: Mapping[str, str], step: str, heads: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """Give the value of KEY once child runs have asked for a step: the answers that their last
    checkpoints name are what the step asked last.

    Args:
        before: the value until now.
        heads: child → metadata of its last checkpoint.
    """
    given = {below(step, child): named(head).get(step, "") for child, head in heads.items()}
    return {**_without(before, step), **given}


def approving(pause: Pause) -> frozenset[str]:
    """List the answers to a question that are approvals."""
    return frozenset({sequence.APPROVE, *pause.checkpoint.metadata.get(APPROVES, ())})


def answered(pause: Pause, action: str, decision_id: str, *, external: str = "") -> dict[str, Any]:
    """Give what the checkpoint of an answer records, where the answer lets the run go on.

    `external`: see `counts`. An answer by other rules than the frozen step's, as to another
    engine's question, approves nothing that a run does (`flaw`).
    """
    before = named(pause.checkpoint.metadata)
    asked_by = _rules(pause.run.frozen.steps, pause.step)
    asks_for_approval = pause.phase not in STOPS and bool(approving(pause) & {*pause.answers})
    if (
        pause.phase not in STOPS
        and action != sequence.REVISE
        and counts(pause.review, external)
        and (asked_by is None or narrowing.is_narrowed(asked_by, pause.review))
    ):
        return {KEY: {**before, pause.step: decision_id}}
    if before and asks_for_approval:
        # this step asked last of the steps with its function: an earlier approval holds no more
        return {KEY: {**before, pause.step: ""}}
    return {KEY: before} if before else {}


def counts(rules: Mapping[str, Any], external: str) -> bool:
    """Whether an answer without an account is a verdict: it is where the rules name the address.

    Else it is data: a step, or the person who asked for the work, chose the address.
    """
    return not external or external_reviewers.counts(rules, external)


def dropped(metadata: Mapping[str, Any], *, same_definition: bool = True) -> dict[str, Any]:
    """Give what stands in place of KEY and SKIPPED behind an edit: earlier approvals do not count
    any more.
    """
    gone = dict.fromkeys(named(metadata), "") if same_definition else {}
    return {EDITED: True, **staying(metadata), **({KEY: gone} if gone else {})}


def staying(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Give what of a thread's last checkpoint holds for its next turn, too."""
    return {EDITED: STAYS} if metadata.get(EDITED) == STAYS else {}


def look_up(run: Run, head: Checkpoint, names: Mapping[str, str]) -> dict[str, DecisionRecord]:
    """Find those decisions in `names` (step → id) that count for a run whose last written
    checkpoint is `head`.
    """
    keys = {step: key for step, name in names.items() if (key := _key(name)) is not None}
    if not keys:
        return {}
    decisions = reader(settings.WAYSTATION_DECISIONS).find(set(keys.values()))
    records = {step: record for step in keys if (record := decisions.get(names[step])) is not None}
    return {step: record for step, record in records.items() if not flaw(record, run, head, step)}


def _key(name: str) -> uuid.UUID | None:
    try:
        return ids.parse(PREFIX, name)
    except ValueError:
        return None


def flaw(record: DecisionRecord, run: Run, head: Checkpoint, step: str) -> str:
    """Say why a decision is no approval of the result of `step`, for a run whose last checkpoint is
    `head`; "" where it is one.
    """
    if BELOW in step:
        return _flaw_below(record, run, *step.split(BELOW, 1))
    rules = _rules(run.frozen.steps, step)
    if record.step != step or rules is None:
        return "another step asked"
    if record.definition != run.definition_id or not narrowing.is_narrowed(rules, record.review):
        return "it was asked by other rules"
    if not record.goes_on or record.phase in STOPS or record.action not in record.answers:
        return "it approves nothing, or was taken back"
    if (record.content_digest, record.revision) != (
        record.asked_digest,
        record.asked_revision,
    ) or not record.material:
        return "it answered other content"
    if wrong := _unfounded(record, sequence.named(run.frozen.steps, step)):
        return wrong
    return (
        ""
        if descent.descends(run, head, record)
        else "it was given elsewhere, or what it was given for was edited since"
    )


def _flaw_below(record: DecisionRecord, run: Run, step: str, child_name: str) -> str:
    """`flaw` of an answer that a child run got, which asked for a step of this run or of one that
    this run retries or forks.
    """
    head = Checkpoint.objects.filter(pk__in=_heads(record.thread_id)).first()
    child = Run.objects.filter(pk=head.run_id, child_name=child_name).first() if head else None
    before = (
        descent.attempts(run, child.parent_id) if child is not None and child.parent_id else None
    )
    if child is None or head is None or {*(before or {}).values()} != {run.definition_id}:
        return "another run asked"
    if named(head.metadata).get(step) != record.decision_id:
        return "it was asked again since"
    return flaw(record, child, head, step)


def _heads(thread_id: uuid.UUID) -> QuerySet[Thread, uuid.UUID | None]:
    return Thread.objects.filter(pk=thread_id).values_list("head", flat=True)


def _unfounded(record: DecisionRecord, step: FrozenStep) -> str:
    """Say why the rules of a question do not lead to this decision; "" where they do."""
    rules = record.review
    if rules.get("step_up") and not record.proven:
        return "it was approved without a second factor"
    if record.passed:
        may = step.get("may_pass") and record.action == sequence.APPROVE
        return "" if may and rules.get("risk") != "high" else "the step may not pass its review"
    if record.by_rules:
        if rules.get("deadline", {}).get("outcome") != record.action:
            return "the rules do not decide so by themselves"
    elif stages.of(rules):
        if not stages.kept_to(rules, record.stages):
            return "not all stages of the review approved"
    elif rules.get("quorum", 1) > 1:
        if record.votes < rules["quorum"]:
            return "too few approved"
    elif not counts(rules, record.external):
        return "the rules ask nobody at that address"
    return ""


def _rules(steps: Sequence[FrozenStep], step: str) -> Mapping[str, Any] | None:
    return next((review_rules.of(other) for other in steps if other["name"] == step), None)


def settle(run: Run, head: Checkpoint) -> tuple[dict[str, DecisionRecord], dict[str, str]]:
    """Look up the decisions that the head of a run names, once when the run is claimed.

    Gives the decisions that count, and the value of KEY from here on: "" for those that do not.
    """
    names = named(head.metadata)
    approved = look_up(run, head, names)
    return approved, {step: name if step in approved else "" for step, name in names.items()}


def given(
    approved: Mapping[str, DecisionRecord], steps: Sequence[FrozenStep]
) -> dict[str, Approval]:
    """Give the approvals by the name of each step, and by the name of its function, too; those that
    child runs got for a step by `below`.
    """
    approvals: dict[str, Approval] = {}
    names = {step["name"]: (step["function"], step["name"]) for step in steps}
    for name, record in approved.items():
        if name in names or BELOW in name:
            approval = Approval(
                action=record.action,
                approves=record.approves,
                decision_id=record.decision_id,
                revision=record.revision,
                material=record.material,
            )
            approvals |= dict.fromkeys(names.get(name, (name,)), approval)
    return approvals


def decided_calls(held: Claimed, step: str) -> Mapping[str, Mapping[str, Any]]:
    """Give people's decisions on the tool calls that a step asked about last: call's id → decision.

    They come from the decision's record; what the state says about them does not count.
    """
    record = held.progress.approved.get(step)
    if record is None or not record.calls:
        return {}
    held.progress.rely_on(step, record.decision_id, "")
    return {
        name: {**call, "decision_id": record.decision_id}
        for name, call in record.decided_calls.items()
    }


def require(
    held: Claimed, of: str | Step, material: Any = None, *, at: str = "", optional: bool = False
) -> None:
    """See `runs.workflows.base.RequireApproval`. `at` is the step that requires the approval."""
    wanted = digest_of(material) if material is not None else ""
    steps = _pausing_before(held.steps, at) if of == "" else _steps_of(held.steps, of)
    metadata, names = held.progress.metadata, named(held.progress.metadata)
    if of == "":  # the last step before `at` that pauses and was not passed over
        left = [step for step in steps if not _passed_over(metadata, step)]
        steps = [step for step in left if step["name"] in names][-1:] or left
    theirs = {step["name"] for step in steps}
    asked = {name: key for name, key in names.items() if name.partition(BELOW)[0] in theirs}
    if not asked:
        return _without_answer(held, of, steps, optional=optional)
    # looked up again, though it was at the claim: an effect follows
    approved = look_up(held.run, held.progress.written[0], asked)
    asking = {name.partition(BELOW)[0] for name in asked}
    title = next(step["title"] for step in reversed(steps) if step["name"] in asking)
    if len(approved) < len(asked):
        raise StepFailed(
            f"What {title} came to was changed by a person since it was approved, "
            "or that approval does not count here. "
            "Nothing was done. Have it approved as it is now, or go on from the checkpoint of "
            "the answer.",
            code="content_changed",
        )
    latest = max(approved, key=lambda name: _key(approved[name].decision_id) or NOBODY)
    # what was asked at once is approved where all of it is
    counting = [name for name in approved if BELOW in name and BELOW in latest] or [latest]
    reviewed = [name for name in counting if approved[name].reviews]
    if optional and not reviewed and not any(step["pause_after"] for step in steps):
        return _without_answer(held, of, steps, optional=True)
    for name in counting:
        _check_approved(approved[name], title, wanted)
    for name in counting:
        held.progress.rely_on(name, approved[name].decision_id, wanted)
    return None


def _check_approved(record: DecisionRecord, title: str, wanted: str) -> None:
    """Raise StepFailed where the answer to what a step came to is no approval, or is for something
    else than what is `wanted`: a digest, or "".
    """
    if not record.approves:
        raise StepFailed(
            f"The answer to what {title} came to is {record.action!r}, which is no approval "
            f"({record.decision_id}). Nothing was done. Where that answer is meant as one, its "
            "template says so: `approves` of the choice or of the question.",
            code="not_approved",
        )
    if wanted and record.material != wanted:
        raise StepFailed(
            f"What was to be done is not what was approved: {record.decision_id} approved "
            f"revision {record.revision} of what {title} came to, and that was changed since. "
            "Nothing was done. Have it approved as it is now, or go on from the checkpoint of the "
            "answer.",
            code="content_changed",
        )


NOBODY = uuid.UUID(int=0)


def _steps_of(steps: Sequence[FrozenStep], of: str | Step) -> list[FrozenStep]:
    """Find the steps of that name or function. Raises StepFailed where no step is known by it."""
    name = _name_of(of)
    found = [step for step in steps if name in (step["name"], step["function"])]
    if found:
        return found
    if registry.is_known(name):  # of another template
        return []
    known = {step["name"] for step in steps} | {step["function"] for step in steps}
    raise StepFailed(
        f"An approval is required of {name!r}. {refusals.unknown('step', name, known)} Nothing was "
        "done.",
        code="approval_of_unknown_step",
    )


def _name_of(of: str | Step) -> str:
    named = of if isinstance(of, str) else registry.name_of(of)
    return str(getattr(of, "__name__", of)) if named is None else named


def _without_answer(
    held: Claimed, of: str | Step, steps: Sequence[FrozenStep], *, optional: bool
) -> None:
    """Go on where the template asks nobody and the step said `optional`; else raise StepFailed."""
    metadata = held.progress.metadata
    edited = metadata.get(EDITED) and any(map(review_rules.is_reviewed, steps))
    asks = [step for step in steps if step["pause_after"] and not _passed_over(metadata, step)]
    if optional and not edited and not asks:
        held.progress.go_unasked([step["name"] for step in steps] or [_name_of(of)])
        return
    if asks or edited:
        title = (asks or steps)[-1]["title"]
        why = f"Nobody has approved what {title} came to, and this template asks for that."
    elif steps:
        why = (
            f"Nobody has approved what {steps[-1]['title']} came to: it has asked nothing in this "
            "run. Where it need not be asked, the step says `optional=True`."
        )
    else:
        why = (
            "An approval is required of a step that this template does not have, or asks nothing "
            "after. Where it need not be asked, the step says `optional=True`."
        )
    raise StepFailed(
        f"{why} Nothing was done. Go on from the checkpoint where it is asked.",
        code="approval_missing",
    )


def _pausing_before(steps: Sequence[FrozenStep], at: str) -> list[FrozenStep]:
    names = [step["name"] for step in steps]
    return [
        step for step in steps[: names.index(at) if at in names else None] if step["pause_after"]
    ]


def is_behind_review(steps: Sequence[FrozenStep], at: str) -> bool:
    """Whether a step comes after one whose result the template has reviewed."""
    names = [step["name"] for step in steps]
    before = steps[: names.index(at)] if at in names else steps
    return any(step["pause_after"] or step.get("may_pass") for step in before)


def unapproved_effect(key: str) -> dict[str, Any]:
    """Write the log's line about an effect behind a review whose step relied on no decision."""
    return {
        "message": f"{key!r} was done behind a review, and its step relied on no decision: call "
        "`context.require_approval` before it, or say `optional=True`.",
        "level": "warning",
        "code": UNAPPROVED_EFFECT,
    }


def _passed_over(metadata: Mapping[str, Any], step: FrozenStep) -> bool:
    """Whether a step was skipped by its own condition, on a state that no person edited: then there
    is nothing to approve.
    """
    return not metadata.get(EDITED) and step["name"] in metadata.get(SKIPPED, ())
