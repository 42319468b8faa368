"""Links in mails: a way in for one person to one question.

Whoever opens one changes nothing (F1, F2, F3).

A token is made of the message's id under the server's key, so every try of the same message carries
the same one, and what is kept is its digest only: neither a dump of the database nor the key alone
opens a question.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings
from django.db import models
from django.urls import get_script_prefix, reverse
from django.utils.crypto import salted_hmac

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.models.fields import demand
from checkpoints.state import encryption
from checkpoints.text import dates
from hitl.decisions import answers
from hitl.decisions.reviewers import external_access
from hitl.decisions.reviewers.outsiders import Outsider
from hitl.models import Decision
from hitl.models.outbound import Delivery, Link
from runs.models import Pause
from runs.states import PauseStatus
from runs.workflows.sequence import REVISE

STAYS_HERE = frozenset(
    f"django.core.mail.backends.{name}.EmailBackend"
    for name in ("console", "filebased", "locmem", "dummy")
)
CHAT_CONTENT, CHAT_QUESTION = 3_000, 150
"""Characters that a chat shows of a question: Slack takes no more in a block."""
TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
"""256 bits in URL-safe base64: nobody guesses one, so guesses are not counted."""


def absolute(path: str) -> str:
    """A path of ours as people reach it from outside."""
    return settings.WAYSTATION_URL + "/" + path.removeprefix(get_script_prefix()).lstrip("/")


def url_of(delivery: Delivery) -> str:
    """The address of the message's own link, which is made where it is not there yet.

    Call outside a transaction of a request.
    """
    assert delivery.pause is not None
    token = _token(delivery)
    make(delivery, token, _purpose(delivery.pause, delivery))
    return absolute(reverse("hitl:link", args=[token]))


def make(delivery: Delivery, token: str, purpose: Link.Purpose) -> None:
    """Keep what a token binds, where it is not kept yet."""
    assert delivery.pause is not None
    now = clock.now()
    Link.objects.get_or_create(
        digest=_digest(token),
        defaults={
            "delivery": delivery,
            "pause": delivery.pause,
            "revision": delivery.pause.revision,
            "recipient": delivery.recipient,
            "contact": delivery.contact,
            "purpose": purpose,
            "made_at": now,
            "expires_at": now + dt.timedelta(days=settings.WAYSTATION_LINK_DAYS),
        },
    )


def unsent(deliveries: Iterable[Delivery], *, by: User) -> dict[uuid.UUID, str]:
    """The links that went outside, by message, for a superuser where mail leaves this machine by no
    way: to try a demo as its supplier.

    Whoever holds such a link answers as somebody else, so nobody but who may do anything here is
    shown one, and nowhere real.
    """
    if not by.is_superuser or settings.EMAIL_BACKEND not in STAYS_HERE:
        return {}
    outward = {delivery.pk: delivery for delivery in deliveries if delivery.contact}
    made = Link.objects.filter(
        delivery__in=list(outward),
        purpose=Link.Purpose.ANSWER,
        used_at=None,
        pause__status=PauseStatus.OPEN,
    )
    return {
        link.delivery_id: absolute(reverse("hitl:link", args=[_token(outward[link.delivery_id])]))
        for link in made
    }


def _purpose(pause: Pause, delivery: Delivery) -> Link.Purpose:
    answers = (
        may_answer(pause)
        if delivery.recipient
        else external_access.may_answer(pause, delivery.contact)
    )
    return Link.Purpose.ANSWER if answers else Link.Purpose.REVIEW


def may_answer(pause: Pause) -> bool:
    """Whether the template lets this question be answered from its link, without a login; a call of
    high risk is never decided so.
    """
    return (
        pause.review.get("link_answers") is True
        and pause.review.get("risk") == "low"
        and pause.risk != "high"
    )


def may_answer_in_chat(pause: Pause) -> bool:
    """Whether a question may be answered where a chat shows it: all of it is to be seen there, and
    its risk is not high.
    """
    whole = len(pause.content) <= CHAT_CONTENT and len(pause.question) <= CHAT_QUESTION
    return whole and pause.risk != "high" and not pause.calls and not encryption.in_use()


def find(token: str) -> Link | None:
    """The link of a token; None for what is none."""
    if not TOKEN.fullmatch(token):
        return None
    link = of_token(token).exclude(purpose=Link.Purpose.REPLY).first()
    return link if link is not None and hmac.compare_digest(link.digest, _digest(token)) else None


def of_token(token: str) -> models.QuerySet[Link]:
    """The row of a token, with what is asked of it."""
    related = (
        "recipient",
        "delivery",
        "pause__run__thread",
        "pause__run__parent",
        "pause__run__work_order__definition",
        "pause__run__definition",
    )
    return Link.objects.select_related(*related).filter(pk=_digest(token))


def use(link: Link) -> None:
    Link.objects.filter(pk=link.pk, used_at=None).update(used_at=clock.now())


@dataclass(frozen=True)
class LinkProblem:
    """Why a link leads nowhere any more: what its page says, and the status it says it with."""

    status: int
    title: str
    words: str
    newer: Pause | None = None
    """The revision that is open now."""


def standing(link: Link, *, visitor: User | None, now: dt.datetime) -> LinkProblem | None:
    """What is to be said instead of the question; None while the link is good."""
    if visitor is not None and (link.recipient or outsider_of(link)) and visitor != link.recipient:
        return _somebody_elses(link, visitor)
    if link.recipient is not None and not link.recipient.is_active:
        return LinkProblem(
            403,
            "This link is not valid any more",
            "The account that it was sent to is switched off.",
        )
    if link.pause.status != PauseStatus.OPEN or link.used_at is not None:
        return _closed(link)
    if link.revision != link.pause.revision:
        return _changed(link, link.pause)
    if link.expires_at <= now:
        at = dates.told(link.expires_at)
        more = (
            "The question is still open: log in to answer it."
            if link.recipient
            else "Ask who sent it for a new one."
        )
        return LinkProblem(410, "This link has expired", f"It was good until {at}. {more}")
    return None


def outsider_of(link: Link) -> Outsider | None:
    """Whom a link to an address outside speaks for; None where it is an account's, or for looking
    only.
    """
    outside_link = (
        link.recipient_id is None and link.contact and link.purpose == Link.Purpose.ANSWER
    )
    return Outsider(str(demand(link.contact)).lower()) if outside_link else None


def _somebody_elses(link: Link, visitor: User) -> LinkProblem:
    name = visitor.get_full_name() or visitor.get_username()
    if link.recipient is None:
        message = (
            f"It was sent to somebody without an account, and you are logged in as {name}. Open "
            "it in a private window to see their page."
        )
        return LinkProblem(403, "This link is not yours", message)
    message = (
        f"It was sent to somebody else. You are logged in as {name}: what waits for you is in "
        "your inbox."
    )
    return LinkProblem(403, "This link is not yours", message)


def _closed(link: Link) -> LinkProblem:
    pause = link.pause
    decision = Decision.objects.answer_to(pause)
    newer = (
        Pause.objects.open()
        .filter(run__thread=pause.run.thread_id, step=pause.step, revision__gt=pause.revision)
        .first()
    )
    if decision is not None and decision.action == REVISE and newer is not None:
        return _changed(link, newer)
    status = 410 if link.used_at is not None else 409
    if link.recipient is None:
        return LinkProblem(
            status if decision or link.used_at else 410,
            "This was answered already",
            told_outside(link, decision),
        )
    if decision is None and link.used_at is not None and pause.status == PauseStatus.OPEN:
        return LinkProblem(
            410,
            "This was answered already",
            "Your answer was recorded; others are still missing. The link is used up.",
        )
    if decision is None:
        message = (
            f"The question is closed ({pause.get_status_display().lower()}), so there is "
            "nothing to answer."
        )
        return LinkProblem(410, "This question is closed", message)
    return LinkProblem(
        status,
        "This was answered already",
        f"{outcome(decision)} Nothing was changed by opening this page.",
    )


def told_outside(link: Link, decision: Decision | None) -> str:
    """What somebody outside is told who comes too late: when, and whether it was they themselves;
    not who of the house, nor what.
    """
    outsider = outsider_of(link)
    if outsider is not None and (
        link.used_at is not None or (decision is not None and decision.external == outsider.address)
    ):
        used = link.used_at or (decision.decided_at if decision else None)
        when = f" on {dates.told(used)}" if used else ""
        return (
            f"Your answer was recorded{when}, and this link is used up. There is nothing left "
            "for you to do."
        )
    if decision is None:
        return (
            "The question is closed. There is nothing left for you to do, and nothing was recorded."
        )
    at = dates.told(decision.decided_at)
    return (
        f"Somebody else answered first, on {at}. Nothing was recorded, and there is nothing "
        "left for you to do."
    )


def _changed(link: Link, newer: Pause) -> LinkProblem:
    if link.recipient is None:
        message = (
            "The question has changed since this link was sent. A newer mail has the link to "
            "what is asked now."
        )
        return LinkProblem(409, "The content has changed", message)
    message = (
        f"It was sent back for revision since, and is at revision {newer.revision} by now. Look "
        "at the new content before you answer."
    )
    return LinkProblem(409, "The content has changed", message, newer)


def outcome(decision: Decision) -> str:
    """Who answered what and when, as one sentence."""
    at = dates.told(decision.decided_at)
    assert decision.pause is not None
    return f"{decision.who} answered “{answers.label_of(decision.pause, decision.action)}” on {at}."


def _token(delivery: Delivery) -> str:
    key = salted_hmac("hitl.outbound.link", delivery.pk.hex, algorithm="sha256").digest()
    return base64.urlsafe_b64encode(key).decode().rstrip("=")


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
