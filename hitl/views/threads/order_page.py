"""The page of a work order: what is read for it, at first and at each look again."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from django.utils.translation import gettext

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.database.snapshot import one_moment
from checkpoints.models import Event, EventKind
from hitl.decisions import services, undo, visibility
from hitl.forms.answers import NOTHING_TYPED
from hitl.models import Decision, name_of
from hitl.operations import failures
from hitl.rendering import links
from hitl.rendering.paging import ListAddress
from hitl.threads import why
from hitl.views import artifacts, family, story
from hitl.views.cards import contents, standing
from hitl.views.lists import walk
from hitl.views.threads import children, news
from hitl.views.threads.news import Looked, Version
from hitl.views.threads.timeline import TimelineRows, log_lines
from runs import phases
from runs.models import Run, WorkOrder
from runs.services import priorities, resubmit, step_times
from runs.states import FAILED
from runs.workflows.sequence import CANCEL

TERMINAL = {"completed", "failed"}


class OrderPage(NamedTuple):
    """What somebody is shown of an order."""

    context: Mapping[str, Any]
    parts: frozenset[str] | None
    """What changed since the version that they had, none where nothing did; None where the page is
    told whole.
    """
    version: Version | None
    run: Run | None


def read(
    order_id: uuid.UUID,
    *,
    by: User,
    wanted: str = "",
    query: Mapping[str, str] = MappingProxyType({}),
    had: Version | None = None,
) -> OrderPage:
    """What a person is shown who has a version of the page already, or none, as of one moment.

    Raises as `page_of`.
    """
    here = _here(order_id, query)
    with one_moment():
        looked = _look(order_id, by=by, wanted=wanted)
        version = news.version_of(looked, here, by=by)
        run = looked.order.latest_run
        if had is not None and version is not None and not (here.query.keys() & {"events", "log"}):
            events = story.since(looked.order.thread_id, had.seq) if had.seq != version.seq else []
            parts = news.changed(had, version, events)
            if parts is not None:
                context = _news_of(looked, here, version, parts, events, by=by) if parts else {}
                return OrderPage(context, parts, version, run)
        return OrderPage(_parts_of(looked, here, by=by, wanted=wanted), None, version, run)


def page_of(
    order_id: uuid.UUID,
    *,
    by: User,
    wanted: str = "",
    query: Mapping[str, str] = MappingProxyType({}),
    **answer: Any,
) -> dict[str, Any]:
    """All that the work-order page shows to a person, as of one moment.

    `wanted` and `answer` are as for `contents.card_of`.

    Args:
        query: of the address, which may name places in the page's lists.
    Raises:
        Http404: the person may not see the order, or a list has no such place.
    """
    with one_moment():
        looked = _look(order_id, by=by, wanted=wanted)
        return _parts_of(looked, _here(order_id, query), by=by, wanted=wanted, **answer)


def _here(order_id: uuid.UUID, query: Mapping[str, str]) -> ListAddress:
    return ListAddress(links.order_at(order_id), query).only(
        *("pause", walk.LIST, walk.WAS), *story.LISTS
    )


def _look(order_id: uuid.UUID, *, by: User, wanted: str) -> Looked:
    """Raises NotFound."""
    order, observes = visibility.order_on_page(order_id, by=by)
    pauses = services.open_pauses(order)
    below = family.family_of(order.latest_run, has_children=getattr(order, "has_children", True))
    family.share_definition([pause.run for pause in pauses], [order.definition])
    pause, _ = contents.choose(pauses, wanted)
    card = standing.of(pause, by, takes_part=not observes) if pause is not None else None
    return Looked(order, observes, pauses, below, card)


def _news_of(
    looked: Looked,
    here: ListAddress,
    version: Version,
    parts: frozenset[str],
    events: list[Event],
    *,
    by: User,
) -> dict[str, Any]:
    """Of a page with a question what its parts show that changed."""
    assert looked.standing is not None
    order = looked.order
    rows = TimelineRows(of_order=True, gathering=gathering_at(order))
    lines = [event for event in events if event.kind == EventKind.LOG]
    others = [event for event in events if event.kind != EventKind.LOG]
    return {
        "parts": parts,
        "order": order,
        "observer": looked.observes,
        "here": here,
        "version": version,
        "seq": order.thread.last_seq,
        "terminal": False,
        "form": NOTHING_TYPED,
        "timeline_rows": lambda: rows.html(others),
        "log_lines": lambda: log_lines(reversed(lines)),
        **contents.answered_of(looked.standing, by=by, observer=looked.observes),
    }


def gathering_at(order: WorkOrder) -> str:
    """The step that waits for its child runs."""
    waits = family.waiting_for(order.latest_run)
    return waits["step"] if waits else ""


def _parts_of(
    looked: news.Looked, here: ListAddress, *, by: User, wanted: str, **answer: Any
) -> dict[str, Any]:
    order, observer, pauses, below, standing_there = looked
    run = order.latest_run
    earlier, successor = resubmit.beside(order, by=by)
    now = clock.now()
    undoable = None if pauses else undo.waiting([run, *below], now=now)
    asks_nothing = not (pauses or undoable or order.gathering or order.status in TERMINAL)
    return {
        "order": order,
        "observer": observer,
        "artifacts": None
        if observer
        else artifacts.of(
            order.thread_id, below, here, has_some=getattr(order, "has_artifacts", True)
        ),
        "version": news.version_of(looked, here, by=by),
        **(
            card := contents.card_of(
                pauses, wanted, by=by, observer=observer, standing=standing_there, **answer
            )
        ),
        "here": here.to(pause=card.get("chosen", "")),
        **family.rerunning_of(run, below, pauses),
        **story.story_of(order.thread_id, here, of_order=True, gathering=gathering_at(order)),
        "steps": (steps := progress(order)),
        "ended_at": family.ended_at(steps),
        "children": children.of(family.members_of(run, below, pauses), here, run),
        "waiting_for": family.waiting_for(run),
        "at_work": step_times.at_work(run),
        "undo": undoable,
        "why": why.of_order(order, by=by, now=now) if asks_nothing else None,
        "ended_words": ended_words(order),
        "seq": order.thread.last_seq,
        "terminal": order.status in TERMINAL,
        "trace": failures.trace_of([run, *below], by=by)
        if run is not None and order.standing == FAILED
        else None,
        "may_cancel": not observer and (order.status in {"pending", "running"} or order.gathering),
        "may_suspend": order.status in {"pending", "running"}
        and (not observer or visibility.may_suspend(run, by=by)),
        "suspending": family.suspending([run, *below] if run else []),
        "may_retry": not observer and run is not None and run.may_be_taken_up,
        "may_prioritise": priorities.may_change(order, by),
        "may_ask_again": not observer and resubmit.may_ask_again(order),
        "earlier": earlier,
        "successor": successor,
    }


def ended_words(order: WorkOrder) -> str:
    """Who cancelled an order and where, or what nobody answered in time; "" of all else."""
    run = order.latest_run
    if run is None or order.standing not in {"cancelled", "expired"}:
        return ""
    place, waited = phases.stopped_at(order)
    if order.standing == "expired":
        return gettext("Nobody answered in time: it waited for %(place)s") % {"place": place}
    who = _who_cancelled(run)
    if waited:
        return gettext("Cancelled by %(who)s while waiting for %(place)s") % {
            "who": who,
            "place": place,
        }
    return gettext("Cancelled by %(who)s at %(place)s") % {"who": who, "place": place}


def _who_cancelled(run: Run) -> str:
    decision = Decision.objects.select_related("decided_by").filter(pause__run=run).last()
    if decision is not None and decision.action == CANCEL:
        return decision.who
    ends = Event.objects.filter(
        thread=run.thread_id, run_id=run.pk, kind=EventKind.RUN_CANCELLED
    ).order_by("-seq")
    by = next((str(event.data.get("by") or "") for event in ends[:1]), "")
    person = User.objects.filter(username=by).first()
    return name_of(person) if person else by


def progress(order: WorkOrder) -> list[dict[str, str]]:
    return family.progress_of(
        order.definition,
        order.current_step,
        order.standing,
        phases.asked(order),
        gathers=order.gathering,
        left_out=family.left_out_of(order),
        failed=family.failed_of(order),
    )
