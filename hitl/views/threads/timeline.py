"""The timeline of an order or a thread: each event once in Python. A page has a hundred of them,
and what a template looks up, includes and escapes one by one takes several times as long. What
people did at a question may say more than a line, and has a template then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.template.defaultfilters import linebreaksbr
from django.template.loader import render_to_string
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext, gettext_noop

from checkpoints.models import Event, EventKind
from checkpoints.text import dates, invisible
from hitl.models.decisions import NOBODYS, Via, decider
from hitl.rendering import moments
from hitl.rendering.events import event_words, is_imported, short_id, step_title
from hitl.rendering.own_words import own, own_faults
from runs.states import PauseKind

MINOR = frozenset(
    {
        EventKind.CHECKPOINT_CREATED.value,
        EventKind.STEP_STARTED.value,
        EventKind.RUN_PAUSED.value,
        EventKind.RUN_RESUMED.value,
        EventKind.TOOL_CALL_STARTED.value,
        EventKind.TOOL_CALL_COMPLETED.value,
    }
)
"""Kinds that are shown only where all are."""
Data = Mapping[str, Any]


def log_lines(events: Iterable[Event]) -> SafeString:
    """The lines of a log."""
    label, by = gettext("Imported"), gettext("by %(by)s")
    imported = f'<span class="imported">{label}</span> '
    rows = []
    for event in events:
        data: Data = event.data if isinstance(event.data, dict) else {}
        clock = moments.element(event.at, dates.clock(event.at), "at=clock")
        name = invisible.html(data.get("by") or "")
        said_by = f" <small>{by % {'by': name}}</small>" if name else ""
        rows.append(
            f'<li class="{escape(data.get("level", ""))}">{clock} '
            f"<span>{imported if is_imported(event) else ''}"
            f"{invisible.html(data.get('message', ''))}{said_by}</span></li>\n"
        )
    return mark_safe("".join(rows))  # noqa: S308  # what others wrote is escaped in each part


class TimelineRows:
    """The rows of one timeline; what they share is made once.

    Args:
        of_order: whether the thread is an order's.
        gathering: the step that waits for its child runs; "" where none does.
    """

    def __init__(self, *, of_order: bool, gathering: str = "") -> None:
        self._of_order, self._gathering = of_order, gathering
        self._words: dict[str, str] = {}
        self._link = self._say(gettext_noop("Link to this event"))

    def html(self, events: Iterable[Event]) -> SafeString:
        rows, later = [], None
        for event in events:  # the newest first
            rows.append(self._row(event, later))
            later = event if event.kind in DONE_OR_ASKED else later
        return mark_safe("".join(rows))  # noqa: S308  # what others wrote is escaped in each part

    def _say(self, words: str) -> str:
        if words not in self._words:
            self._words[words] = gettext(words)
        return self._words[words]

    def _row(self, event: Event, later: Event | None) -> str:
        kind = event.kind
        data: Data = event.data if isinstance(event.data, dict) else {}
        if data.get("told_as"):
            return ""
        if kind == EventKind.STEP_COMPLETED and _asks_for_data(data, later):
            data = {**data, "asked": True}
        imported = is_imported(event)
        if imported:
            label = self._say(gettext_noop("Imported"))
            words = f'<span class="imported">{label}</span> {event_words(event)}'
        else:
            words = self._words_of(kind, data)
        density = " minor" if kind in MINOR else " step" if kind == EventKind.STEP_COMPLETED else ""
        clock, ago = moments.clock_and_since(event.at)
        name = "foreign" if imported else escape(kind)
        return (
            f'<li id="event-{event.seq}" class="{name}{density}">'
            f'<a class="when" href="#event-{event.seq}" title="{self._link}">{clock}</a>'
            f'<i aria-hidden="true"></i><div>{words} <small class="ago">{ago}</small></div></li>\n'
        )

    def _words_of(self, kind: str, data: Data) -> str:
        written = PLAIN.get(kind)
        if written is not None:
            return written(self, data)
        if data.get("again") and data.get("errors"):
            unfit = self._say(gettext_noop("An answer did not fit; the question stays open"))
            return f"{unfit} {_revision(data)}{_quoted(own_faults(str(data.get('refined', ''))))}"
        written = LATER.get(kind)
        return written(self, data) if written is not None else escape(kind)

    def _run_started(self, data: Data) -> str:
        return self._say(gettext_noop("Work started"))

    def _step_started(self, data: Data) -> str:
        words = self._say(gettext_noop("%(step)s started")) % {"step": _step(data)}
        loop = data.get("loop_num")
        if not isinstance(loop, int) or loop < 2:
            return words
        again = self._say(gettext_noop("time %(loop_num)s")) % {"loop_num": loop}
        return f"{words} <small>{again}</small>"

    def _step_completed(self, data: Data) -> str:
        waits = self._gathering and data.get("step") == self._gathering
        words = (
            gettext_noop("waits for its child runs")
            if waits
            else gettext_noop("asked for data")
            if data.get("asked")
            else gettext_noop("finished")
        )
        return f"{_step(data)} {self._say(words)}"

    def _tool_call_started(self, data: Data) -> str:
        return self._say(gettext_noop("%(tool)s called")) % {"tool": self._tool(data)}

    def _tool_call_completed(self, data: Data) -> str:
        return self._say(gettext_noop("%(tool)s answered")) % {"tool": self._tool(data)}

    def _tool(self, data: Data) -> str:
        return invisible.html(data.get("tool") or self._say(gettext_noop("A tool")))

    def _checkpoint_created(self, data: Data) -> str:
        key, label = str(data.get("checkpoint_id", "")), self._say(gettext_noop("Checkpoint"))
        steps = self._say(gettext_noop("%(completed_nodes)s of %(total_nodes)s steps")) % {
            name: escape(data.get(name, "")) for name in ("completed_nodes", "total_nodes")
        }
        short = escape(short_id(key))
        return f'{label} <small title="{escape(key)}">{short} · {steps}</small>'

    def _asked(self, data: Data) -> str:
        prompt = own(data.get("prompt") or "") or self._say(gettext_noop("Waiting for an answer"))
        return f"{invisible.html(prompt)} {_revision(data)}"

    def _run_paused(self, data: Data) -> str:
        label, idle = gettext_noop("Run paused"), gettext_noop("holds no worker while it waits")
        return f"{self._say(label)} <small>{self._say(idle)}</small>"

    def _run_resumed(self, data: Data) -> str:
        label, undo = gettext_noop("Run resumed"), gettext_noop(", once the time to undo is over")
        step = escape(step_title(data.get("step", "")) or self._say(gettext_noop("the end")))
        at = self._say(gettext_noop("at %(step)s")) % {"step": step}
        later = self._say(undo) if data.get("goes_on_at") else ""
        return f"{self._say(label)} <small>{at}{later}</small>"

    def _run_completed(self, data: Data) -> str:
        whole = gettext_noop("Work order") if self._of_order else gettext_noop("Run")
        done = gettext_noop("completed")
        return f"{self._say(whole)} {self._say(done)}"

    def _run_failed(self, data: Data) -> str:
        error = invisible.html(own(str(data.get("error", ""))))
        return self._say(gettext_noop("Failed: %(error)s")) % {"error": error}

    def _run_cancelled(self, data: Data) -> str:
        told = own(str(data.get("error") or "")) or self._say(gettext_noop("Cancelled"))
        why = str(data.get("reason") or "")
        return invisible.html(f"{told}: {why}" if why else told)

    def _run_expired(self, data: Data) -> str:
        return invisible.html(
            own(str(data.get("error") or "")) or self._say(gettext_noop("Expired"))
        )

    def _answered(self, data: Data) -> str:
        through = dict(Via.choices).get(data.get("via", ""), "")
        told = {**data, "by": decider(str(data.get("by", "")))}
        if data.get("via") in NOBODYS:
            told["feedback"] = own(str(data.get("feedback", "")))
        given = {"data": told, "through": through}
        return render_to_string("hitl/pauses/_approval_received.html", given)

    def _pause_updated(self, data: Data) -> str:
        alone = DONE_BY.get(data.get("what", ""))
        if alone is not None:
            return self._say(alone) % {"by": invisible.html(data.get("by", ""))}
        return render_to_string("hitl/pauses/_pause_updated.html", {"data": data})


DONE_OR_ASKED = frozenset(
    {
        EventKind.STEP_COMPLETED.value,
        EventKind.APPROVAL_REQUESTED.value,
        EventKind.AWAIT_HUMAN_INPUT.value,
    }
)


def _asks_for_data(done: Data, later: Event | None) -> bool:
    """Whether what a step ended with is a question for data: what is filled in ends it."""
    asked: Data = later.data if later is not None and isinstance(later.data, dict) else {}
    return asked.get("kind") == PauseKind.INPUT and asked.get("step") == done.get("step")


DONE_BY = {
    "claimed": gettext_noop("<b>%(by)s</b> claimed the question"),
    "released": gettext_noop("<b>%(by)s</b> released the question"),
    "took_back": gettext_noop("<b>%(by)s</b> took back what was handed over"),
    "comment_withdrawn": gettext_noop("<b>%(by)s</b> took back a comment"),
}
"""What became of a question, where all that is said of it is who did it."""
PLAIN: dict[str, Callable[[TimelineRows, Data], str]] = {
    EventKind.RUN_STARTED: TimelineRows._run_started,
    EventKind.STEP_STARTED: TimelineRows._step_started,
    EventKind.STEP_COMPLETED: TimelineRows._step_completed,
    EventKind.TOOL_CALL_STARTED: TimelineRows._tool_call_started,
    EventKind.TOOL_CALL_COMPLETED: TimelineRows._tool_call_completed,
    EventKind.CHECKPOINT_CREATED: TimelineRows._checkpoint_created,
}
"""The words of what runs do by themselves;"""
LATER: dict[str, Callable[[TimelineRows, Data], str]] = {
    EventKind.APPROVAL_REQUESTED: TimelineRows._asked,
    EventKind.AWAIT_HUMAN_INPUT: TimelineRows._asked,
    EventKind.APPROVAL_RECEIVED: TimelineRows._answered,
    EventKind.PAUSE_UPDATED: TimelineRows._pause_updated,
    EventKind.RUN_PAUSED: TimelineRows._run_paused,
    EventKind.RUN_RESUMED: TimelineRows._run_resumed,
    EventKind.RUN_COMPLETED: TimelineRows._run_completed,
    EventKind.RUN_FAILED: TimelineRows._run_failed,
    EventKind.RUN_CANCELLED: TimelineRows._run_cancelled,
    EventKind.RUN_EXPIRED: TimelineRows._run_expired,
}
"""and of the rest, where no answer that did not fit is told."""


def _step(data: Data) -> str:
    return escape(step_title(data.get("step", "")))


def _revision(data: Data) -> str:
    words = gettext("revision %(revision)s") % {"revision": escape(data.get("revision") or 1)}
    return f"<small>{words}</small>"


def _quoted(text: object) -> str:
    return f'<blockquote dir="auto">{linebreaksbr(invisible.html(text))}</blockquote>'
