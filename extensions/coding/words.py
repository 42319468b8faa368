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
    gettext_noop("The agent makes the change that was planned, or corrects the one it made."),
    gettext_noop("One agent plans."),
    gettext_noop(
        "The sub-steps plan at the same time, each in a child run; then their plans are merged."
    ),
    gettext_noop("Run the repository's check, and let an agent look at the patch."),
    gettext_noop("Run the configured agent, keep what it answers, and commit what it changed."),
    gettext_noop(
        "Nothing here can write code yet. Set WAYSTATION_CODER to a command line agent, or "
        "WAYSTATION_MODEL (with WAYSTATION_MODEL_URL for an endpoint of your own) to a "
        "language model; docs/how-to/coding-agents.md says how."
    ),
)
