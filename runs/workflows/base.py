"""The words a workflow is written in: what a step gets, what it may answer, and how it is
registered.

Nothing here knows Django, Celery or Channels: a step can be called in a test, a notebook or another
engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from runs.workflows.tool_calls import Call as Call

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
    """The run no longer belongs to this worker (cancelled, or taken over): stop and write
    nothing.
    """


@dataclass(frozen=True, kw_only=True)
class Commit:
    """The code's state after a step, so that any worker can restore it.

    `bundle` is a git bundle of `base..sha` (empty where the two are equal): with the repository at
    `base` it is all that is needed.
    """

    sha: str
    base: str
    bundle: bytes = b""
    commits: int | None = None
    """How many commits `base..sha` holds; None where nobody counted."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a reviewer is shown when the run pauses after this step."""

    content: str
    """Markdown; sanitised when shown."""
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


@dataclass(frozen=True, kw_only=True)
class Approval:
    """A person's answer to what a step asked last, other than revise or cancel."""

    action: str
    """`approve`, or an answer of the template's own."""
    decision_id: str
    revision: int
    material: str
    """Digest of `Report.material`; where the report named none, of the whole state."""


@dataclass(frozen=True, kw_only=True)
class Go:
    """The step is done: merge `update` into the state and go on.

    `to` names the next step; None means the next one of the template. Where the template pauses
    after this step, `report` is what the reviewer sees.
    """

    update: Mapping[str, Any] = field(default_factory=dict)
    to: str | None = None
    report: Report | None = None
    commit: Commit | None = None


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
    are asked for data
    alone, by the answer `answer`, where the step itself looks at them before it goes on."""
    question: str = ""
    """In words for them; "" the question's own."""
    content: str = ""
    """Markdown, for them."""
    ways: Sequence[str] = ()
    """The answers that they may give; empty for all. Never cancel."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """Pause until somebody answers.

    `ways` maps each answer's name to the step it leads to ("" ends the run).

    The run goes on from the checkpoint that the answer writes; the step that asked is not run again
    unless a way leads to it.
    """

    question: str
    ways: Mapping[str, str]
    report: Report
    update: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    """Button texts of answers beyond approve, revise and cancel."""
    max_revisions: int = 3
    phase: str = ""
    """What the run is said to wait for, e.g.

    `awaiting_plan_approval`, or the reason that blocks it, e.g. `missing_supplier_data`.
    """
    required_inputs: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schema (2020-12) of an object that comes with every answer but revise and cancel; empty
    where words are enough.

    The card shows it as a form. What fits it joins the state by the workflow's reducers; what does
    not leaves the question open."""
    known: Mapping[str, Any] = field(default_factory=dict)
    """What the form begins with."""
    bare: Sequence[str] = ()
    """Answers that bring no data all the same, such as a refusal."""
    calls: Sequence[Call] = ()
    """Tool calls that the answer decides one by one; then `answer` is among the ways, and
    `required_inputs` follows from them.

    `approve`, where it is a way, approves all as they stand. See
    `runs.workflows.wait_for_input.ask_about_calls`."""
    kind: Literal["", "approval", "input", "tools", "external"] = ""
    """What is wanted: a verdict, data, a decision per call, or the answer of another system. ""
    follows from the rest.
    """
    midway: bool = False
    """Asked in the middle of an execution, which goes on with the answer: under the same key and
    number, where a way leads back to the
    step. So what `Context.once` recorded before the question holds after it."""
    outside: Outside | None = None
    prompt_id: str = ""
    """What programs answer it under (`promptId`), beside its own id: up to 200 letters, digits and
    `. _ : ~ @ = + -`.
    """
    commit: Commit | None = None


@dataclass(frozen=True, kw_only=True)
class Done:
    """The run is complete.

    `report` is what a child run hands to its parent, to be shown where that pauses.
    """

    update: Mapping[str, Any] = field(default_factory=dict)
    commit: Commit | None = None
    report: Report | None = None


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


FailurePolicy = Literal["fail_fast", "collect"]


@dataclass(frozen=True, kw_only=True)
class Gather:
    """Start child runs and go on when all have ended. While it waits, the run holds nothing.

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
    on_failure: FailurePolicy = "fail_fast"
    """`fail_fast`: the first child that does not complete cancels the others and fails the run.

    `collect`: go on with those that did.
    """
    report: Report | None = None
    """Shown where the run pauses after the join; else what the children reported."""
    commit: Commit | None = None


Outcome = Go | Ask | Done | Gather


@dataclass(frozen=True, kw_only=True)
class DeliveryPolicy:
    """What may leave with an order's work, as its repository's settings say: frozen with the order,
    and never more than they say now.
    """

    push: Literal["never", "asked", "branch"] = "asked"
    """Whether the branch is pushed: not at all, where the order asks for it, or always."""
    pull_request: Literal["never", "draft", "ready"] = "never"
    base_branch: str = ""
    """Where the order's branch begins and its pull request leads; "" for the repository's default
    branch.
    """

    def pushes(self, *, asked: bool) -> bool:
        return self.push == "branch" or (self.push == "asked" and asked)


@dataclass(frozen=True, kw_only=True)
class PullRequestDraft:
    """A pull request as it should be: what a forge is asked for."""

    branch: str
    base: str
    """"" for the repository's default branch."""
    title: str
    body: str
    """Markdown."""
    draft: bool = False


@dataclass(frozen=True, kw_only=True)
class PullRequest:
    """A pull request, or merge request, that is open at a forge."""

    number: int
    url: str
    """Where people see it."""
    opened: bool
    """Whether it was opened just now; else it was there, and has the wanted title and body now."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What was asked for, frozen when it was asked.

    A run on a thread without a work order gets one made of that thread.
    """

    id: str
    """Shown id, `wo_…`; `thr_…` where there is no work order."""
    title: str
    request: str
    input: Mapping[str, Any]
    """Checked against the template's input schema."""
    repository_url: str
    """An absolute local path or a remote URL, checked when the order was made; "" for workflows
    without code.
    """
    branch: str
    """`waystation/<id>`; a child run works on a branch of its own, `waystation/<id>-<run id>`."""
    check_command: Sequence[str] = ()
    """The repository's own check, an argument list that an operator wrote; empty when there is
    none.
    """
    user_id: int | None = None
    """Who asked for this run."""
    author: str = "Waystation <waystation@localhost>"
    """Git author and committer of the run's commits, `Name <mail>`."""
    page: str = ""
    """Where people see it."""
    delivery: DeliveryPolicy = DeliveryPolicy()


def effect(what: str, *, undo: str = "") -> str:
    """A sentence for `Report.effects`: what is done, and how it can be undone afterwards, if it
    can.
    """
    return f"{what} {f'To undo that: {undo}' if undo else 'That cannot be undone.'}"


class RequireApproval(Protocol):
    """Raises StepFailed unless what is about to be done is what a person approved: call it right
    before an effect.

    `of` names the step that asked, or its function. Where the template asks after that step, its
    last question must have been answered so that the run went on (`approval_missing`); the answer
    is looked up, and is one only by the rules that the step has, for this run, and for a state that
    nobody edited since (`content_changed`). Where `material` is given, it must be the
    `Report.material` of that question, to the letter (`content_changed`). A template that does not
    ask needs no approval. "" is the last of the steps before this one that the template pauses
    after and somebody approved; calls of tools that were approved midway are no such thing.
    """

    def __call__(self, of: str, material: Any = None) -> None: ...


def _nobody_is_asked(of: str, material: Any = None) -> None:
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


class Code(Protocol):
    """Which commit it is, and the one that the order's branch began at; a `Commit` is one."""

    @property
    def sha(self) -> str: ...

    @property
    def base(self) -> str: ...


class Workspace(Protocol):
    """A git work tree of one order.

    Every method raises `StepFailed` with a sentence for the person, and honours `Context.check`.
    """

    path: Path

    @property
    def at(self) -> Code | None:
        """The checkpoint's commit, which `restore` goes to; None where no checkpoint has one yet.

        Asks no git.
        """

    def restore(self) -> None:
        """Make `path` a clean work tree of the order's branch at the checkpoint's commit, cloning
        when it is not there.
        """

    def run(self, arguments: Sequence[str], *, timeout: float | None = None) -> Completed:
        """Run a program in the work tree: no shell, own process group, killed with its children at
        the time or output limit.
        """

    def follow(
        self,
        arguments: Sequence[str],
        said: Callable[[str, str], None],
        *,
        environment: Mapping[str, str] = ...,
        pass_on: Sequence[str] = ...,
        stdin: str = ...,
        timeout: float | None = ...,
        max_output: int | None = ...,
    ) -> int:
        """Run a program in the work tree and hear it line by line; gives its exit code, 128 and
        more for a signal.

        When it ends, or is ended, all that it started ends with it, also what left its process
        group: SIGTERM first, soon SIGKILL.

        Args:
            said: called with "output" or "errors" and a line without its end; what it raises ends
            the program. environment: joins the little that programs are given. pass_on: names of
            variables of the worker's own environment; those that operators allow are given too.
            max_output: bytes of both outputs together; more ends the program (`output_limit`).
        """

    def scratch(self, name: str, text: str) -> Path:
        """Write a file that programs may read and that is not in the work tree."""

    def git(self, *arguments: str) -> str:
        """Run git in the work tree and give its output; the repository's own hooks and
        configuration are never executed.
        """

    def head(self) -> str:
        """The commit the work tree is at."""

    def base(self) -> str:
        """The commit the order's branch began at."""

    def reset(self, sha: str) -> None:
        """Put branch and work tree back to `sha`."""

    def commit(self, message: str, paths: Sequence[str]) -> str:
        """Commit just `paths`, with the order's author, and give the new commit."""

    def snapshot(self) -> Commit:
        """The present commit with the bundle that restores it."""

    def push(self) -> None:
        """Push the order's branch to the origin. Pushing the same commit again changes nothing.

        Raises StepFailed: `push_rejected`, `forge_refused` where the origin does not let us,
        `forge_away`, `forge_limit`."""


@dataclass(frozen=True, kw_only=True)
class Completed:
    """A program that ended.

    `output` is stdout, `errors` stderr, both decoded and cut at the output limit.
    """

    returncode: int
    output: str
    errors: str


class Log(Protocol):
    """Writes a line to the run's log: seen live on the page, kept with the thread."""

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
    """

    def __call__(
        self, key: str, function: Callable[[], Any], *, tell: Callable[[Any], Told] | None = None
    ) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a step may know and use besides its state."""

    run_id: str
    step: str
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
    log: Log
    once: Once
    """`once("charge", charge_card)`: the result is recorded in a commit of its own and never
    computed again for this execution.
    """
    check: Callable[[], None]
    """Raise `Stopped` when the run was cancelled or taken over.

    Call it between pieces of long work.
    """
    workspace: Workspace
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
    emit: Callable[
        [Literal["tool_call_started", "tool_call_completed", "log"], Mapping[str, Any]], None
    ] = lambda kind, data: None
    """Tell of a tool's call, in a small commit of its own, behind all that was streamed so far."""
    shared: Path = Path()
    """A folder that all workers see, for what a workflow reads and keeps outside its runs."""
    sub_steps: Sequence[str] = ()
    """Names of the step template's sub-steps, in order; empty where it has none."""
    thread_id: str = ""
    """Shown id of the thread that the run works on."""
    halting: Callable[[], bool] = lambda: False
    """Whether the run should come to a step boundary soon: a person wants it suspended, or the
    worker ends. Long work that can be parted
    answers a Go to its own step then."""
    approvals: Mapping[str, Approval] = field(default_factory=dict)
    """By step, and by the name of its function."""
    require_approval: RequireApproval = _nobody_is_asked
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
    """`credential("forge", to=url)`."""

    reach: Sequence[str] = ()
    """Hosts and networks that operators let tools read from though they are not public: see
    `runs.security.ssrf`.
    """

    def approved(self, of: str) -> Approval | None:
        """The answer to what a step asked last, if it let the run go on."""
        return self.approvals.get(of)


Step = Callable[[State, Context], Outcome]


class ConfigInvalid(Exception):
    """A step template's configuration cannot be used.

    `errors` maps each place in it to sentences.
    """

    code = "config_invalid"

    def __init__(self, errors: Mapping[str, list[str]]) -> None:
        super().__init__(
            " ".join(f"{place}: {text}" for place, texts in errors.items() for text in texts)
        )
        self.errors = dict(errors)
