"""A work order as a row of lists, and in words how it stands: as the rows of the inbox are made."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext

from checkpoints.text import invisible
from checkpoints.text.states import state_words, tone
from hitl.find.marks import NOTHING, Found
from hitl.rendering.events import short_id
from hitl.rendering.links import order_at
from hitl.rendering.moments import Moments
from hitl.rendering.own_words import own
from hitl.views.lists.reading import ListedOrder
from runs import phases
from runs.models import WorkOrder

CONCLUSION = 80
"""Characters of how the work ended that a row has."""


def rows(orders: Iterable[ListedOrder], found: Found = NOTHING) -> SafeString:
    """The orders as a list, with the words marked that were searched for."""
    words, moments = gettext("<code>%(order)s</code> · %(definition)s · asked by"), Moments()
    return SafeString(
        '<ul class="rows card">\n'
        + "\n".join([_row(listed, words, moments, found) for listed in orders])
        + "\n</ul>"
    )


def _row(listed: ListedOrder, words: str, moments: Moments, found: Found) -> str:
    order = listed.order
    asked = words % {
        "order": short_id(order.shown_id),
        "definition": invisible.html(order.definition),
    }
    return (
        '<li><div class="what">'
        f'<a dir="auto" class="main-link" href="{escape(order_at(order.pk))}">'
        f"{found.html(order.title)}</a>{found.beside(order.pk)}"
        f"<p>{asked} {invisible.html(listed.asker)} {moments.since(order.created_at)}</p></div>"
        f'<span class="state">{order_status(order)}</span></li>'
    )


def order_status(order: WorkOrder) -> SafeString:
    """Status first; the phase only where it adds something, and how the work ended where its
    workflow says so.
    """
    status = order.standing
    said = f'<span class="status {tone(status)}">{escape(state_words(status))}</span>'
    more = phases.whereabouts(order) if status != "completed" else _conclusion(order)
    return SafeString(f'{said} <span class="phase">{invisible.html(more)}</span>' if more else said)


def _conclusion(order: WorkOrder) -> str:
    said = own(str(order.outputs.get("conclusion") or ""))
    return Truncator(said).chars(CONCLUSION) if len(said) > CONCLUSION else said
