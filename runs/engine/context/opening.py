"""The context of one step, from its opening to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

from django.conf import settings

from checkpoints import store
from checkpoints.models import Checkpoint, EventKind
from runs.engine import approvals
from runs.engine.body_processes import endable
from runs.engine.context import delivery, effects, files
from runs.engine.context.claimed_run import ClaimedRun, loop_num
from runs.engine.context.lines import Lines
from runs.engine.context.output import StepOutput
from runs.engine.context.progress import StepProgress
from runs.git.workspace import Saved
from runs.states import FAILURE
from runs.workflows import sequence
from runs.workflows.attachments import File
from runs.workflows.base import Context, Failure, PullRequest, PullRequestDraft
from runs.workflows.sequence import FrozenStep


@contextmanager
def open_context(held: ClaimedRun, step: FrozenStep) -> Iterator[Context]:
    """The context of the step that `held` is at.

    Its workspace is given back at the end, so that the next step may have it.
    """
    number = loop_num(held.progress.head, step["name"])
    failed = held.progress.metadata.get(FAILURE)
    at: dict[str, Any] = {"step": step["name"], "loop": number}
    credential = partial(effects.credential, held)
    speech = StepOutput(
        held.scrub,
        say=partial(effects.write_chunk, held, **at),
        think=partial(effects.write_thought, held, **at),
        lines=lambda: Lines(
            partial(effects.write_lines, held),
            partial(effects.keep_long, held, **at),
            shown=settings.WAYSTATION_LOG_LINES,
            longest=settings.WAYSTATION_ARTIFACT_BYTES,
        ),
    )

    def log(message: str, *, level: str = "info", **data: Any) -> None:
        with held.watch.own_connection():
            speech.log(message, level=level, **data)

    # each says so inside: a decorator would be made anew for every step
    def stream(text: str) -> None:
        with endable.shielded():
            speech.say(text)

    def think(text: str) -> None:
        with endable.shielded():
            speech.think(text)

    def emit(kind: str, data: Mapping[str, Any]) -> None:
        with endable.shielded():
            speech.flush()
            effects.write_event(held, EventKind(kind), data)

    def let_out() -> None:
        """Raise StepFailed where nothing may leave: for want of a right, or of the approval that
        the template asks for.
        """
        with held.watch.own_connection():
            reviewed = delivery.require_right(
                held.run, held.order, held.steps, held.progress.metadata, at=step["name"]
            )
        if reviewed:
            effects.require_approval(held, "")

    def once(key: str, function: Callable[[], Any], **more: Any) -> Any:
        with endable.shielded():
            speech.write_lines()
        return effects.once(held, key, function, flush=speech.flush, **more)

    def keep(name: str, text: str) -> None:
        with endable.shielded():
            speech.flush()
            effects.keep(held, name, text, **at)

    def artifact(name: str, content: bytes) -> dict[str, Any]:
        with endable.shielded():
            speech.flush()
            return effects.artifact(held, name, content, **at)

    told: list[StepProgress] = []  # most steps say nothing of it

    def progress(done: float, of: float | None = None, *, unit: str = "") -> None:
        if not told:
            told.append(StepProgress(held, step["name"]))
        told[0].tell(done, of, unit=unit)

    def content_of(file: File | Mapping[str, Any]) -> bytes:
        with held.watch.own_connection():
            return files.content_of(held.run, file)

    def propose(wanted: PullRequestDraft) -> PullRequest:
        let_out()
        speech.flush()
        return delivery.propose_at(held.repository, credential, wanted)

    # nothing is cloned or locked before the step asks for it
    workspace = held.open_workspace(
        at=_saved(held.progress.head),
        check=held.watch.check,
        access=lambda: delivery.access_to(held.repository, credential),
        let_out=let_out,
    )
    with workspace, closing(speech):
        try:
            yield Context(
                run_id=held.shown_id,
                step=step["name"],
                loop_num=number,
                key=held.key,
                fence=held.epoch,
                config=step["config"],
                configs={other["function"]: other["config"] for other in held.steps},
                may_pass=step.get("may_pass", ""),
                failure=Failure(**failed) if failed else None,
                sub_steps=[sub_step["name"] for sub_step in step.get("sub_steps", [])],
                stops=sequence.stops_within(held.run.interrupt_before, step["name"]),
                stops_after=sequence.stops_within(held.run.interrupt_after, step["name"]),
                reducers=held.reducers,
                order=held.told,
                log=log,
                stream=stream,
                think=think,
                emit=emit,
                keep=keep,
                artifact=artifact,
                content_of=content_of,
                progress=progress,
                once=once,
                recorded=partial(effects.recorded, held),
                check=held.watch.check,
                workspace=workspace,
                shared=held.shared,
                thread_id=held.shown_thread_id,
                halting=held.watch.halting,
                approvals=approvals.given(held.progress.approved, held.steps),
                require_approval=partial(effects.require_approval, held),
                decided_calls=partial(approvals.decided_calls, held),
                propose=propose,
                credential=credential,
                reach=settings.WAYSTATION_FETCH_ALLOW,
            )
        finally:
            for each in told:
                each.close()


def _saved(head: Checkpoint) -> Saved | None:
    """The commit that the checkpoint carries, and how to get its bundle."""
    git = head.metadata.get("git")
    if not git:
        return None
    digest = git["bundle"]
    return Saved(
        sha=git["commit"],
        base=git["base"],
        read_bundle=lambda: store.get_blob(digest) if digest else b"",
    )
