"""What a step gets: its `Context`, and the functions in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from runs.workflows.attachments import File
from runs.workflows.base import files
from runs.workflows.base.orders import Order, PullRequest, PullRequestDraft
from runs.workflows.base.outcomes import Approval, Failure, Outcome, StepFailed
from runs.workflows.base.workspaces import Workspace

BELOW = "\x1f"
"""Between the name of a step and that of a child run that asks for it: no name holds it."""


class RequireApproval(Protocol):
    """Raises StepFailed unless what is about to be done is what was approved: call it right before
    an effect.

    `of` is the step that asked: its function, its name in the template, or the name of its
    function. The answer to the last question of that step must be an approval: `approve`, or an
    answer that is declared one (`approves` of a choice or of an `Ask`); no other ever is. Or the
    step passed its review, as its template allows (`may_pass`). The answer is looked up in the
    ledger, and counts only by the rules that the step has, for this run, and for a state that
    nobody edited since. Where `material` is given, it must be the `Report.material` of that
    question, to the letter.

    What was never asked is refused, too. `optional=True` says that an approval is wanted only where
    the template asks for one: without a pause after that step it goes on, and the receipt says
    that nothing was asked. `of=""` is the last of the steps before this one that the template
    pauses after and somebody answered.

    Codes: `approval_missing` (nobody was asked), `not_approved` (the answer is no approval),
    `content_changed` (it was given for something else), `approval_of_unknown_step`.
    """

    def __call__(self, of: str | Step, material: Any = None, *, optional: bool = False) -> None: ...


class ContentOf(Protocol):
    """Gives the bytes of a file that came with the order or with an answer: of a field of the type
    File, or of what a state holds of it. Raises StepFailed (`file_missing`).
    """

    def __call__(self, file: File | Mapping[str, Any]) -> bytes: ...


def _no_file(file: File | Mapping[str, Any]) -> bytes:
    """For steps called outside the engine."""
    raise StepFailed("There is no file here.", code="file_missing")


class TellProgress(Protocol):
    """Says how far this step has come: `progress(300, 1_000, unit="rows")`.

    A page shows a bar, from the first call on and until the step ends. A row is written once in a
    second at most, the last one always; no log has it, and a new try begins without one.

    Args:
        done: how much is done; a number that is smaller than before is taken as well.
        of: out of how much; None where nobody knows.
        unit: of what, in the plural.
    """

    def __call__(self, done: float, of: float | None = None, *, unit: str = "") -> None: ...


def _nobody_looks(done: float, of: float | None = None, *, unit: str = "") -> None:
    """For steps called outside the engine."""


def _nobody_is_asked(of: str | Step, material: Any = None, *, optional: bool = False) -> None:
    """For steps called outside the engine."""


def _no_forge(wanted: PullRequestDraft) -> PullRequest:
    raise StepFailed(
        "No forge is set for this repository, so no pull request was opened.", code="no_forge"
    )


class GiveCredential(Protocol):
    """A secret by the name that operators gave it, to be used and not kept; `to` is the address
    that it is going to be sent to.

    Whatever the step writes from then on has a marker in its place. Without `to`, as for a program,
    there is none that is bound to hosts. Raises StepFailed (`credential_missing`,
    `credential_host`, `credential_locked`).
    """

    def __call__(self, name: str, *, to: str = "") -> str: ...


def _no_credential(name: str, *, to: str = "") -> str:
    """For steps called outside the engine."""
    raise StepFailed(f"There is no credential {name!r} here.", code="credential_missing")


class Log(Protocol):
    """Writes a line to the run's log: seen live on the page, kept with the thread.

    Lines that follow quickly are written together, within 50 ms. After 2,000 of one execution
    (`WAYSTATION_LOG_LINES`) the others are kept as its artifact `log`. A call raises what writing
    an earlier line raised.
    """

    def __call__(self, message: str, *, level: str = "info", **data: Any) -> None: ...


Told = tuple[Literal["tool_call_started", "tool_call_completed", "log"], Mapping[str, Any]]
"""What a step may tell of its work while it works: kind of event, and its data."""


class Once(Protocol):
    """Gives the recorded result of `key`, or calls `function` and records what it gives (a JSON
    value).

    Safe from several threads of one step. A crash between the call and its record lets `function`
    run again: hand it `Context.key`. Before the call, and before its result is recorded, the run
    must still be this worker's, else it raises Stopped. What is under way at the moment in which
    the run is cancelled or taken over cannot be stopped: hand `Context.fence` to a receiver that
    keeps the highest it has seen, and refuses less. What `tell` makes of the result goes to the log
    in the commit that records it, and never again.

    Behind a step that the template has reviewed, it is called after `require_approval`. A step that
    relied on no decision until then is told of in the log, by `manage.py invariants` and by the
    test kit. `optional=True` says that this needs no approval: it reads or computes, such as a
    question to a model, and changes nothing outside.
    """

    def __call__(
        self,
        key: str,
        function: Callable[[], Any],
        *,
        tell: Callable[[Any], Told] | None = None,
        optional: bool = False,
    ) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a step may know and use besides its state."""

    run_id: str
    """Shown id, `run_…`."""
    step: str
    """The step's name in its template."""
    loop_num: int
    """How often this step has run in this run, from 1."""
    key: str
    """The same at every attempt of this step: give it as idempotency key to whatever is called
    outside.
    """
    fence: int = 0
    """Grows each time a worker takes the run: a receiver that remembers the highest can refuse a
    worker that was replaced.
    """
    config: Mapping[str, Any]
    """The step template's configuration, frozen with the order."""
    order: Order
    """What was asked for."""
    log: Log
    """`log("Read 300 rows", rows=300)`: a line of the run's log."""
    once: Once
    """`once("charge", charge_card)`: the result is recorded in a commit of its own and never
    computed again for this execution.
    """
    check: Callable[[], None]
    """Raise `Stopped` when the run was cancelled or taken over.

    Call it between pieces of long work.
    """
    workspace: Workspace
    """The git work tree of the order's repository."""
    recorded: Callable[[Collection[str]], Mapping[str, Any]] = lambda keys: {}
    """Those of these keys that `once` has recorded for this execution, each with its result."""
    stream: Callable[[str], None] = lambda text: None
    """Say something while the step works, token by token: seen live, gathered for up to 50 ms, kept
    with the log, in no checkpoint.
    """
    think: Callable[[str], None] = lambda text: None
    """The same for what is thought aloud and is no part of what is said."""
    keep: Callable[[str, str], None] = lambda name, text: None
    """`keep("prompt", text)`: kept with the run as an artifact, for people to read; cut where it is
    too long. In a commit of its own.
    """
    artifact: Callable[[str, bytes], dict[str, Any]] = files.told
    """`artifact("offer.pdf", content)`: a file that the step made, kept with the run for people to
    save, and for later steps: what it gives is what a state holds of it, and `content_of` reads.
    The same name again in this execution takes its place. In a commit of its own.

    A name of 1 to 80 signs without a slash, 1 byte to 5 MB, else StepFailed (`file_refused`). Known
    secrets are taken out of a text.
    """
    content_of: ContentOf = _no_file
    """`content_of(order.invoice)`: the bytes of a file that somebody handed in or a step made
    (docs/how-to/files.md).
    """
    progress: TellProgress = _nobody_looks
    """`progress(done, of, unit="rows")`: how far this step is, as a bar on pages and over REST
    (docs/how-to/progress.md).
    """
    emit: Callable[
        [Literal["tool_call_started", "tool_call_completed", "log"], Mapping[str, Any]], None
    ] = lambda kind, data: None
    """Tell of a tool's call, in a small commit of its own, behind all that was streamed so far."""
    shared: Path = Path()
    """A folder that all workers see, for what a workflow reads and keeps outside its runs."""
    sub_steps: Sequence[str] = ()
    """Names of the step template's sub-steps, in order; empty where it has none."""
    stops: Sequence[str] = ()
    """What is named within this step in `interrupt_before` of its run: there it answers a Go to
    itself with `stop`.
    """
    stops_after: Sequence[str] = ()
    """The same of `interrupt_after`: behind that it answers a Go to itself with `stop_after`."""
    reducers: Mapping[str, str] = field(default_factory=dict)
    """Key of the state → how what is new joins it; a key that is not here is replaced."""
    thread_id: str = ""
    """Shown id of the thread that the run works on."""
    may_pass: str = ""
    """When this step may pass its review, as its template says; "" where it may not."""
    failure: Failure | None = None
    """The step that failed for good and led here (`use(…, on_failure=…)`), until it is done after
    all; in a step of `on_cancel` or `on_expire` how the run ended; None where there is neither.
    """
    halting: Callable[[], bool] = lambda: False
    """Whether the run should come to a step boundary soon: a person wants it suspended, or the
    worker ends. Long work that can be parted answers a Go to its own step then.
    """
    approvals: Mapping[str, Approval] = field(default_factory=dict)
    """By step, and by the name of its function."""
    require_approval: RequireApproval = _nobody_is_asked
    """`require_approval(plan)`, right before an effect: raises StepFailed where nobody approved.
    """
    decided_calls: Callable[[str], Mapping[str, Mapping[str, Any]]] = lambda step: {}
    """What people decided of the tool calls that a step asked about last, from the ledger: see
    `runs.workflows.tool_calls.approved`.
    """
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The configurations of the template's steps, by the name of their function: for a step that
    checks what another one decided.
    """
    propose: Callable[[PullRequestDraft], PullRequest] = _no_forge
    """Open a pull request for the order's branch at the repository's forge, or bring the open one
    up to date: never a second one.

    Raises StepFailed: `no_forge`, `forge_refused`, `forge_away` and `forge_limit`, where trying
    again later may help."""

    credential: GiveCredential = field(default=_no_credential, repr=False)
    """`credential("forge", to=url)`: a secret by name (docs/how-to/secrets.md)."""
    reach: Sequence[str] = ()
    """Hosts and networks that operators let tools read from though they are not public: see
    `runs.security.ssrf`.
    """

    def approved(self, of: str) -> Approval | None:
        """The approval of what a step asked last; None where the answer is none, or there is
        none.
        """
        answer = self.answered(of)
        return answer if answer is not None and answer.approves else None

    def answered(self, of: str, *, child: str = "") -> Approval | None:
        """The answer to what a step asked last, if it let the run go on: an approval, data, or any
        other answer of the template's own. With `child` that to what a child run of this name
        asked for the step (`asks_beside`).
        """
        return self.approvals.get(below(of, child) if child else of)


def below(step: str, child: str) -> str:
    """Name what a child run was answered that asks for a step, beside the names of steps."""
    return f"{step}{BELOW}{child}"


Step = Callable[[Any, Context], Outcome]
"""A step function: it gets the state and a context, and gives an outcome."""
