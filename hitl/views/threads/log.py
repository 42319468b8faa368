"""The whole log of a thread: older lines, search, level, and as a file."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from checkpoints.models import Event, EventKind
from checkpoints.text import invisible
from hitl.rendering import paging
from hitl.rendering.paging import ListAddress, ListPage
from hitl.views.threads import pages
from hitl.views.threads.checkpoints import home_of

PAGE = 200
SCANNED = 5_000
"""Lines that one page looks through: what they say is sealed at rest, so no index finds a word."""
FILE_LINES = 50_000
"""Lines of a file, the newest."""
LEVELS = {"warning": ("warning", "error"), "error": ("error",)}
"""Least level that is asked for → the levels of a line that are shown."""
BY_SEQ = paging.ListOrder(key="seq", newest=True)


@dataclass(frozen=True)
class LogFilter:
    """Which lines of a log are looked for; "" means any."""

    text: str = ""
    level: str = ""

    @classmethod
    def read(cls, request: HttpRequest) -> LogFilter:
        level = request.GET.get("level", "")
        return cls(request.GET.get("q", "").strip()[:200], level if level in LEVELS else "")

    def fits(self, event: Event) -> bool:
        line: Any = event.data if isinstance(event.data, dict) else {}
        if self.level and line.get("level") not in LEVELS[self.level]:
            return False
        return self.text.casefold() in f"{line.get('step', '')} {_message(event)}".casefold()


def _message(event: Event) -> str:
    line: Any = event.data if isinstance(event.data, dict) else {}
    return str(line.get("message", ""))


@require_safe
@login_required
def thread_log(request: HttpRequest, thread_id: uuid.UUID) -> HttpResponse:
    """Oldest line of the page first; `?q=` and `?level=` choose, `?before=<seq>` gives what is
    older.
    """
    thread, wanted = pages.find(thread_id, request), LogFilter.read(request)
    here = ListAddress(request.path, request.GET.dict()).only("q", "level", "before")
    page, looked_through = _found(thread.pk, wanted, here)
    context = {
        "thread": thread,
        "home": home_of(thread),
        "wanted": wanted,
        "page": page,
        "lines": page.rows[::-1],
        "looked_through": looked_through,
    }
    return render(request, "hitl/threads/log.html", context)


def _found(
    thread_id: uuid.UUID, wanted: LogFilter, here: ListAddress
) -> tuple[ListPage[Event], bool]:
    """The lines of a page, newest first; and whether there may be more though few were found."""
    before = here.query.get("before", "")
    lines = BY_SEQ(
        Event.objects.filter(thread=thread_id, kind=EventKind.LOG),
        BY_SEQ.read(before) if before else None,
    )
    found: list[Event] = []
    last, looked_at = None, 0
    for event in lines[: SCANNED + 1].iterator(500):
        if looked_at == SCANNED or len(found) == PAGE:
            break
        looked_at, last = looked_at + 1, event
        if wanted.fits(event):
            found.append(event)
    else:
        last = None
    first = here.to(before="") if before else ""
    older = here.to(before=BY_SEQ.write(BY_SEQ.place(last))) if last is not None else ""
    return ListPage(found, next=older, first=first), bool(older) and len(found) < PAGE


@require_safe
@login_required
def thread_log_file(request: HttpRequest, thread_id: uuid.UUID) -> HttpResponse:
    """The log as a file of lines, oldest first; `?as=jsonl` as JSON objects, `?q=` and `?level=` as
    on the page.
    """
    thread, wanted = pages.find(thread_id, request), LogFilter.read(request)
    lines = BY_SEQ(Event.objects.filter(thread=thread.pk, kind=EventKind.LOG))
    newest = list(lines[: FILE_LINES + 1])
    cut = len(newest) > FILE_LINES
    chosen = [event for event in reversed(newest[:FILE_LINES]) if wanted.fits(event)]
    as_json = request.GET.get("as") == "jsonl"
    text = "".join(_json_lines(chosen) if as_json else _text_lines(chosen, cut))
    kind = "application/jsonl" if as_json else "text/plain; charset=utf-8"
    response = HttpResponse(text, content_type=kind)
    ending = "jsonl" if as_json else "log"
    response["Content-Disposition"] = f'attachment; filename="{thread.shown_id}.{ending}"'
    return response


def _text_lines(events: list[Event], cut: bool) -> Iterator[str]:
    if cut:
        yield f"# Only the newest {FILE_LINES} lines; the page of the log has the older ones.\n"
    for event in events:
        line: Any = event.data if isinstance(event.data, dict) else {}
        head = (
            f"{event.at.isoformat()} {str(line.get('level', '')).upper():7} {line.get('step', '')}"
        )
        yield invisible.plain(f"{head}: {_message(event)}").replace("\n", "\n  ") + "\n"


def _json_lines(events: list[Event]) -> Iterator[str]:
    for event in events:
        line: Any = event.data if isinstance(event.data, dict) else {}
        yield json.dumps({"seq": event.seq, "at": event.at.isoformat(), **line}) + "\n"
