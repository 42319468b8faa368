"""The unsaved rows that a step leaves behind: its checkpoint, and the question where it asks
one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Max

from checkpoints import store
from checkpoints.database import clock
from checkpoints.models import Checkpoint, CheckpointStatus, EventKind
from checkpoints.state import codec, redaction, reducers
from checkpoints.store import Entry
from runs.engine import approvals, questions, traces
from runs.engine.context.claimed_run import ClaimedRun, key_of, loop_num
from runs.engine.drafts import budget, state_shape
from runs.engine.drafts.events import CARRIED, MIDWAY, Events, created, line
from runs.engine.questions import CheckedAsk
from runs.models import Pause, Run
from runs.states import FAILURE, STOPS
from runs.workflows import sequence
from runs.workflows.base import Commit, Report
from runs.workflows.text import first_sentence

COMMITS = "git_commit_count"
OUTPUTS = (COMMITS, "github_pull_request_url", "input_tokens", "output_tokens", "cost")
"""State keys that lists and the API show; copied to the checkpoint's metadata so that no state is
loaded for them.
"""
CONCLUSION = "conclusion"
"""State key of how the work ended, in a sentence, from the step that ends it: lists, pages and the
API show it beside `completed`.
"""
LONGEST_CONCLUSION = 200
SUMMARY = 300
"""Characters of what a row of the inbox says beside the question."""
FACTS_OF_A_ROW = 2
"""Facts that a row has room for."""


class AfterStep(NamedTuple):
    """What a step leaves behind."""

    checkpoint: Checkpoint
    state: dict[str, Any]
    warnings: Events
    """What its commit tells besides, such as a budget that is nearly spent."""


def after_step(
    held: ClaimedRun,
    update: Any,
    code: Commit | None,
    *,
    status: CheckpointStatus,
    next_step: str,
    metadata: dict[str, Any] | None = None,
    ran: bool = True,
    midway: bool = False,
    write: bool = True,
) -> AfterStep:
    """The checkpoint after a step: the update merged by the workflow's reducers.

    A join belongs to the execution of the step that gathered: it adds no loop. One that asks
    `midway` goes on with the answer, under its key. Without `write` it is one that no table is to
    hold. Raises budget.Spent, reducers.StateTooLarge, state_shape.StateInvalid.
    """
    progress = held.progress
    step, head = progress.at, progress.head
    state = reducers.apply(progress.state, update, held.reducers)
    if schema := held.run.frozen.state_schema:
        state_shape.check(schema, step, update, state)
    counts, sleeps = ran and not progress.joining, "sleep_until" in (metadata or {})
    number = loop_num(head, step) if counts else head.loop_num
    # asked before it begins, it is still the execution that a retry takes up
    carried = CARRIED if ran else (*CARRIED, "scope")
    kept = {key: progress.metadata[key] for key in carried if key in progress.metadata}
    if ran and kept.get(FAILURE, {}).get("step") == step:
        del kept[FAILURE]  # it is done after all
    entry = Entry(
        status=status,
        node_id=step if ran else head.node_id,
        next_step=next_step,
        loop_num=number,
        completed_nodes=sequence.completed(
            held.steps, step if midway else next_step or sequence.following(held.steps, step)
        )
        if ran
        else head.completed_nodes,
        total_nodes=len(held.steps),
        metadata={
            **kept,
            **progress.joined,
            **(metadata or {}),
            **({"scope": held.key, MIDWAY: True} if midway else {}),
            **({"git": _git(code)} if code else {}),
            **_skipped(held, kept, ran=ran),
            **({approvals.RELIED: progress.relied} if progress.relied else {}),
            **({approvals.UNASKED: sorted(progress.unasked)} if progress.unasked else {}),
            **(
                traces.metadata(progress.trace, held.run, over=not next_step or sleeps)
                if progress.trace is not None
                else {}
            ),
            "loops": {**kept.get("loops", {}), **({step: number} if counts and not midway else {})},
            "outputs": {**_outputs(held, state, code), **_conclusion(update)},
        },
    )
    if not write:
        return AfterStep(_unwritten(held, entry), state, [])
    parent, before = progress.written
    checkpoint = store.build(
        held.run.thread_id,
        held.run.pk,
        state,
        entry,
        parent=parent,
        before=before,
        most=settings.WAYSTATION_STATE_BYTES,
    )
    warnings = budget.spend(held, checkpoint, more=len(code.bundle) if code else 0)
    return AfterStep(checkpoint, state, warnings)


def _outputs(held: ClaimedRun, state: Mapping[str, Any], code: Commit | None) -> dict[str, Any]:
    """What lists and the API show of the work.

    The engine counts the commits with each commit, so that no step has to tell their number.
    """
    outputs = {key: state[key] for key in OUTPUTS if key in state}
    progress = held.progress
    told = {**progress.metadata.get("outputs", {}), **progress.joined.get("outputs", {})}
    before = told.get(COMMITS)
    if code is not None and code.commits is not None:
        outputs[COMMITS] = code.commits
    # else the step itself told another number just now
    elif before is not None and state.get(COMMITS) == progress.state.get(COMMITS):
        outputs[COMMITS] = before
    return outputs


def _conclusion(update: Any) -> dict[str, str]:
    """The sentence that a step ends the work with; of this step alone, so that none of an earlier
    run on the thread is told.
    """
    said = update.get(CONCLUSION) if isinstance(update, Mapping) else None
    words = codec.readable(said).strip() if isinstance(said, str) else ""
    return {CONCLUSION: words[:LONGEST_CONCLUSION].strip()} if words else {}


def _skipped(held: ClaimedRun, kept: dict[str, Any], *, ran: bool) -> dict[str, list[str]]:
    """The steps that were passed over by their own condition, each as of when its turn came
    last.
    """
    before = set(kept.get(approvals.SKIPPED, ()))
    here, skipped = {held.progress.at}, held.progress.passing_over
    now = before | here if skipped else before - here if ran else before
    return {approvals.SKIPPED: sorted(now)} if now != before else {}


def _unwritten(held: ClaimedRun, entry: Entry) -> Checkpoint:
    values = {field.name: getattr(entry, field.name) for field in fields(entry)}
    return Checkpoint(
        thread_id=held.run.thread_id,
        run_id=held.run.pk,
        **{**values, "metadata": budget.carried(held, entry.metadata)},
    )


def where_it_stands(held: ClaimedRun) -> Checkpoint:
    """A checkpoint of the step boundary that the run is at, where the last one that was written is
    older.
    """
    head = held.progress.head
    entry = Entry(**{field.name: getattr(head, field.name) for field in fields(Entry)})
    parent, before = held.progress.written
    return store.build(
        held.run.thread_id, held.run.pk, held.progress.state, entry, parent=parent, before=before
    )


def _git(commit: Commit) -> dict[str, str]:
    """The bundle is kept before the step's commit, in its own: a blob that nothing points to does
    no harm.
    """
    return {
        "commit": commit.sha,
        "base": commit.base,
        "bundle": store.put_blob(commit.bundle) if commit.bundle else "",
    }


def after_answer(held: ClaimedRun) -> Checkpoint:
    """The last checkpoint of a run whose answer led to the end."""
    head, metadata, state = held.progress.head, held.progress.metadata, held.progress.state
    kept = {key: metadata[key] for key in (*CARRIED, "outputs") if key in metadata}
    entry = Entry(
        status=CheckpointStatus.COMPLETED,
        node_id=head.node_id,
        loop_num=head.loop_num,
        completed_nodes=len(held.steps),
        total_nodes=len(held.steps),
        metadata=kept,
    )
    return store.build(held.run.thread_id, held.run.pk, state, entry, parent=head, before=state)


def failure(
    run: Run,
    head: Checkpoint,
    state: dict[str, Any] | None,
    *,
    code: str,
    words: str,
    written: tuple[Checkpoint, dict[str, Any]] | None = None,
    metadata: Mapping[str, Any] | None = None,
    relied: Mapping[str, Any] | None = None,
) -> tuple[Events, Checkpoint | None]:
    """What a failed run leaves behind: its last events, and a checkpoint that a retry goes on from.

    `written` is the newest checkpoint that was written, with its state, where that is not `head`;
    `metadata` is what it takes over where that is not the head's; `relied` is of what the step that
    failed may have done.

    Without a state (it could not be read) there is no checkpoint: the head stays what it is, and
    nobody resumes from an empty state.
    """
    step = head.next_step or head.node_id
    facts: Events = [
        line(words, step, level="error"),
        (EventKind.RUN_FAILED, {"error": words, "failure_code": code, "step": step}),
    ]
    if state is None:
        return facts, None
    why: dict[str, Any] = {
        "error": words,
        "failure_code": code,
        **({approvals.RELIED: dict(relied)} if relied else {}),
    }
    if head.next_step:
        why["scope"] = key_of(head, run.shown_id, step)
    entry = replace(
        store.entry_of(head),
        status=CheckpointStatus.FAILED,
        node_id=step,
        loop_num=loop_num(head, step) if head.next_step else head.loop_num,
        metadata={**(metadata or head.metadata), **why},
    )
    parent, before = written or (head, state)
    checkpoint = store.build(run.thread_id, run.pk, state, entry, parent=parent, before=before)
    return [*facts, created(checkpoint)], checkpoint


def opening(held: ClaimedRun, question: CheckedAsk) -> dict[str, Any]:
    """The columns of a pause that follow from its rules. Call inside a transaction."""
    return questions.opens(question.review, held.run.thread, at=clock.now())


def pause(
    held: ClaimedRun, question: CheckedAsk, checkpoint: Checkpoint, opening: Mapping[str, Any]
) -> Pause:
    """The pause that a step opens."""
    ask, shown = question.ask, kept_report(question.ask.report)
    material = checkpoint.metadata.get(approvals.MATERIAL)
    read: list[Any] = [{"material": material}]
    # all that was there counts; of a stop, which decides nothing of the step, what is shown
    if material is None:
        read = [
            shown["content"],
            shown["patch"],
            *([] if ask.phase in STOPS else [{"state": checkpoint.digest}]),
        ]
    return Pause(
        outside=question.outside,
        run=held.run,
        checkpoint=checkpoint,
        step=held.progress.at,
        phase=ask.phase,
        kind=question.kind,
        question=codec.readable(ask.question)[:300],
        **of_a_row(
            shown["content"],
            shown["facts"],
            *(shown["patch"], shown["effects"], question.calls, question.required_inputs),
            summary=shown["summary"],
        ),
        content=shown["content"],
        patch_digest=shown["patch"],
        facts=shown["facts"],
        effects=shown["effects"],
        content_digest=questions.digest(
            read, shown["facts"], question.required_inputs, question.calls
        ),
        required_inputs=question.required_inputs,
        known=dict(ask.known),
        answers_without_input=question.answers_without_input,
        calls=question.calls,
        # nothing was sent back
        revision=1 if ask.midway else (_asked_before(held, ask.phase) or 0) + 1,
        max_revisions=ask.max_revisions,
        **opening,
        answers=dict(ask.answers),
        labels=dict(ask.labels),
    )


def of_a_row(content: str, facts: Sequence[Any], *others: Any, summary: str = "") -> dict[str, Any]:
    """The columns of what a row says of a question. `others` are parts of what is decided that a
    row has no room for; without any, it may show all.
    """
    beginning, whole = first_sentence(content, SUMMARY)
    # a summary of an author's own stands in the place of the content, which then nobody sees
    shown = whole and summary in {"", beginning}
    short = sum(len(str(part)) for fact in facts for part in fact) <= SUMMARY
    brief = shown and short and not any(others) and len(facts) <= FACTS_OF_A_ROW
    return {"summary": summary or beginning, "brief": brief}


def _asked_before(held: ClaimedRun, phase: str) -> int | None:
    """The revision that this run asked last; one that was asked again after a retry counts on."""
    before = Pause.objects.filter(run=held.run, step=held.progress.at, phase=phase)
    revision: int | None = before.aggregate(last=Max("revision"))["last"]
    return revision


def kept_report(report: Report) -> dict[str, Any]:
    """A report as rows and metadata hold it; its patch goes to a blob."""
    # pairs, not an object: canonical JSON sorts keys, and the order is the author's
    shown = {
        codec.readable(label): codec.readable(value) if isinstance(value, str) else value
        for label, value in report.facts.items()
    }
    facts = [[label, value] for label, value in redaction.redact(shown).items()]
    return {
        "content": codec.readable(report.content),
        "patch": store.put_blob(codec.readable(report.patch).encode()) if report.patch else "",
        "facts": facts,
        "effects": [codec.readable(effect) for effect in report.effects],
        "summary": " ".join(codec.readable(report.summary).split())[:SUMMARY],
        **({"title": codec.readable(report.title)[:300]} if report.title else {}),
        **({"material": report.material} if report.material is not None else {}),
        **({"review": dict(report.review)} if report.review is not None else {}),
    }


def read_report(kept: dict[str, Any]) -> Report:
    """What `kept_report` kept."""
    patch = store.get_blob(kept["patch"]).decode() if kept["patch"] else ""
    return Report(
        content=kept["content"],
        patch=patch,
        facts=dict(kept["facts"]),
        effects=kept["effects"],
        title=kept.get("title", ""),
        summary=kept.get("summary", ""),
        material=kept.get("material"),
        review=kept.get("review"),
    )
