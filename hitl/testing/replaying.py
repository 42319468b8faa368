"""`replays`: each step of recorded work, called by the code at hand with what it was called with
then, and compared with what it came to.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from checkpoints.export import thread_document
from checkpoints.export.thread_document import Document
from checkpoints.state import codec, redaction, reducers
from hitl.testing import given
from hitl.testing.crashes import differences
from hitl.testing.engine import Engine
from runs import definitions
from runs.definitions.freezing import frozen
from runs.engine import approvals, interruptions, questions
from runs.models import Definition
from runs.states import AFTER, BEFORE, FAILURE, SUSPENDED
from runs.workflows.attachments import File, bytes_of
from runs.workflows.base import (
    Approval,
    Ask,
    Context,
    Done,
    Failure,
    Gather,
    Order,
    Outcome,
    Step,
    StepFailed,
)
from runs.workflows.registry import find, name_of
from runs.workflows.reviews import rules
from runs.workflows.sequence import APPROVE, FrozenStep, UnknownName, conclude


class ReplayDiffers(AssertionError):
    """The code at hand comes to something else than what was recorded; the message says where."""


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What was compared."""

    steps: Sequence[str]
    """`write 2`: step and number, of each execution that came to the same."""
    passed_over: Mapping[str, str]
    """Execution → why it could not be compared."""


class _Unrecorded(BaseException):
    """The step reaches for what the document does not hold. No `except Exception` sees it."""


class _New(_Unrecorded):
    """It reaches for what it did not reach for when it was recorded."""


@dataclass(frozen=True, kw_only=True)
class _Execution:
    """One recorded execution of a step."""

    run: str
    before: Document
    after: Document
    state: codec.State
    came_to: codec.State

    @property
    def step(self) -> str:
        return str(self.before["next_step"])

    @property
    def number(self) -> int:
        return int(self.before["metadata"].get("loops", {}).get(self.step, 0)) + 1

    @property
    def key(self) -> str:
        usual = f"{self.run}/{self.step}/{self.number}"
        return str(self.before["metadata"].get("scope") or usual)

    def __str__(self) -> str:
        return f"{self.step} {self.number}"


@dataclass
class _Recording:
    """A thread's document, as a step asks it."""

    document: Document
    order: Order
    steps: list[FrozenStep]
    used: set[str] = field(default_factory=set)
    relied: dict[str, str] = field(default_factory=dict)

    def memos(self, execution: _Execution) -> dict[str, Any]:
        rows = self.document["memos"]
        return {row["key"]: row["value"] for row in rows if row["scope"] == execution.key}

    def pause(self, checkpoint: str) -> Document | None:
        found = [row for row in self.document["pauses"] if row["checkpoint_id"] == checkpoint]
        return found[0] if found else None

    def context(self, execution: _Execution, step: FrozenStep) -> Context:
        """What the step was given, as far as the document holds it."""
        memos, metadata = self.memos(execution), execution.before["metadata"]
        approved = approvals.named(metadata)
        self.used, self.relied = set(), {}

        def once(
            key: str, function: Callable[[], Any], *, tell: Any = None, optional: bool = False
        ) -> Any:
            if key not in memos:
                raise _New(f"context.once({key!r}) is new: nothing is recorded under it")
            self.used.add(key)
            return memos[key]

        def recorded(keys: Collection[str]) -> dict[str, Any]:
            self.used |= {*keys} & {*memos}
            return {key: memos[key] for key in keys if key in memos}

        def require_approval(
            of: str | Step, material: Any = None, *, optional: bool = False
        ) -> None:
            name = of if isinstance(of, str) else name_of(of)
            asked = [one for one in self.steps if name in ("", one["name"], one["function"])]
            names = [one["name"] for one in asked if approved.get(one["name"])]
            if names:
                wanted = "" if material is None else approvals.digest_of(material)
                self.relied[names[-1]] = wanted
            elif not optional or (name and any(one["pause_after"] for one in asked)):
                raise StepFailed(f"Nobody approved {name}.", code="approval_missing")

        return Context(
            run_id=execution.run,
            thread_id=self.document["thread"]["id"],
            step=step["name"],
            loop_num=execution.number,
            key=execution.key,
            config=step["config"],
            configs={one["function"]: one["config"] for one in self.steps},
            sub_steps=[one["name"] for one in step.get("sub_steps", [])],
            failure=Failure(**metadata[FAILURE]) if FAILURE in metadata else None,
            order=self.order,
            log=lambda message, *, level="info", **data: None,
            once=once,
            recorded=recorded,
            check=lambda: None,
            workspace=_NoWorkTree(),
            shared=Path("/nowhere"),
            approvals=self._given(approved),
            require_approval=require_approval,
            decided_calls=lambda step: _refuse("the tool calls that people decided"),
            propose=lambda wanted: _refuse("the forge"),
            credential=lambda name, *, to="": redaction.MARKER,
            content_of=self._content_of,
        )

    def _content_of(self, file: File | Mapping[str, Any]) -> bytes:
        """The bytes of a file that the document holds."""
        if isinstance(file, Mapping) and "content" in file:
            return bytes_of(file)
        digest = file.sha256 if isinstance(file, File) else str(file.get("sha256", ""))
        if digest not in {row["digest"] for row in self.document["artifacts"] if row.get("media")}:
            raise StepFailed("There is no such file with this run.", code="file_missing")
        return base64.b64decode(self.document["blobs"][digest])

    def _given(self, approved: Mapping[str, str]) -> dict[str, Approval]:
        found = {}
        for step in self.steps:
            for row in self.document["decisions"]:
                if row["id"] == approved.get(step["name"]):
                    pause = next(
                        one for one in self.document["pauses"] if one["id"] == row["pause_id"]
                    )
                    asked = _checkpoint(self.document, pause["checkpoint_id"])
                    approves = asked["metadata"].get(approvals.APPROVES, ())
                    found[step["name"]] = found[step["function"]] = Approval(
                        action=row["action"],
                        approves=row["action"] in {APPROVE, *approves},
                        decision_id=row["id"],
                        revision=row["revision"],
                        material=asked["metadata"].get(approvals.MATERIAL, asked["digest"]),
                    )
        return found


class _NoWorkTree:
    """In place of the git work tree, which no document holds."""

    path = Path("/nowhere")
    at = None

    def __getattr__(self, name: str) -> NoReturn:
        _refuse("the git work tree")


class _UnknownOrder(Order):
    """An order whose words the test did not give: a document holds the thread, not the order."""

    def __getattribute__(self, name: str) -> Any:
        if name in object.__getattribute__(self, "unknown"):
            raise _Unrecorded(
                f"it reads context.order.{name}, which a document does not hold: give replays(…, "
                f"{name}=…)"
            )
        return super().__getattribute__(name)


def replays(
    workflow: Any,
    export: Document | str | Path,
    *,
    template: str = "",
    request: str | None = None,
    input: Mapping[str, Any] | None = None,
    ignore: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> Replayed:
    """Call each recorded step with its recorded state, and compare what it comes to now.

    Nothing is done that `context.once` recorded: it gives the recorded result. The code at hand and
    the template at hand count; so a test tells before a deploy what work in progress would meet.

    Args:
        workflow: as for `play`.
        export: a thread's document (docs/reference/thread-export.md), or the path of its file.
        request, input: the order's, which the document does not hold.
        ignore: keys of the state, at any depth, that may differ.
    Raises:
        ReplayDiffers: with each difference, by step and path; or where nothing could be compared.
        checkpoints.export.thread_document.ImportRefused: the document is damaged, or none.
    """
    raw = codec.encode(export).encode() if isinstance(export, dict) else Path(export).read_bytes()
    document = thread_document.read(raw, limit=len(raw))
    engine = Engine.on_sqlite()
    engine.settings |= settings or {}
    with engine.placed():
        slug = given.load(workflow, template, hire=engine.person)
        definition = Definition(content=frozen(definitions.current(slug)))
        faults: list[str] = []
        same: list[str] = []
        passed: dict[str, str] = {}
        for one in thread_document.family(document):
            order = _order(one, document, request=request, input=input)
            for execution in _executions(one, slug):
                name = (
                    f"{execution}" if one is document else f"{one['thread']['title']}: {execution}"
                )
                recording = _Recording(one, order, _beside(definition.steps, execution.step))
                try:
                    found = _compare(recording, execution, definition, ignore)
                except _New as reason:
                    found = [str(reason)]
                except _Unrecorded as reason:
                    passed[name] = str(reason)
                    continue
                faults += [f"{name}: {line}" for line in found]
                if not found:
                    same.append(name)
    if faults:
        raise ReplayDiffers(
            f"The code at hand differs from what {document['thread']['id']} recorded "
            "(recorded → now):\n" + "\n".join(f"  {line}" for line in faults)
        )
    if not same:
        why = "".join(f"\n  {name}: {reason}" for name, reason in passed.items())
        raise ReplayDiffers(f"Nothing in the document could be compared with {slug!r}.{why}")
    return Replayed(steps=same, passed_over=passed)


def _refuse(what: str) -> NoReturn:
    raise _Unrecorded(f"it uses {what}, which a document does not hold")


def _order(
    document: Document, whole: Document, *, request: str | None, input: Mapping[str, Any] | None
) -> Order:
    started = (row["data"] for row in whole["events"] if row["event"] == "run_started")
    name = next((str(data["work_order_id"]) for data in started if data.get("work_order_id")), "")
    about = whole["thread"]
    order = _UnknownOrder.__new__(_UnknownOrder)
    unknown = {
        key for key, value in (("request", request), ("input", input)) if value is None and name
    }
    object.__setattr__(order, "unknown", unknown)
    Order.__init__(
        order,
        id=name or about["id"],
        title=about["title"],
        request=request or "",
        input=dict(input or document["runs"][0]["input"]),
        repository_url=about["repository_url"],
        branch=f"waystation/{name}",
    )
    return order


def _executions(document: Document, slug: str) -> Iterator[_Execution]:
    """The executions whose beginning and end the document holds."""
    states: dict[str, codec.State] = {}
    rows: dict[str, Document] = {}
    runs = {run["id"] for run in document["runs"] if run["template_slug"] == slug}
    for row in document["checkpoints"]:
        before = states.get(row["parent_id"] or "")
        state = (
            codec.state(row["state"])
            if "state" in row
            else codec.apply(before or {}, row["change"])
        )
        states[row["id"]], rows[row["id"]] = state, row
        parent = rows.get(row["parent_id"] or "")
        pause = next((one for one in document["pauses"] if one["checkpoint_id"] == row["id"]), None)
        ran = (
            parent is not None
            and row["run_id"] in runs
            and parent["next_step"]
            and parent["next_step"] == row["node_id"]
            and row["status"] in {"active", "pending_input", "completed", "failed"}
            and (pause is None or pause["phase"] != BEFORE)
        )
        if ran and parent is not None and before is not None:
            yield _Execution(
                run=row["run_id"], before=parent, after=row, state=before, came_to=state
            )


def _beside(steps: list[FrozenStep], name: str) -> list[FrozenStep]:
    """The steps among which a step of that name stands: the template's, or sub-steps of one."""
    if any(step["name"] == name for step in steps):
        return steps
    for step in steps:
        if found := _beside(step.get("sub_steps", []), name):
            return found
    return []


def _checkpoint(document: Document, name: str) -> Document:
    found: Document = next(row for row in document["checkpoints"] if row["id"] == name)
    return found


def _compare(
    recording: _Recording, execution: _Execution, definition: Definition, ignore: Sequence[str]
) -> list[str]:
    """Where the code at hand comes to something else."""
    after = execution.after
    step = next((one for one in recording.steps if one["name"] == execution.step), None)
    if step is None:
        return ["the template at hand has no such step"]
    failed = after["metadata"].get("failure_code", "") if after["status"] == "failed" else ""
    over = after["metadata"].get(FAILURE, {})  # of this execution, or of one before
    if (over.get("step"), over.get("loop_num")) == (execution.step, execution.number):
        failed = over["code"]
    try:
        outcome = _outcome(recording, execution, step)
    except StepFailed as error:
        return [] if failed == error.code else [f"it failed with {error.code}: {error}"]
    except _New:
        if not failed:
            raise
    except Exception as error:  # noqa: BLE001  # whatever a step raises is told
        return [] if failed == "step_error" else [f"it raised {type(error).__name__}: {error}"]
    if failed:
        raise _Unrecorded(f"it failed with {failed}, and what made it fail is not recorded")
    return [
        *differences(
            _recorded(recording, execution), _now(recording, execution, definition, outcome), ignore
        ),
        *(
            f"context.once({key!r}) is recorded, and not asked for now"
            for key in sorted({*recording.memos(execution)} - recording.used)
        ),
    ]


def _outcome(recording: _Recording, execution: _Execution, step: FrozenStep) -> Outcome:
    skipped = interruptions.skips(step, execution.state)
    was = step["name"] in execution.after["metadata"].get(approvals.SKIPPED, ())
    if skipped != was:
        raise StepFailed(
            "its condition passes it over" if skipped else "its condition does not pass it over",
            code="skip_when",
        )
    if skipped:
        return interruptions.skip(recording.steps, step)
    function = find(step["function"], step.get("function_version", 1))
    outcome = function(execution.state, recording.context(execution, step))
    try:
        given = recording.order.input if "question" in step else None
        return conclude(recording.steps, step["name"], outcome, given=given)
    except UnknownName as error:
        raise StepFailed(str(error), code="unknown_step") from error


def _answers(pause: Document) -> Any:
    """Give the answers of a question; an older document has them under another name."""
    return pause["ways" if "ways" in pause else "answers"]


def _recorded(recording: _Recording, execution: _Execution) -> dict[str, Any]:
    """What the execution came to, as `_now` tells it."""
    after, pause = execution.after, recording.pause(execution.after["id"])
    stopped = pause is not None and pause["phase"] in {AFTER, SUSPENDED}
    told: dict[str, Any] = {"state": _plain(execution.came_to)}
    relied = after["metadata"].get(approvals.RELIED, {})
    told["approvals"] = {name: one["material"] for name, one in relied.items()}
    if pause is not None and not stopped:
        told["question"] = {
            "title": pause["question"],
            "content": pause["content"],
            "patch": _blob(recording.document, pause["patch_digest"]),
            "facts": dict(pause["facts"]),
            "effects": pause["effects"],
            "answers": _answers(pause),
            "required_inputs": pause["required_inputs"],
        }
    elif "gather" in after["metadata"] and not after["next_step"]:
        told["children"] = _children(after, after["metadata"]["gather"].get("children", ()))
    else:
        told["next_step"] = _answers(pause)["approve"] if pause is not None else after["next_step"]
    return told


def _children(after: Document, found: Collection[Any]) -> Any:
    """The names of child runs; where the document does not list them, how many there are."""
    gather = after["metadata"].get("gather", {})
    if "pages" in gather:
        return len(found) or gather["size"]
    return sorted(child["name"] if isinstance(child, dict) else child.name for child in found)


def _now(
    recording: _Recording, execution: _Execution, definition: Definition, outcome: Outcome
) -> dict[str, Any]:
    merged = reducers.apply(execution.state, outcome.update, definition.reducers)
    told: dict[str, Any] = {
        "state": _plain(codec.state(merged, None, redaction.names())),
        "approvals": {**recording.relied},
    }
    if isinstance(outcome, Ask):
        step = next(one for one in recording.steps if one["name"] == execution.step)
        question = questions.parse(outcome, rules.of(step))
        report = outcome.report
        told["question"] = {
            "title": codec.readable(outcome.question)[:300],
            "content": codec.readable(report.content),
            "patch": codec.readable(report.patch),
            "facts": redaction.redact(dict(report.facts)),
            "effects": [*report.effects],
            "answers": dict(outcome.answers),
            "required_inputs": dict(question.required_inputs),
        }
    elif isinstance(outcome, Gather):
        told["children"] = _children(execution.after, outcome.children)
    else:
        told["next_step"] = "" if isinstance(outcome, Done) else outcome.to
    return told


def _blob(document: Document, digest: str) -> str:
    return base64.b64decode(document["blobs"][digest]).decode() if digest else ""


def _plain(state: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(codec.encode(state))
    return plain
