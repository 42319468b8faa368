"""What a graph asks, put to people, and what it goes on with.

One interrupt is asked by the graph's step. Several at once, of nodes that work in parallel, are
asked by a child run each, all by the rules of the step, so different people answer them in any
order; with all answers the graph goes on. A step that was frozen before there was such a child run,
or that is too deep for one, asks them one after the other.

An answer is bound to just what was asked, and counts by its decision: what a state says approves
nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from django.conf import settings

from checkpoints.state import codec, redaction
from extensions.langgraph.graphs import questions
from extensions.langgraph.graphs.inputs import GRAPH_RUNS, QUESTION, SavedGraphPosition
from extensions.langgraph.graphs.questions import REPLY, Raised
from runs.workflows.base import (
    Approval,
    Ask,
    Child,
    Context,
    Done,
    Gather,
    Outcome,
    State,
    StepFailed,
)
from runs.workflows.owned import Keeps
from runs.workflows.registry import step
from runs.workflows.schemas import SchemaRefused
from runs.workflows.sequence import ENDINGS, REVISE

ASKED, SAID, REPLIES = "graph_question", "graph_said", "graph_replies"
"""State keys: what a child run asks, what came of it, and what came of all of them, by child."""
KEEPS = {REPLY: Keeps(answered=True), ASKED: Keeps(), SAID: Keeps()}
LONGEST = 90
"""Characters of a node's name in that of a child run."""


def ask_one(
    state: State, context: Context, raised: Raised, *, update: Mapping[str, Any], waiting: int = 0
) -> Ask:
    """Ask one interrupt; `update` joins the state, `waiting` is as for `questions.question`."""
    _check_secrets(raised)
    try:
        return questions.question(
            raised,
            step=context.step,
            graph=context.config["graph"],
            update={**update, **cleared(state), "decided": {context.step: ""}},
            material=_material(raised.id, digest(raised)),
            waiting=waiting,
        )
    except SchemaRefused as error:
        raise StepFailed(
            f"The graph asks for data by a schema that cannot be used: {error}",
            code="graph_question_refused",
        ) from error


def at_once(context: Context, raised: Sequence[Raised]) -> dict[str, Raised]:
    """Give what is asked by child runs, by the name of each; nothing where it is asked one after
    the other. What is more than a step may gather is asked when these are answered.
    """
    if len(raised) < 2 or not context.sub_steps:
        return {}
    named: dict[str, Raised] = {}
    for one in raised[: settings.WAYSTATION_GATHER_WIDTH]:
        name, number = one.node[:LONGEST] or "question", 1
        while name in named or name in ENDINGS:
            number += 1
            name = f"{one.node[:LONGEST] or 'question'} {number}"
        named[name] = one
    return named


def ask_all(
    state: State,
    context: Context,
    named: Mapping[str, Raised],
    place: SavedGraphPosition,
    *,
    update: Mapping[str, Any],
) -> Gather:
    """Ask these at once; `update` joins the state. The step goes on when all are answered."""
    for raised in named.values():
        _check_secrets(raised)
    return Gather(
        children=[Child(name=name, update={ASKED: asdict(one)}) for name, one in named.items()],
        update={
            **update,
            GRAPH_RUNS: {context.step: asdict(place)},
            **cleared(state),
            "decided": {context.step: ""},
        },
        to=context.step,
        into=REPLIES,
    )


@step(QUESTION, asks=True, keeps=KEEPS)
def ask(state: State, context: Context) -> Outcome:
    """Ask one of several interrupts, and keep what the graph goes on with there."""
    raised = Raised(**copy.deepcopy(state[ASKED]))  # a state is read-only
    action = verdict(state, context)
    if not is_answered(context.answered(context.step), raised, action):
        return ask_one(state, context, raised, update={})
    if action == REVISE:
        said = {"words": state["revision_feedback"]}
    else:
        value = questions.answer(
            raised, action=action, state=state, context=context, step=context.step
        )
        said = {"value": value}
    return Done(update={**cleared(state), SAID: said})


def said_to(
    state: State, context: Context, raised: Sequence[Raised], place: SavedGraphPosition
) -> dict[str, Any] | None:
    """Give the values of the interrupts that still wait for theirs, by id; None where one has no
    answer that counts, so that the graph asks anew.

    Raises StepFailed where the graph asks something else than was answered.
    """
    waiting = {one.id: one for one in raised}
    given: dict[str, Any] = {}
    for name, interrupt, asked in place.asked:
        one = waiting.get(interrupt)
        if one is None:  # the graph has it, but other nodes beside wait for theirs
            if not context.once(f"answered {interrupt}", lambda: False, optional=True):
                return None
            continue
        value = _said(state, context, name, one)
        if value is None:
            return None
        if digest(one) != asked:
            raise something_else()
        given[interrupt] = value[0]
    for interrupt in given:
        context.once(f"answered {interrupt}", lambda: True, optional=True)
    return given


def _said(state: State, context: Context, name: str, raised: Raised) -> list[Any] | None:
    """A list of the value that a child run brought; None where it does not count."""
    replies = state.get(REPLIES)
    child = replies.get(name) if isinstance(replies, Mapping) else None
    said = child.get(SAID) if isinstance(child, Mapping) else None
    approval = context.answered(context.step, child=name)
    match said:
        case {"words": str() as words} if questions.takes_words(raised):
            return [_answer(raised, context, REVISE, {"revision_feedback": words})]
        case {"value": value} if is_answered(approval, raised, "answered"):
            assert approval is not None
            if questions.wishes(raised) is None:  # a verdict is read off its decision
                return [_answer(raised, context, approval.action, {REPLY: value})]
            return [copy.deepcopy(value)]
    return None


def _answer(raised: Raised, context: Context, action: str, state: State) -> Any:
    return questions.answer(raised, action=action, state=state, context=context, step=context.step)


def verdict(state: State, context: Context) -> str:
    """What the graph's last question was answered with, "" where it has no answer yet.

    Words alone are the state's to tell.
    """
    verdict = str(state.get("decided", {}).get(context.step, ""))
    approval = context.answered(context.step)
    return verdict if verdict in {"", REVISE} else approval.action if approval is not None else ""


def is_answered(approval: Approval | None, raised: Raised, action: str) -> bool:
    """Whether an answer was given to just what the graph asked.

    Words instead of a call approve nothing: the state holds them.
    """
    if action == REVISE:
        return questions.takes_words(raised)
    bound = codec.digest(codec.encode(_material(raised.id, digest(raised))))
    return bool(action) and approval is not None and approval.material == bound


def something_else() -> StepFailed:
    return StepFailed(
        "The graph asks something else than what was answered. Nothing was done.",
        code="content_changed",
    )


def cleared(state: State) -> dict[str, Any]:
    """Answers that were used are in the state no more; their decisions keep them."""
    return {key: None for key in (REPLY, REPLIES) if state.get(key) is not None}


def digest(raised: Raised) -> str:
    return codec.digest(codec.encode([raised.value, raised.schema]))


def _material(interrupt: str, digest: str) -> dict[str, str]:
    """What an answer to just this question is bound to."""
    return {"interrupt": interrupt, "asked": digest}


def _check_secrets(raised: Raised) -> None:
    if secrets := [name for name in _fields(raised.schema) if redaction.is_secret(name)]:
        message = (
            f"The graph asks for {', '.join(secrets)}, named like a secret, which is not kept. "
            "Let its node read that by itself."
        )
        raise StepFailed(message, code="graph_question_refused")


def _fields(schema: Any) -> Iterator[str]:
    """The names of what a schema asks for, at any depth."""
    if isinstance(schema, Mapping):
        if isinstance(named := schema.get("properties"), Mapping):
            yield from named
        for part in schema.values():
            yield from _fields(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _fields(part)
