"""What is said, in a mail, in a chat and to a system.

Never the run's state, and no content where content is encrypted at rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop

from checkpoints.models.fields import demand
from checkpoints.state import encryption
from checkpoints.text import dates, invisible
from hitl.channels.protocol import OutboundMessage
from hitl.decisions.reviewers import external_access, policy, turns
from hitl.models import Decision, OuterRun
from hitl.models.outbound import ASKING, Channel, Delivery, Occasion
from hitl.outbound import links, order_ends
from hitl.outbound.quotas import CHOSEN
from hitl.rendering.links import place_of
from hitl.rendering.own_words import own as in_reader_words
from hitl.rendering.own_words import own_content, own_faults
from runs.models import Pause
from runs.workflows.reviews import stages

CONTENT = 6_000
"""Characters of the content that a mail holds; the page has all of it."""
EARLIER = {
    Occasion.ASKED: "",
    Occasion.REFINED: gettext_noop("Asked again: %(question)s"),
    Occasion.REMINDED: gettext_noop("Reminder: %(question)s"),
    Occasion.ESCALATED: gettext_noop("Escalated to you: %(question)s"),
    Occasion.MENTIONED: "",
    Occasion.ANSWERED: gettext_noop("Answered: %(question)s"),
    Occasion.CANCELLED: gettext_noop("Cancelled: %(question)s"),
    Occasion.EXPIRED: gettext_noop("Expired: %(question)s"),
    Occasion.REPLIED: gettext_noop("About your reply: %(question)s"),
}
CALLBACKS: list[Callable[[Pause], dict[str, Any] | None]] = []
"""What is said to an endpoint of one thread, where it waits for a run's end in a form of its own;
the first that has a say.
"""
OTHERS = 8
"""Names of who else may answer."""
LISTED, LINE = 8, 90
"""Questions that a chat is told of at once, and the characters of each: services cut or refuse what
is longer than a thousand or so.
"""


def of(delivery: Delivery) -> OutboundMessage:
    """What a message says; makes the link that it carries."""
    pause = delivery.pause
    if delivery.run is not None:
        return order_ends.message_of(delivery, delivery.run)
    if pause is None:
        return _test()
    asking = delivery.occasion in ASKING
    if delivery.contact and (external_access.may_answer(pause, delivery.contact) or not asking):
        return _to_outside(pause, delivery)
    hidden = encryption.in_use()
    title = "" if hidden else title_of(pause)
    template = str(pause.run.definition)
    question = _question(delivery, pause, hidden=hidden)
    way_in = own(delivery) and (asking or delivery.occasion == Occasion.REPLIED)
    return OutboundMessage(
        subject=_subject(
            pause, delivery, " · ".join(filter(None, [_told_of(delivery, question), title]))
        ),
        question=question,
        about=f"{title} ({template})" if title else template,
        outcome=_outcome(delivery, pause, hidden=hidden),
        content=_shortened(str(demand(own_content(pause))), pause, delivery)
        if asking and not hidden
        else "",
        others=_others(pause, delivery) if asking else [],
        due=pause.deadline_at if asking else None,
        url=links.url_of(delivery) if way_in else links.absolute(place_of(pause)),
        link_answers=links.may_answer(pause) and own(delivery) and delivery.recipient is not None,
    )


def _test() -> OutboundMessage:
    return OutboundMessage(
        gettext("Waystation: a test"),
        gettext("This is a test"),
        gettext("It works: questions that wait for you will arrive here."),
        "",
        "",
        [],
        None,
        links.absolute(reverse("hitl:notifications")),
        False,
    )


def _question(delivery: Delivery, pause: Pause, *, hidden: bool) -> str:
    if hidden and delivery.occasion == Occasion.MENTIONED:
        return gettext("You are mentioned at a question")
    if hidden:
        return gettext("A question waits for you")
    words = "" if delivery.occasion == Occasion.REPLIED else delivery.words
    return in_reader_words(str(demand(words or pause.question)))


def _outcome(delivery: Delivery, pause: Pause, *, hidden: bool) -> str:
    """What became of it, or what else is to be said of the occasion."""
    if delivery.occasion in ASKING:
        return _what_was_wrong(delivery, pause) or _stage_of(delivery, pause)
    if delivery.occasion not in {Occasion.MENTIONED, Occasion.REPLIED}:
        return outcome_of(pause)
    if hidden:
        return ""
    if delivery.occasion == Occasion.REPLIED:
        return str(demand(delivery.words))
    asked = in_reader_words(str(demand(pause.question)))
    return gettext("At the question: %(question)s") % {"question": asked}


def _told_of(delivery: Delivery, question: str) -> str:
    """A question, and why it is told again."""
    words = EARLIER[Occasion(delivery.occasion)]
    return gettext(words) % {"question": question} if words else question


def _stage_of(delivery: Delivery, pause: Pause) -> str:
    """At which stage of the review a person is asked, and what; "" where it has no stages."""
    if not turns.staged(pause) or delivery.recipient is None or encryption.in_use():
        return ""
    name = policy.ReviewContext(pause, delivery.recipient).stage
    asked = next((stage for stage in turns.open_now(pause) if stage["name"] == name), None)
    if asked is None:
        return ""
    return " ".join(
        [
            gettext("You are asked for: %(stage)s.") % {"stage": stages.titled(asked)},
            asked.get("question", ""),
        ]
    )


def _to_outside(pause: Pause, delivery: Delivery) -> OutboundMessage:
    """What somebody without an account is told: what the question has for them, nothing of the
    order, of others or of what these said.
    """
    asking, hidden = delivery.occasion in ASKING, encryption.in_use()
    shown = external_access.shown(pause, str(demand(delivery.contact)))
    question = (
        gettext("A question waits for you")
        if hidden
        else in_reader_words(str(demand(shown.question)))
    )
    return OutboundMessage(
        subject=_subject(pause, delivery, _told_of(delivery, question)),
        question=question,
        about="",
        outcome=_what_was_wrong(delivery, pause)
        if asking
        else gettext("This was settled meanwhile: there is nothing left for you to do."),
        content=""
        if hidden or not asking
        else _cut(str(demand(shown.content)), settings.WAYSTATION_OUTSIDE_CHARACTERS),
        others=[],
        due=pause.deadline_at if asking else None,
        url=links.url_of(delivery) if asking else "",
        link_answers=asking,
    )


def _subject(pause: Pause, delivery: Delivery, text: str) -> str:
    """One line.

    Where its words and its receiver without an account are one person's choice, not a template's,
    it begins with who that is: nobody writes in the company's own name.
    """
    if delivery.contact and (
        delivery.mark == CHOSEN or OuterRun.objects.filter(thread=pause.run.thread_id).exists()
    ):
        text = gettext("%(who)s via Waystation: %(text)s") % {
            "who": policy.name_of(pause.run.thread.owner)[:60],
            "text": text,
        }
    return invisible.plain(" ".join(text.split()))[:200]


def own(delivery: Delivery) -> bool:
    """Whether a message goes to one person, so that it may carry a link of theirs."""
    return delivery.channel != Channel.WEBHOOK and (
        delivery.recipient_id is not None or bool(delivery.contact)
    )


def title_of(pause: Pause) -> str:
    return pause.run.work_order.title if pause.run.work_order is not None else str(pause.run.thread)


def outcome_of(pause: Pause) -> str:
    decision = Decision.objects.answer_to(pause)
    if decision is None:
        return gettext("The question was closed: %(status)s.") % {
            "status": pause.get_status_display().lower()
        }
    return links.outcome(decision)


def text_of(message: OutboundMessage) -> str:
    """What a chat gets."""
    lines = [message.about, message.outcome]
    if message.due:
        lines.append(gettext("Due %(due)s.") % {"due": dates.shown(message.due)})
    return "\n".join([invisible.plain(line) for line in lines if line] + [message.url])


def list_of(messages: Sequence[OutboundMessage]) -> str:
    """What a chat gets where many questions wait: the first of them, and where all of them are."""
    subjects = [message.subject for message in messages[:LISTED]]
    lines = [
        f"• {subject if len(subject) <= LINE else subject[: LINE - 1] + '…'}"
        for subject in subjects
    ]
    more = (
        [gettext("… and %(count)s more") % {"count": len(messages) - LISTED}]
        if len(messages) > LISTED
        else []
    )
    return "\n".join([*lines, *more, links.absolute(reverse("hitl:inbox"))])


def payload_of(delivery: Delivery) -> dict[str, Any]:
    """What a system gets; the same on every try."""
    pause = delivery.pause
    at = delivery.made_at.isoformat()
    if delivery.run is not None:
        return order_ends.payload_of(delivery, delivery.run)
    if pause is None:
        return {"type": "test", "timestamp": at, "data": {"delivery_id": delivery.shown_id}}
    if delivery.endpoint is not None and delivery.endpoint.thread_id is not None:
        for callback in CALLBACKS:
            if (called := callback(pause)) is not None:
                return called
    hidden = encryption.in_use()
    run = pause.run
    data = {
        "delivery_id": delivery.shown_id,
        "pause_id": pause.shown_id,
        "run_id": run.shown_id,
        "thread_id": run.thread.shown_id,
        "work_order_id": run.work_order.shown_id if run.work_order is not None else None,
        "workflow": str(run.definition),
        "phase": pause.phase,
        "title": None if hidden else title_of(pause),
        "question": None if hidden else demand(delivery.words or pause.question),
        "required_inputs": None if hidden else pause.required_inputs,
        "answers": [*pause.answers, "cancel"],
        "revision": pause.revision,
        "content_digest": pause.content_digest,
        "opened_at": pause.opened_at.isoformat(),
        "url": links.absolute(place_of(pause)),
        "decision": _decided(
            pause, whole=delivery.endpoint is not None and delivery.endpoint.thread_id is not None
        ),
    }
    return {"type": f"question.{delivery.occasion}", "timestamp": at, "data": data}


def _decided(pause: Pause, *, whole: bool) -> dict[str, Any] | None:
    """The answer; `whole` with its words and data, for who waits for them."""
    decision = Decision.objects.answer_to(pause)
    if decision is None:
        return None
    facts = {
        "decision_id": decision.shown_id,
        "decision": decision.action,
        "decided_by": decision.decided_by.get_username() if decision.decided_by else None,
        "external": demand(decision.external) or None,
        "on_behalf_of": decision.on_behalf_of.get_username() if decision.on_behalf_of else None,
        "decided_at": decision.decided_at.isoformat(),
        "revision": decision.revision,
    }
    return (
        {**facts, "feedback": demand(decision.feedback), "input": demand(decision.payload)}
        if whole
        else facts
    )


def _shortened(content: str, pause: Pause, delivery: Delivery) -> str:
    if delivery.contact and not links.may_answer(pause):
        return ""  # somebody without an account gets the question, not what others review
    return _cut(content)


def _cut(content: str, most: int = CONTENT) -> str:
    if len(content) <= most:
        return content
    return content[:most] + "\n\n" + gettext("… (more on the page)")


def _what_was_wrong(delivery: Delivery, pause: Pause) -> str:
    if delivery.occasion != Occasion.REFINED:
        return ""
    return (
        gettext("An answer did not fit.")
        if encryption.in_use()
        else gettext("An answer did not fit: %(refined)s")
        % {"refined": own_faults(str(demand(pause.refined)))}
    )


def _others(pause: Pause, delivery: Delivery) -> list[str]:
    if delivery.recipient_id is None:
        return []
    people = policy.answerers(pause).exclude(pk=delivery.recipient_id).order_by("pk")[: OTHERS + 1]
    names = [person.get_full_name() or person.get_username() for person in people]
    return [*names[:OTHERS], gettext("others")] if len(names) > OTHERS else names
