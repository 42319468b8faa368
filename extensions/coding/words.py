"""What the steps of this extension say of themselves in English, for pages in other languages."""

from __future__ import annotations

from django.utils.translation import gettext_noop

WORDS = (
    gettext_noop(
        "Two agents plan apart from each other, one makes the change, one reviews it; you "
        "approve each. Needs a language model or a command line agent."
    ),
    gettext_noop(
        "One agent plans, one makes the change, and nobody is asked. Needs a language model or "
        "a command line agent."
    ),
    gettext_noop("Change a repository"),
    gettext_noop("When all is approved, push the branch to the repository it came from."),
    gettext_noop("Planners"),
    gettext_noop("✓ passes"),
    gettext_noop("✗ does not pass"),
)
