"""What our templates say that Django's do not."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

from django import template
from django.template import Context
from django.templatetags import i18n
from django.urls import NoReverseMatch, reverse
from django.utils import formats, timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext

from checkpoints import ids
from checkpoints.forensics import steps
from checkpoints.lineage import Branch
from checkpoints.text import dates, invisible
from checkpoints.text.states import state_icon, state_words, tone
from hitl.decisions.deadlines import changes
from hitl.http import languages
from hitl.identity import factors
from hitl.rendering import events, moments, templating
from hitl.rendering import markdown as md
from hitl.rendering.diagrams import times
from hitl.rendering.icons import icon
from hitl.rendering.markdown import MarkdownPage
from hitl.rendering.own_words import in_words, own, own_content, own_faults
from hitl.rendering.paging import ListPage
from hitl.rendering.patches import sheets, written
from hitl.rendering.patches.reading import ReadPatch
from hitl.rendering.patches.sheets import PatchSheet
from hitl.rendering.word_diff import DiffPart
from hitl.views.cards.lines import verdict
from hitl.views.cards.orders import order_status
from hitl.views.cards.standing import Card
from hitl.views.clock import shown_to
from hitl.views.common import home_of, place_of, risk_words, waiting_count
from hitl.views.common import next_question as following
from hitl.views.lists import walk
from hitl.views.pauses.patches import look_of
from runs import phases
from runs.models import Pause, Run, WorkOrder
from runs.workflows import attachments, refusals, schemas

register = template.Library()
register.tags |= i18n.register.tags  # nearly every template has words
register.filters |= i18n.register.filters
register.tag("translate", templating.translate)
register.filter(moments.ago)
register.filter(moments.ahead)
register.filter(events.short_id)
register.filter(events.step_title)
register.filter(events.event_words)
register.filter(events.is_imported)
register.simple_tag(moments.since)
register.simple_tag(moments.until)
register.simple_tag(verdict)
register.simple_tag(icon)
register.simple_tag(order_status)
register.filter(state_words)
register.filter(own)
register.filter(own_content)
register.filter(own_faults)
register.filter(tone)
register.filter(state_icon)


@register.inclusion_tag("hitl/inbox/_pager.html")
def pager(page: ListPage[Any], label: str, *, first: str, next: str) -> dict[str, Any]:
    """Lead to the other pages of a list; `first` and `next` are the words of the links."""
    return {"page": page, "label": label, "first": first, "next": next}


@register.simple_tag(takes_context=True)
def markdown(context: Context, text: str) -> SafeString:
    """Sanitised HTML of Markdown text."""
    return _texts_of(context).read(text).html


def _texts_of(context: Context) -> MarkdownPage:
    """The texts of the page that is made; of a mail each text is one of its own."""
    request = getattr(context, "request", None)
    if request is None:
        return MarkdownPage()
    if not hasattr(request, "_texts"):
        request._texts = MarkdownPage()
    texts: MarkdownPage = request._texts
    return texts


@register.filter
def factor(kind: str) -> str:
    """What people call a second factor."""
    return str(factors.NAMES.get(kind, kind))


@register.filter
def told(at: dt.datetime) -> str:
    """`7 Jul 2026, 12:00 UTC`, where no page says the time zone."""
    return dates.told(at)


@register.filter
def day(at: dt.date) -> str:
    """`7 Jul 2026`."""
    return dates.of_date(at)


@register.filter
def lasted(length: dt.timedelta) -> str:
    """`3 h 20 min`."""
    return times.in_words(length)


STYLES: dict[str, Callable[[dt.datetime], str]] = {
    "": dates.shown,
    "exact": partial(dates.shown, exact=True),
    "day": dates.day,
    "clock": dates.clock,
    # for paper: with its zone, and the same for every reader
    "told": partial(dates.told, exact=True),
}


@register.simple_tag
def moment(at: dt.datetime | str | None, style: str = "") -> SafeString:
    """`7 Jul 2026, 12:00`; static/js writes it for the reader's time zone, in the same style.

    `style` is one of `STYLES`.
    """
    try:
        at = dt.datetime.fromisoformat(at) if isinstance(at, str) else at
        at = timezone.make_aware(at) if at is not None and timezone.is_naive(at) else at
    except ValueError:  # an event that was imported may hold anything
        return invisible.html(at)
    return (
        SafeString("")
        if at is None
        else moments.element(at, STYLES[style](at), f"at={style}" if style != "told" else "")
    )


@register.simple_tag(name="clock")
def time_of_day(at: dt.datetime | None) -> SafeString:
    """`12:00:05`, where many lines of one hour stand below each other; its day is in the title."""
    return moment(at, "clock")


@register.simple_tag
def page_words() -> str:
    """The address of the words of static/js in the page's language; empty for English."""
    language = get_language() or "en"
    return "" if language == "en" else _words_of(language)


@cache
def _words_of(language: str) -> str:
    try:
        place = reverse("words")
    except NoReverseMatch:  # in a project of somebody's own
        return ""
    return f"{place}?language={language}&v={languages.words_version(language)}"


@register.inclusion_tag("hitl/pauses/_deadline.html", takes_context=True)
def deadline(context: dict[str, Any], card: Card) -> dict[str, Any]:
    """What the rules of an open question do when nobody answers, and what its reader can do about
    it.
    """
    return {
        **shown_to(card.standing),
        "csrf_token": context.get("csrf_token"),
    }


@register.inclusion_tag("hitl/inbox/_next.html", takes_context=True)
def next_question(context: dict[str, Any]) -> dict[str, Any]:
    """The way to what this person is to answer next."""
    request = context["request"]
    count, query, was = waiting_count(request), walk.list_of(request), request.GET.get(walk.WAS, "")
    query = query if was else ""
    here = following(request) if count and not query else None
    pause = walk.following(request, was, query) if query else here
    return {
        "count": count,
        "place": pause and (walk.with_list(place_of(pause), query) if query else place_of(pause)),
        "pause": pause,
        "at": walk.inbox_at(query),
        "single_keys": context.get("single_keys"),
    }


@register.inclusion_tag("hitl/inbox/_beside.html", takes_context=True)
def questions_beside(context: dict[str, Any], pause: Pause) -> dict[str, Any]:
    """The ways from an open question to those before and after it."""
    query = walk.list_of(context["request"])
    return {
        "pause": pause,
        "list": query,
        "at": walk.inbox_at(query) if query else "",
        "single_keys": context.get("single_keys"),
    }


@register.simple_tag(takes_context=True)
def list_asked(context: dict[str, Any]) -> str:
    """The query of the list from which the page was opened."""
    request = context.get("request")
    return walk.list_of(request) if request is not None else ""


@register.filter
def shown(key: Any, prefix: str) -> str:
    """The shown id of a key."""
    return ids.show(prefix, key)


@register.filter
def edits_url(pause_id: str) -> str:
    """The page on what was edited in an answer."""
    return reverse("hitl:pause_edits", args=[ids.parse(Pause.PREFIX, pause_id)])


@register.filter
def counted(number: int) -> str:
    """How many questions wait: `1000+` for as many as are counted, which says that or more."""
    text = str(number)  # of the navigation it is a lazy object, which does not compare
    return f"{text}+" if int(text) >= changes.MOST_COUNTED else text


@register.filter
def live_total(number: int) -> SafeString:
    """The same where static/js/inbox.js keeps it true."""
    return format_html("<span data-total>{}</span>", counted(number))


@register.filter
def live_on_page(number: int) -> SafeString:
    """How many rows of a page wait, where static/js/rows.js keeps it true."""
    return format_html("<span data-on-page>{}</span>", number)


@register.filter
def number(value: object) -> int:
    """A number to choose between one and many by; 0 for what is none, such as in imported data."""
    try:
        return int(str(value))
    except ValueError:
        return 0


@register.filter
def how_far(progress: Mapping[str, Any]) -> str:
    """How far a step says it is, in words: `300 of 1,000 rows`."""
    values = {
        "done": formats.number_format(round(progress["done"], 1), force_grouping=True),
        "of": formats.number_format(round(progress["of"] or 0, 1), force_grouping=True),
        "unit": progress["unit"],
    }
    text = (
        gettext("%(done)s of %(of)s %(unit)s") if progress["of"] else gettext("%(done)s %(unit)s")
    )
    return (text % values).strip()


register.filter(risk_words)


@register.filter
def place(pause: Pause) -> str:
    """The address of a question, on the page of its order or thread."""
    return place_of(pause)


@register.filter
def home(run: Run) -> str:
    """The address of the page of a run's order or thread."""
    return home_of(run)


@register.filter
def get(mapping: dict[str, Any], key: str) -> Any:
    return mapping.get(key, "")


@register.filter
def brief(shown_id: str) -> str:
    """Of a checkpoint's id the first eight signs, and the last four: those that were made in the
    same second begin alike.
    """
    _, _, signs = shown_id.partition("_")
    return f"{signs[:8]}…{signs[-4:]}"


@register.filter
def whereabouts(order: WorkOrder) -> str:
    """Where an order stands, or what ended it and where."""
    return phases.whereabouts(order)


@register.filter
def labelled_input(order: WorkOrder) -> list[tuple[str, Any]]:
    """An order's input as its form had it: in its order, under its labels."""
    parts = schemas.declared(in_words(order.template.input_schema or {}))
    names = [
        *(name for name in parts if name in order.input),
        *(name for name in order.input if name not in parts),
    ]
    return [
        row
        for name in names
        for row in _rows(
            own(refusals.label_of(name, parts.get(name, {}))),
            parts.get(name, {}),
            order.input[name],
        )
    ]


def _rows(label: str, part: Mapping[str, Any], value: Any) -> Iterator[tuple[str, Any]]:
    """A value as rows: an object has one for each field, a list of objects one for each of theirs;
    a file stays whole.
    """
    if isinstance(value, dict) and part.get("format") != attachments.FORMAT:
        inner = schemas.declared(part)
        for name, one in value.items():
            shape = inner.get(name, {})
            yield from _rows(f"{label}: {own(refusals.label_of(name, shape))}", shape, one)
    elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
        items = part.get("items", {})
        for number, one in enumerate(value, start=1):
            yield from _rows(f"{label} {number}", items if isinstance(items, dict) else {}, one)
    else:
        yield label, value


@register.filter
def outline(branch: Branch) -> list[steps.Item]:
    return steps.outline(branch)


@register.filter
def visible(text: object) -> SafeString:
    """Any text, escaped, with what a screen does not show made visible."""
    return invisible.html(text)


@register.filter
def visible_text(text: object) -> str:
    """The same for attributes, titles and mails: without markup."""
    return invisible.plain(text)


@register.filter
def as_plain_text(markdown: str) -> str:
    """Markdown for a mail of plain text."""
    return invisible.plain(md.unescaped(markdown))


@register.filter
def hides(text: object) -> bool:
    """Whether a text holds characters that a screen does not show."""
    return bool(invisible.found(str(text)))


@register.inclusion_tag("hitl/pauses/_as_written.html", takes_context=True)
def as_written(context: Context, text: str, brief: bool = False) -> dict[str, Any]:
    """What the rendering of a Markdown text leaves out, and the text as it is; `brief`: nothing
    where it leaves nothing out.
    """
    notes = _texts_of(context).read(text).notes
    return {"text": text, "notes": notes, "shown": bool(notes) or not brief}


@register.simple_tag(takes_context=True)
def laid_out(context: Context, patch: ReadPatch) -> PatchSheet:
    """The patch as this reader wishes to see it, with its first lines; whole where a page says
    so.
    """
    made: PatchSheet | None = context.get("sheet")
    return made or sheets.draw(patch, look_of(getattr(context, "request", None)))


@register.simple_tag
def patch_tree(sheet: PatchSheet) -> SafeString:
    return written.tree(sheet)


@register.simple_tag
def patch_choices(patch: ReadPatch) -> SafeString:
    return written.choices(patch.files)


@register.simple_tag(takes_context=True)
def patch_files(context: Context, sheet: PatchSheet) -> SafeString:
    return written.files(
        context["pause"].pk,
        sheet,
        icon("chevron-right", 14),
        ticks=bool(context.get("talk") or context.get("ticks")),
        only=context.get("only"),
    )


@register.inclusion_tag("hitl/pauses/_left_out.html", takes_context=True)
def left_out(context: Context, text: str) -> dict[str, Any]:
    """What the rendering of a Markdown text leaves out."""
    return {"notes": _texts_of(context).read(text).notes}


@register.filter
def diff_kind(line: str) -> str:
    """The class of a line of a unified diff."""
    return {"+": "add", "-": "del", "@": "hunk"}.get(line[:1], "same")


@register.filter
def changed_words(parts: Sequence[DiffPart]) -> SafeString:
    """One side of a changed line, whose white space is kept; words that the other side lacks are
    marked.
    """
    marks = {"removed": "<del>{}</del>", "added": "<ins>{}</ins>"}
    return SafeString(
        "".join(format_html(marks.get(one.kind, "{}"), visible(one.text)) for one in parts)
    )
