"""Why a run failed, and why a message did not arrive, as runs and deliveries keep it."""

from __future__ import annotations

from django.utils.translation import gettext_noop

FAILURES = (
    gettext_noop("The step did not end within %(seconds)s s."),
    gettext_noop(
        "The step needed more than the %(bytes)s bytes of memory that it may have. Nothing of it "
        "was recorded."
    ),
    gettext_noop(
        "Step %(step)s lost its worker %(count)s times in a row. The state before it is kept; "
        "retry when the cause is found."
    ),
    gettext_noop(
        "The step %(step)s has run %(count)s times in this run, which is its limit. `max_loops` of "
        "its template, or of `use(…)`, allows more."
    ),
    gettext_noop(
        "The agent took %(count)s loops without an answer, which is its limit. What was done so "
        "far is kept; a retry has the limit anew."
    ),
    gettext_noop(
        "The agent has used %(used)s of %(limit)s %(unit)s. What was done so far is kept; a retry "
        "has the limit anew."
    ),
    gettext_noop("tokens"),
    gettext_noop("seconds of work"),
    gettext_noop("The turn took longer than it may. What was done so far is kept."),
    gettext_noop(
        "The model %(model)s refused the key. Check the credential “%(name)s”, then retry."
    ),
    gettext_noop(
        "The model %(model)s is not known at its endpoint. Check name and address in the template."
    ),
    gettext_noop("The model %(model)s says that its quota is used up. Raise it there, then retry."),
    gettext_noop("The model %(model)s takes no more requests at the moment."),
    gettext_noop("The model %(model)s: the conversation is longer than it takes."),
    gettext_noop("The model %(model)s was silent for longer than %(seconds)s s."),
    gettext_noop("The model %(model)s is away (HTTP %(status)s)."),
    gettext_noop(
        "The model %(model)s was not asked: a content filter stopped the request. Ask in other "
        "words."
    ),
    gettext_noop("The model %(model)s could not be reached, or its connection broke."),
    gettext_noop("The model %(model)s stopped in the middle of its answer."),
    gettext_noop("The model %(model)s gave an answer that cannot be read."),
    gettext_noop("The model %(model)s refused the request (HTTP %(status)s): %(words)s"),
    gettext_noop("There is no mail address."),
    gettext_noop(
        "The mail cannot be written: its address or subject holds signs that no mail may."
    ),
    gettext_noop("The mail server refused the address (%(code)s)."),
    gettext_noop("The mail server did not take it: %(error)s."),
    gettext_noop("The receiver answered %(status)s. Redirects are not followed."),
    gettext_noop("The receiver answered %(status)s."),
    gettext_noop("The receiver answered 410 Gone."),
    gettext_noop("The receiver answered 410 Gone; its endpoint is switched off."),
    gettext_noop("Given up: the workers that tried did not come back."),
    gettext_noop(
        "It could not be made or sent here: %(error)s. Operators find the reason in the log."
    ),
    gettext_noop("The endpoint was removed."),
    gettext_noop("The endpoint is switched off."),
    gettext_noop("The account is switched off."),
    gettext_noop("The question was closed before."),
    gettext_noop("The question itself was never sent."),
    gettext_noop("The comment was taken back."),
    gettext_noop("Whoever asked for it waits no more."),
    gettext_noop("No account that may have a password has this address."),
    gettext_noop("%(service)s did not take the message."),
    gettext_noop("Write one address, such as slack://…, without spaces."),
    gettext_noop("Write the address without options, that is without a ? and what follows it."),
    gettext_noop(
        "Write the address as service://…, of one of: %(services)s. Operators may allow others "
        "(WAYSTATION_CHAT_SERVICES)."
    ),
    gettext_noop("This is no complete address for %(service)s."),
    gettext_noop(
        "Messages to %(service)s go to %(hosts)s. Operators may allow another host (%(setting)s)."
    ),
    gettext_noop("Use the service's address over TLS, such as mmosts://… or matrixs://…."),
    gettext_noop(
        "This is not a mail address: write one in one line, as name@example.org, in up to "
        "%(count)s characters."
    ),
)
