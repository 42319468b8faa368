"""What is said of events of a thread's log, and of the things that they name."""

from __future__ import annotations

from django.utils.safestring import SafeString
from django.utils.translation import gettext

from checkpoints.events.log import IMPORTED_AT
from checkpoints.models import Event
from checkpoints.text import invisible
from hitl.rendering.own_words import own


def short_id(shown_id: str) -> str:
    """`ckpt_01k…f3`: enough to tell two apart in a list; the whole is in the title."""
    prefix, _, rest = shown_id.partition("_")
    return f"{prefix}_{rest[:4]}…{rest[-4:]}" if len(rest) > 10 else shown_id


def step_title(name: str) -> str:
    """`Cool off` for the step `cool_off`, as the progress of an order has it."""
    words = str(name or "").replace("_", " ").replace("-", " ")
    return own(words[:1].upper() + words[1:])


def event_words(event: Event) -> SafeString:
    """What an event says, on one line.

    One that was imported says it of another server, and never as a fact of this one.
    """
    data = event.data if isinstance(event.data, dict) else {}
    named = (
        data.get("message")
        or data.get("error")
        or data.get("prompt")
        or data.get("decision")
        or data.get("step")
        or ""
    )
    text = str(named)[:300]
    if not is_imported(event):
        return invisible.html(text if event.kind == "log" else own(text))
    words = gettext("“%(kind)s” on another server, not checked here")
    words %= {"kind": event.get_kind_display()}
    by = gettext(", said to be by %(by)s") % {"by": str(data["by"])[:100]} if "by" in data else ""
    return invisible.html(words + (f": {own(text)}" if text else "") + by)


def is_imported(event: Event) -> bool:
    """Whether an event came with a document."""
    return isinstance(event.data, dict) and IMPORTED_AT in event.data
