"""What this extension asks people in English, for pages in other languages."""

from __future__ import annotations

from django.utils.translation import gettext_noop

WORDS = (
    gettext_noop("May this be done: %(action)s?"),
    gettext_noop("May the agent use %(tool)s?"),
)
