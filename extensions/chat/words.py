"""What the steps of this extension say of themselves in English, for pages in other languages."""

from __future__ import annotations

from django.utils.translation import gettext_noop

WORDS = (
    gettext_noop(
        "An agent with tools, which asks before it reaches outside. Its model is the server's "
        "(WAYSTATION_MODEL); where there is none, a scripted one that works offline and says "
        "so."
    ),
)
