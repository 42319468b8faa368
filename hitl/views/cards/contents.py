"""The contents of a question's card: the question, its answers and where each leads, and what came
of an answer before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext

from checkpoints import store
from checkpoints.database.people import User
from checkpoints.models import Blob
from hitl.decisions import revisions
from hitl.decisions.talk import patches
from hitl.decisions.talk.feedback import FeedbackBox
from hitl.forms.answers import NOTHING_TYPED, DecisionForm
from hitl.forms.json_schema import SchemaForm
from hitl.forms.tool_calls import CallsForm, form_of
from hitl.rendering.links import decide_of
from hitl.rendering.own_words import own
from hitl.rendering.patches.reading import ReadPatch
from hitl.views.cards import standing as cards
from hitl.views.cards import talk, typed
from hitl.views.common import home_of, place_of
from hitl.views.family import progress_of
from runs.models import Pause, Run
from runs.services import external_runs
from runs.workflows.sequence import APPROVE


def choose(pauses: Sequence[Pause], wanted: str) -> tuple[Pause | None, str]:
    """The question to show, and what to say where the one that was wanted is not open (any
    more).
    """
    chosen = next((pause for pause in pauses if pause.shown_id == wanted), None)
    if chosen or not wanted:
        return chosen or next(iter(pauses), None), ""
    return next(iter(pauses), None), gettext(
        "That question is not open any more. This is how it stands now."
    )


def card_of(
    pauses: Sequence[Pause],
    wanted: str,
    *,
    by: User,
    observer: bool,
    standing: cards.Card | None = None,
    form: DecisionForm | None = None,
    inputs: SchemaForm | CallsForm | None = None,
    answered: Pause | None = None,
    problem: str = "",
    wrong: bool = False,
    more: typed.Words | None = None,
) -> dict[str, Any]:
    """What the pause card shows.

    Args:
        wanted: shown id of the question that the address names, or "".
        by, observer: who looks, and whether without taking part in the thread.
        standing: to the question that is chosen, where it was looked up.
        form, inputs, answered: what was typed, and for which question. No other card shows it:
            there it is `unsent`.
        problem, wrong: what is said above the card, and whether it is something to put right.
        more: further words that were not taken, and that no card has a field for.
    """
    pause, gone = choose(pauses, wanted)
    unsent = list(more or [])
    if answered is not None and answered != pause:
        unsent = typed.words_of(answered, form, inputs, cards.of(answered, by).known) + unsent
    if pause is None:
        return {
            "pause": None,
            "form": NOTHING_TYPED,
            "problem": problem or gone,
            "wrong": wrong,
            "unsent": unsent,
            "others": [],
        }
    patch, damage = patch_of(pause, by)
    same = answered is None or answered == pause
    form = (form if same else None) or NOTHING_TYPED
    inputs = inputs if same else None
    form.look_at(inputs)
    told = [*(inputs.problems_told if inputs is not None else []), *form.told]
    if standing is None or standing.pause != pause:
        standing = cards.of(pause, by, takes_part=not observer)
    return {
        "unsent": unsent,
        "wrong": wrong,
        "edit": form.edit_of(pause),
        "edits": typed.edits_of(pause, form, inputs),
        **answered_of(standing, by=by, observer=observer),
        "form": form,
        **_changes(pause, by),
        "spent": revisions.spent(pause),
        "planned": revisions.planned(pause),
        "inputs": inputs or form_of(standing.asked, known=standing.known),
        "problem": problem or damage or gone,
        "told": told,
        "patch": patch,
        "own_steps": _own_steps(pause),
        "others": [
            (other, whose(other.run), place_of(other)) for other in pauses if other.pk != pause.pk
        ],
        "chosen": pause.shown_id if pause.shown_id == wanted else "",
    }


def answered_of(standing: cards.Card, *, by: User, observer: bool) -> dict[str, Any]:
    """What stands on a card of people and of their answers: what others change while somebody
    reads the question.
    """
    pause = standing.pause
    return {
        "pause": pause,
        "standing": standing,
        "talk": talk.of(pause, by, standing),
        "decide": decide_of(pause),
        "answers": _further(pause),
        "feedback_box": FeedbackBox(pause),
        "leads": leads(pause),
        "ends": ends(pause.run),
        "whose": whose(pause.run),
        "cancel": cancel_of(pause, observer=observer),
    }


def _changes(pause: Pause, by: User) -> dict[str, Any]:
    """What this revision changed against the one that the person saw, or else the one before; and
    what was asked for since. Who saw one is shown the changes first.
    """
    earlier = revisions.seen_or_earlier(pause, by) if pause.revision > 1 else None
    if earlier is None:
        return {"before": None, "changes": []}
    before, seen = earlier
    changes = revisions.changes(before, pause)
    return {
        "before": before,
        "changes": changes,
        "asked_for": revisions.asked_for(before, pause),
        "seen": seen,
        "opens_on_changes": seen and bool(changes),
    }


def name_of(pause: Pause) -> str:
    """What the question is about: the title of its order, or its thread."""
    order = pause.run.work_order
    return str(order.title if order is not None else pause.run.thread)


def whose(run: Run) -> str:
    """What a child run is called, with those it runs for: `draft / intro`; "" for a run that is
    nobody's child.
    """
    names = []
    at: Run | None = run
    while at is not None and at.parent_id is not None:
        names.append(at.child_name)
        at = at.parent if at.depth > 1 else None
    return " / ".join(reversed(names))


def patch_of(pause: Pause, by: User | None = None) -> tuple[ReadPatch | None, str]:
    """The patch as the page shows it, and what is wrong where it cannot be read; None where there
    is none.
    """
    if not pause.patch_digest:
        return None, ""
    try:
        patch = patches.read(pause)
        if by is not None:
            patches.mark_seen(patch, pause, by)
        return patch, ""
    except (store.CheckpointDamaged, Blob.DoesNotExist) as error:
        return None, gettext(
            "The patch cannot be shown: %(error)s. Do not approve what you cannot see."
        ) % {"error": error}


def leads(pause: Pause) -> dict[str, str]:
    """Answer → the title of the step it leads to; empty where it leads to the end."""
    titles = {step["name"]: step["title"] for step in pause.run.definition.steps}
    return {name: titles.get(to, "") or elsewhere(pause.run) for name, to in pause.answers.items()}


def elsewhere(run: Run) -> str:
    """What goes on where an agent or another engine waits here; "" for a run of ours."""
    if run.definition.template_slug != external_runs.SLUG:
        return ""
    agent: str = run.input.get("agent", "")
    return agent or f"{run.thread} at {run.input.get('node_id', '')}"


def _further(pause: Pause) -> list[dict[str, str]]:
    """The answers that the template adds, and where each leads."""
    names = {step["name"]: step["title"] for step in pause.run.definition.steps}
    return [
        {
            "name": name,
            "label": own(pause.labels[name]),
            "to": names.get(to) or elsewhere(pause.run) or gettext("the end"),
        }
        for name, to in pause.answers.items()
        if name in pause.labels and name != APPROVE
    ]


def ends(run: Run) -> str:
    """What is complete where an answer leads to the end."""
    return (
        gettext("This child run")
        if run.parent_id is not None
        else gettext("The order")
        if run.work_order_id is not None
        else gettext("The run")
    )


def completed(run: Run) -> str:
    return gettext("%(ends)s is complete.") % {"ends": ends(run)}


def _own_steps(pause: Pause) -> list[dict[str, str]]:
    """The steps of a child run that asks; none where it has but one."""
    definition = pause.run.definition
    if pause.run.parent_id is None or len(definition.steps) < 2:
        return []
    return progress_of(definition, pause.step, "paused", pause.phase)


def cancel_of(pause: Pause, *, observer: bool = False) -> dict[str, str]:
    """What cancel does at this question, in words, and the page that asks whether one is sure.

    A observer has that of the question only.
    """
    run = pause.run
    if run.parent_id is not None:
        asks = gettext("Are you sure you want to cancel the child run %(name)s?") % {
            "name": run.child_name
        }
        words = _end_of_child(run)
        url = reverse("hitl:pause_cancel", args=[pause.pk])
    elif outer := elsewhere(run):
        asks = gettext("Are you sure you want to cancel this wait?")
        words = gettext("Ends the wait; %(outer)s is told that it was cancelled.") % {
            "outer": outer
        }
        url = reverse("hitl:thread_cancel", args=[run.thread_id])
    elif run.work_order_id is not None:
        asks = gettext("Are you sure you want to cancel this work order?")
        words = gettext("Ends the order.")
        url = reverse("hitl:order_cancel", args=[run.work_order_id])
    else:
        asks = gettext("Are you sure you want to cancel this run?")
        words = gettext("Ends this run. The thread stays, and a new message begins another run.")
        url = reverse("hitl:thread_cancel", args=[run.thread_id])
    if observer:
        url = reverse("hitl:pause_cancel", args=[pause.pk])
    return {
        "asks": asks,
        "words": words,
        "url": url,
        "home": home_of(run),
    }


def _end_of_child(run: Run) -> str:
    """A failed child run takes its parent along, and so on, up to the first that can do without
    it.
    """
    whole = gettext("the order") if run.work_order_id is not None else gettext("the run")
    falls: list[str] = []
    at = run
    while at.parent is not None:
        if at.optional and at.parent.parent_id is None:
            return _ends_with(falls, whole)
        if at.optional:
            return _ends_with(falls, at.parent.child_name)
        at = at.parent
        if at.parent_id is not None:
            falls.append(at.child_name)
    return gettext("Ends this child run; %(whole)s then fails.") % {"whole": whole}


def _ends_with(falls: list[str], rest: str) -> str:
    if not falls:
        return gettext("Ends this child run; %(rest)s goes on without it.") % {"rest": rest}
    return gettext("Ends this child run and with it %(falls)s; %(rest)s goes on without them.") % {
        "falls": gettext(" and ").join(falls),
        "rest": rest,
    }
