"""What a step answers, and the errors it ends with."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from runs.workflows.base.workspaces import Commit
from runs.workflows.refusals import FieldsRefused
from runs.workflows.tool_calls import Call

State = dict[str, Any]
"""A run's state: a JSON object.

Keys are the workflow's own, beside `revision_feedback` (the reviewer's latest words, or "").

A step gets it read-only, at any depth: it reads and copies (`copy.deepcopy(state["plan"])` is
ordinary again), and says what changes in the update it returns. An attempt to change it raises
TypeError."""


class StepFailed(Exception):
    """A step cannot go on, and says so in words for the person who asked: what happened, what was
    kept, what to do.

    `code` is stable and machine readable; the run ends `failed` with it as its `failure_code`.
    Where the step's policy tries it again, that is not before `after` seconds, which whoever
    refused has named.
    """

    def __init__(self, message: str, *, code: str = "step_failed", after: float = 0.0) -> None:
        super().__init__(message)
        self.code = code
        self.after = after


class Stopped(Exception):
    """The run no longer belongs to this worker (cancelled, or taken over): stop and write nothing.
    A step does not catch it.
    """


@dataclass(frozen=True, kw_only=True)
class Failure:
    """How a step failed for good, or the run ended: `context.failure` of the steps that follow, by
    `on_failure` (docs/how-to/failures-and-ends.md) or by `on_cancel` and `on_expire`
    (docs/how-to/cleanup-on-cancel.md).
    """

    step: str
    """The step that failed."""
    loop_num: int
    """Which of its executions it was, from 1."""
    message: str
    """Its words, without the secrets that it was given: up to 1,000 characters."""
    type: str
    """Name of the error's class."""
    code: str
    """Stable: as the run's `failure_code` would have been; of an end `cancelled_by_user`,
    `cancelled_by_policy` or `expired`."""
    tries: int
    """How often it was tried."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a reviewer is shown when the run pauses after this step."""

    content: str
    """Markdown; sanitised when shown."""
    title: str = ""
    """What is asked, in a line, such as "Refund 120 EUR to Ana Ruiz?": the question where the step
    is used without `question`. Up to 300 characters."""
    summary: str = ""
    """What a row of the inbox says beside the question; the first sentence of the content where
    this is empty. Plain text, up to 300 characters."""
    patch: str = ""
    """Unified diff, shown apart from the content; part of what is approved."""
    facts: Mapping[str, str | int] = field(default_factory=dict)
    """Short label → value pairs above the content, in this order."""
    effects: Sequence[str] = ()
    """What approving will do outside this run, and whether that can be undone: see `effect`."""
    material: Any = None
    """The JSON value that counts: what is done later must be done for just this
    (`Context.require_approval`). An answer is bound to it and the facts, so other words around it
    are no other content. None: content, patch, facts and the whole state all count."""
    review: Mapping[str, object] | None = None
    """A `Review` that narrows the rules of the step for this one question: named `reviewers`, a
    higher `quorum`, a higher `risk`, `self_approval` false. It never widens them
    (`runs.workflows.reviews.narrowing`)."""


@dataclass(frozen=True, kw_only=True)
class Approval:
    """The answer to what a step asked last, other than revise or cancel: a person's, or that the
    step passed its review as its template allows.
    """

    action: str
    """`approve`, or an answer of the template's own."""
    approves: bool = True
    """Whether that answer is declared an approval. `Context.approved` gives no other."""
    decision_id: str
    revision: int
    material: str
    """Digest of `Report.material`; where the report named none, of the whole state."""


@dataclass(frozen=True, kw_only=True)
class Go:
    """The step is done: merge `update` into the state and go on.

    `to` names the next step; None means the next one of the template. Where the template pauses
    after this step, it asks first, wherever the step wants to go, and `report` is what the
    reviewer sees; an approval leads there. A step that goes to itself is still at work and is not
    asked.
    """

    update: Mapping[str, Any] = field(default_factory=dict)
    """Joins the state by the workflow's reducers."""
    to: str | None = None
    """The step that follows; None for the next one of the template, its own name for a loop."""
    report: Report | None = None
    """What the reviewer sees where the template pauses after this step."""
    commit: Commit | None = None
    """The code behind this step, as `workspace.snapshot()` gives it."""
    pass_review: str = ""
    """Why nobody has to be asked this time, such as "0.97 is over 0.9": the step passes its review,
    which its template must allow (`use(…, may_pass=…)`). It is recorded as a decision of the
    workflow's over this report."""
    stop: str = ""
    """What comes next within the step, where its run is to ask before that (`context.stops`): the
    run stops here as behind `interrupt_after`, and whoever lets it go on approves nothing."""
    stop_after: str = ""
    """What has just ended within the step, where its run is to ask behind that
    (`context.stops_after`): it stops as with `stop`."""


@dataclass(frozen=True, kw_only=True)
class Outside:
    """People without an account who are asked too, by mail: whoever holds the link that is sent to
    an address answers under it.

    They see what stands here and the form of `required_inputs`, nothing else of the question, the
    run or its reviewers. A question whose rules or calls are of high risk is put to nobody outside.
    """

    to: Sequence[str]
    """Mail addresses.

    Those that the step's rules do not name as `external` may come from who asked for the work: they
    are asked for data alone, by the answer `answer`, where the step itself looks at them before it
    goes on.
    """
    question: str = ""
    """In words for them; "" the question's own."""
    content: str = ""
    """Markdown, for them."""
    answers: Sequence[str] = ()
    """The answers that they may give; empty for all. Never cancel."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """Pause until somebody answers.

    `answers` maps each answer's name to the step it leads to ("" ends the run).

    The run goes on from the checkpoint that the answer writes; the step that asked is not run again
    unless an answer leads to it. Where its template pauses after the step too, an answer that leads
    to another step needs one that approves (`review_missing`).
    """

    question: str
    """In a line."""
    answers: Mapping[str, str]
    """`{"approve": "send", "revise": "draft", "cancel": ""}`: name → the step it leads to."""
    report: Report
    """What stands below the question."""
    update: Mapping[str, Any] = field(default_factory=dict)
    """Joins the state before the question is asked."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Button texts of answers beyond approve, revise and cancel."""
    approves: Sequence[str] = ()
    """The answers that are approvals beside `approve`: `Context.require_approval` passes for
    them, and for no other."""
    max_revisions: int = 3
    """How often it may be sent back."""
    phase: str = ""
    """What the run is said to wait for, e.g. `awaiting_plan_approval`, or the reason that blocks
    it, e.g. `missing_supplier_data`.
    """
    required_inputs: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schema (2020-12) of an object that comes with every answer but revise and cancel; empty
    where words are enough. Where the review rules name stages, with a property for each stage that
    brings data.

    The card shows it as a form. What fits it joins the state by the workflow's reducers; what does
    not leaves the question open."""
    known: Mapping[str, Any] = field(default_factory=dict)
    """What the form begins with."""
    answers_without_input: Sequence[str] = ()
    """Answers that bring no data all the same, such as a refusal."""
    calls: Sequence[Call] = ()
    """Tool calls that the answer decides one by one; then `answer` is among the answers, and
    `required_inputs` follows from them.

    `approve`, where it is among the answers, approves all as they stand. See
    `runs.workflows.wait_for_input.ask_about_calls`."""
    kind: Literal["", "approval", "input", "tools", "external"] = ""
    """What is wanted: a verdict, data, a decision per call, or the answer of another system. ""
    follows from the rest.
    """
    midway: bool = False
    """Asked in the middle of an execution, which goes on with the answer: under the same key and
    number, where a way leads back to the step. So what `Context.once` recorded before the question
    holds after it.
    """
    outside: Outside | None = None
    """Whom it asks by mail too."""
    review: Mapping[str, object] | None = None
    """As `Report.review`: narrows the rules of the step for this question."""
    within: dt.timedelta | None = None
    """How long this question waits, in place of the deadline of the step's review rules.

    For questions that want data or an event. A verdict (`approve` is among the answers) waits as
    its rules say."""
    otherwise: str = ""
    """The answer that is taken when `within` is over and nobody has answered: one that brings no
    data, so it is among `answers_without_input` too; "" lets the question expire."""
    prompt_id: str = ""
    """What programs answer it under (`promptId`), beside its own id: up to 200 letters, digits and
    `. _ : ~ @ = + -`.
    """
    commit: Commit | None = None
    """The code behind this step, as `workspace.snapshot()` gives it."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """The run is complete; where the template pauses after this step, once that is approved.

    `report` is what the reviewer sees then, and what a child run hands to its parent, to be shown
    where that pauses.
    """

    update: Mapping[str, Any] = field(default_factory=dict)
    """Joins the state by the workflow's reducers. `conclusion` says how the work ended beside
    *Completed*, in up to 200 characters."""
    commit: Commit | None = None
    """The code behind this step, as `workspace.snapshot()` gives it."""
    report: Report | None = None
    pass_review: str = ""
    """As of `Go`."""


@dataclass(frozen=True, kw_only=True)
class Child:
    """A run beside others, on a thread of its own: it starts from its parent's state and takes
    sub-steps of the step that gathers.
    """

    name: str
    """How its result and its card are called; unique within one Gather."""
    steps: Sequence[str] = ()
    """Names of the step template's sub-steps, in the order they run; empty for all of them."""
    update: Mapping[str, Any] = field(default_factory=dict)
    """Joins the state that it starts from, by the workflow's reducers."""


ChildFailure = Literal["stop", "continue"]
FailurePolicy = Literal["fail_fast", "collect"]
"""What `on_child_failure` says `stop` and `continue` for."""


@dataclass(frozen=True, kw_only=True)
class Gather:
    """Start child runs and go on when all have ended. While it waits, the run holds nothing.

    `at_once` of them are started, and each that ends lets the next one start: the others wait in
    the run's own rows, so there may be up to 100,000 (docs/how-to/rate-and-concurrency.md).

    What a child changed in its state joins the parent's by the workflow's reducers, in the order of
    `children`; `state["gathered"]` holds for each name `{"run_id", "status", "error"}`. A child may
    pause; its card names this order.
    """

    children: Sequence[Child]
    update: Mapping[str, Any] = field(default_factory=dict)
    """Joins the state before the children start from it."""
    to: str | None = None
    """The step after the join; None means the next one of the template."""
    into: str = ""
    """Where named, what each child changed is kept under this key as `{name: changes}` instead of
    joining the state itself.
    """
    at_once: int | None = None
    """How many may be started and not ended, those that wait for people too. None, and more than
    it: WAYSTATION_GATHER_WIDTH (100)."""
    rate: str = ""
    """How many may start in a time: `60/min`, `1/s`, `500/h`, `10/day`; "" for any number."""
    on_child_failure: ChildFailure = "stop"
    """`stop`: the first child that does not complete cancels the others and fails the run.

    `continue`: go on with those that did; `state["gathered"]` says who failed, and why.
    """
    on_failure: FailurePolicy | None = None
    """What `on_child_failure` was called before: `fail_fast` for `stop`, `collect` for
    `continue`."""
    report: Report | None = None
    """Shown where the run pauses after the join; else what the children reported."""
    commit: Commit | None = None
    """The code behind this step, as `workspace.snapshot()` gives it."""

    @property
    def failure_policy(self) -> FailurePolicy:
        """What becomes of the others where one fails, as it is kept."""
        return self.on_failure or (
            "collect" if self.on_child_failure == "continue" else "fail_fast"
        )


@dataclass(frozen=True, kw_only=True)
class Sleep:
    """The step is done, and the next one begins at a given time: a durable timer.

    Until then the run is a row that is due later. It holds no worker, connection or memory, and
    outlives every process. It goes on within a few tenths of a second where the time is at most
    30 s away, else a few seconds after it (the sweep's interval, `WAYSTATION_SWEEP_SECONDS`, and
    `WAYSTATION_PATIENCE_SECONDS`).

    Exactly one of `for_` and `until` is given. A step that sleeps is not the last one. Where its
    template pauses after it, an approval leads to the timer, and `for_` counts from then. Cancel
    ends a run that sleeps; a run that was suspended, retried or forked meanwhile does not sleep
    again.
    """

    for_: dt.timedelta | None = None
    """How long, from the end of the step or from the approval behind it; at most ten years."""
    until: dt.datetime | None = None
    """When the next step begins, with a time zone; a time in the past is no wait."""
    update: Mapping[str, Any] = field(default_factory=dict)
    """Joins the state by the workflow's reducers."""
    to: str | None = None
    """The step that follows; None means the next one of the template."""
    reason: str = ""
    """What the run waits for, in words for its page: up to 200 characters."""
    commit: Commit | None = None
    """The code behind this step, as `workspace.snapshot()` gives it."""
    report: Report | None = None
    """What the reviewer sees where the template pauses after this step."""
    pass_review: str = ""
    """As of `Go`."""


Outcome = Go | Ask | Done | Gather | Sleep
"""What a step gives."""


def effect(what: str, *, undo: str = "") -> str:
    """A sentence for `Report.effects`: what is done, and how it can be undone afterwards, if it
    can.
    """
    return f"{what} {f'To undo that: {undo}' if undo else 'That cannot be undone.'}"


class ConfigInvalid(FieldsRefused):
    """A step template's configuration cannot be used: `ConfigInvalid.of("retries", "0 to 5.")`
    names one place in it, `ConfigInvalid({"retries": ["0 to 5."], …})` several.
    """

    code = "config_invalid"
