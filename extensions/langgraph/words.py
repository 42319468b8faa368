"""What the steps of this extension say of themselves in English, for pages in other languages."""

from __future__ import annotations

from django.utils.translation import gettext_noop

WORDS = (
    gettext_noop("Graph"),
    gettext_noop("Ask one of several interrupts, and keep what the graph goes on with there."),
    gettext_noop("Questions after this one"),
    gettext_noop("Decision"),
    gettext_noop("Edit"),
    gettext_noop("Respond"),
    gettext_noop("Ignore"),
    gettext_noop("May the graph do this: %(calls)s?"),
    gettext_noop("The graph %(graph)s asks"),
    gettext_noop("The graph stops here before **%(node)s**. Approve to let it go on."),
    gettext_noop("The graph stops here after **%(node)s**. Approve to let it go on."),
    gettext_noop("Arguments"),
    gettext_noop("One that WAYSTATION_GRAPHS names."),
    gettext_noop('Input of the graph and where the state has it: {"topic": "/topic"}.'),
    gettext_noop("Keys of the graph to keep."),
    gettext_noop("Run a graph until it ends or asks."),
)
