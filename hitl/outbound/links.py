"""Links in mails: a way in for one person to one question.

Whoever opens one changes nothing.

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
from django.urls import get_script_prefix, reverse
from django.utils.crypto import salted_hmac
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.models.fields import demand
from checkpoints.state import encryption
from checkpoints.store.prepared_queries import Prepared
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
    link = of_token(token) if TOKEN.fullmatch(token) else None
    if link is None or link.purpose == Link.Purpose.REPLY:
        return None
    return link if hmac.compare_digest(link.digest, _digest(token)) else None


_links = Prepared(
    lambda digest: Link.objects.filter(pk=digest).select_related(
        "recipient",
        "delivery",
        "pause__run__thread",
        "pause__run__parent",
        "pause__run__work_order__definition",
        "pause__run__definition",
    ),
    str,
)


def of_token(token: str) -> Link | None:
    """The row of a token, with what is asked of it."""
    return next(iter(_links.get(_digest(token))), None)


def use(link: Link) -> None:
    Link.objects.filter(pk=link.pk, used_at=None).update(used_at=clock.now())


@dataclass(frozen=True)
class LinkProblem:
    """Why a link leads nowhere any more: what its page says, and the status it says it with."""

    status: int
    title: str | Promise
    words: str | Promise
    newer: Pause | None = None
    """The revision that is open now."""


NOT_YOURS_ANY_MORE = LinkProblem(
    403,
    gettext_lazy("You may not answer this any more"),
    gettext_lazy(
        "Who may answer this question has changed since the link was sent, so nothing was decided."
    ),
)


def standing(link: Link, *, visitor: User | None, now: dt.datetime) -> LinkProblem | None:
    """What is to be said instead of the question; None while the link is good."""
    if visitor is not None and (link.recipient or outsider_of(link)) and visitor != link.recipient:
        return _somebody_elses(link, visitor)
    if link.recipient is not None and not link.recipient.is_active:
        return LinkProblem(
            403,
            gettext("This link is not valid any more"),
            gettext("The account that it was sent to is switched off."),
        )
    if link.pause.status != PauseStatus.OPEN or link.used_at is not None:
        return _closed(link)
    if link.revision != link.pause.revision:
        return _changed(link, link.pause)
    if link.expires_at <= now:
        at = dates.told(link.expires_at)
        more = (
            gettext("The question is still open: log in to answer it.")
            if link.recipient
            else gettext("Ask who sent it for a new one.")
        )
        return LinkProblem(
            410,
            gettext("This link has expired"),
            gettext("It was good until %(at)s. %(more)s") % {"at": at, "more": more},
        )
    return None


def refusal(
    link: Link, *, visitor: User | None, now: dt.datetime
) -> tuple[LinkProblem | None, bool]:
    """What is said to who would answer by a link, None where it takes an answer; and whether its
    page shows the question all the same.
    """
    problem, outsider = standing(link, visitor=visitor, now=now), outsider_of(link)
    if problem is not None:
        return problem, False
    if outsider is not None:
        if external_access.may_answer_now(link.pause, outsider.address):
            return None, True
        return NOT_YOURS_ANY_MORE, False
    if link.purpose == Link.Purpose.ANSWER and may_answer(link.pause):
        return None, True
    words = gettext("This question is answered by people who are logged in.")
    return LinkProblem(403, gettext("Log in to answer"), words), True


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
        message = gettext(
            "It was sent to somebody without an account, and you are logged in as "
            "%(name)s. Open it in a private window to see their page."
        ) % {"name": name}
        return LinkProblem(403, gettext("This link is not yours"), message)
    message = gettext(
        "It was sent to somebody else. You are logged in as %(name)s: what waits for "
        "you is in your inbox."
    ) % {"name": name}
    return LinkProblem(403, gettext("This link is not yours"), message)


def newer_than(pause: Pause) -> Pause | None:
    """The revision of a question that is open now, where that is a later one."""
    return (
        Pause.objects.open()
        .filter(run__thread=pause.run.thread_id, step=pause.step, revision__gt=pause.revision)
        .first()
    )


def _closed(link: Link) -> LinkProblem:
    pause = link.pause
    decision = Decision.objects.answer_to(pause)
    newer = newer_than(pause)
    if decision is not None and decision.action == REVISE and newer is not None:
        return _changed(link, newer)
    status = 410 if link.used_at is not None else 409
    if link.recipient is None:
        return LinkProblem(
            status if decision or link.used_at else 410,
            gettext("This was answered already"),
            told_outside(link, decision),
        )
    if decision is None and link.used_at is not None and pause.status == PauseStatus.OPEN:
        return LinkProblem(
            410,
            gettext("This was answered already"),
            gettext("Your answer was recorded; others are still missing. The link is used up."),
        )
    if decision is None:
        message = gettext("The question is closed (%(pause)s), so there is nothing to answer.") % {
            "pause": pause.get_status_display().lower()
        }
        return LinkProblem(410, gettext("This question is closed"), message)
    return LinkProblem(
        status,
        gettext("This was answered already"),
        gettext("%(decision)s Nothing was changed by opening this page.")
        % {"decision": outcome(decision)},
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
        if used is None:
            return gettext(
                "Your answer was recorded, and this link is used up. There is nothing left for "
                "you to do."
            )
        return gettext(
            "Your answer was recorded on %(when)s, and this link is used up. There is nothing "
            "left for you to do."
        ) % {"when": dates.told(used)}
    if decision is None:
        return gettext(
            "The question is closed. There is nothing left for you to do, and nothing was recorded."
        )
    at = dates.told(decision.decided_at)
    return gettext(
        "Somebody else answered first, on %(at)s. Nothing was recorded, and there is "
        "nothing left for you to do."
    ) % {"at": at}


def _changed(link: Link, newer: Pause) -> LinkProblem:
    if link.recipient is None:
        message = gettext(
            "The question has changed since this link was sent. A newer mail has the link to "
            "what is asked now."
        )
        return LinkProblem(409, gettext("The content has changed"), message)
    message = gettext(
        "It was sent back for revision since, and is at revision %(revision)s by "
        "now. Look at the new content before you answer."
    ) % {"revision": newer.revision}
    return LinkProblem(409, gettext("The content has changed"), message, newer)


def outcome(decision: Decision) -> str:
    """Who answered what and when, as one sentence."""
    at = dates.told(decision.decided_at)
    assert decision.pause is not None
    return gettext("%(who)s answered “%(answer)s” on %(at)s.") % {
        "who": decision.who,
        "answer": answers.label_of(decision.pause, decision.action),
        "at": at,
    }


def _token(delivery: Delivery) -> str:
    key = salted_hmac("hitl.outbound.link", delivery.pk.hex, algorithm="sha256").digest()
    return base64.urlsafe_b64encode(key).decode().rstrip("=")


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
