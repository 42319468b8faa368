"""Labels of answers, questions as usual, and titles of steps and templates that ship."""

from __future__ import annotations

from django.utils.translation import gettext_noop

LABELS = (
    gettext_noop("Approve"),
    gettext_noop("Approve all"),
    gettext_noop("Send decisions"),
    gettext_noop("Send"),
    gettext_noop("Send answer"),
    gettext_noop("Reject"),
    gettext_noop("Reject the invoice"),
    gettext_noop("Approve and skip review"),
    gettext_noop("It happened"),
    gettext_noop("Go on without it"),
    gettext_noop("Answer"),
    gettext_noop("Waiting for Plan Approval"),
    gettext_noop("Waiting for Implementation Review"),
    gettext_noop("Waiting for Review Decision"),
    gettext_noop("Plan Approval"),
    gettext_noop("Implementation Review"),
    gettext_noop("Review Decision"),
    gettext_noop("Planning"),
    gettext_noop("Execute"),
    gettext_noop("Review"),
    gettext_noop("Deliver"),
    gettext_noop("Plan the design"),
    gettext_noop("Plan against the risks"),
    gettext_noop("Agent"),
    gettext_noop("Extract"),
    gettext_noop("Validate"),
    gettext_noop("Enrich"),
    gettext_noop("Decide"),
    gettext_noop("Post"),
    gettext_noop("Tidy a repository"),
    gettext_noop("Tidy a repository, without pauses"),
    gettext_noop("Book an invoice"),
    gettext_noop("Change a repository, with review"),
    gettext_noop("Change a repository, without pauses"),
    gettext_noop("Chat with an agent"),
)
