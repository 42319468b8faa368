"""What the steps of this extension say of themselves in English, for pages in other languages."""

from __future__ import annotations

from django.utils.translation import gettext_noop

WORDS = (
    gettext_noop(
        "Plans what ruff finds in a Python repository, fixes what you approve, one commit a "
        "rule, and proves it. Offline."
    ),
    gettext_noop(
        "The same work from end to end; it asks only where it understands nothing of the "
        "request. A result that fails its own review is not delivered."
    ),
    gettext_noop("Tidy the sample repository"),
    gettext_noop(
        "Codes of ruff rules, or their beginnings, by commas or spaces: F401, I, UP. Empty for "
        "those that the repository selects, else F, I, UP, E7."
    ),
    gettext_noop("Paths"),
    gettext_noop(
        "Folders or files inside the repository, separated by commas or spaces. Empty for the "
        "whole repository."
    ),
    gettext_noop("Oldest Python version"),
    gettext_noop(
        "The oldest Python that the code must still run on; “repository” for what the "
        "repository says. Where it supports an older one than is named here, that counts."
    ),
    gettext_noop("Unsafe fixes too"),
    gettext_noop("Also fixes that may change what the code does."),
    gettext_noop("Push the branch"),
    gettext_noop(
        "When all is approved, push the branch to where it came from, if the repository leaves "
        "that to the order."
    ),
    gettext_noop("Fixes"),
    gettext_noop("Reported only"),
    gettext_noop("At"),
    gettext_noop("Verdict"),
    gettext_noop("✓ holds"),
    gettext_noop("✗ does not hold"),
    gettext_noop("What should be tidied? The request was not understood."),
    gettext_noop(
        "Understood are rules (F401, UP) and paths (src/, tests/), with “skip”, “only” or "
        "“add”: “skip UP007, not in tests/”."
    ),
    gettext_noop(
        "Understood are rules (F401) and paths (src/) of the approved plan, with “skip”: “skip "
        "UP007 in tests/”."
    ),
    gettext_noop("1 fix"),
    gettext_noop("%(count)s fixes"),
    gettext_noop("1 file"),
    gettext_noop("%(count)s files"),
    gettext_noop("Leave out %(rule)s (%(name)s): %(fixes)s in %(files)s"),
    gettext_noop("Leave out %(path)s"),
    gettext_noop("%(change)s (not part of the approved plan)"),
    gettext_noop(
        "Do what the approved plan says, less what the reviewer took out since; one commit a rule."
    ),
    gettext_noop("Find what ruff would fix, by trying it in the work tree and putting it back."),
    gettext_noop(
        "Prove the result. What does not hold is a finding for the reviewer, not an error."
    ),
)
