"""Taking in a reply: whose answer it is, and what became of it, told to whom the mail went.

A reply answers as the person whom its address was made for, where that person sent it. Whatever
else comes changes nothing. What is said of it goes to that person's own mail, never to whoever
wrote, and so often at most (`Link.MAILS_BACK`).
"""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils.translation import gettext

from checkpoints.database import clock
from extensions.mail_replies import addresses
from extensions.mail_replies.reading import Mail
from hitl.channels import words
from hitl.channels.protocol import Given, NotTaken, Outcome
from hitl.channels.words import Unclear
from hitl.decisions import notifications
from hitl.models import Decision, Via, Vote
from hitl.models.outbound import InboundMail, Link, Occasion
from hitl.outbound import links
from hitl.outbound.mail import address_of

UNKNOWN, AUTOMATIC, REPEATED, SILENT = "unknown_address", "automatic", "repeated", "too_many"
"""Outcomes of which nothing is said, and nothing is kept."""


@dataclass(frozen=True)
class Reply:
    """A mail, and the address for replies that it came in by."""

    mail: Mail
    link: Link | None


def read(mail: Mail) -> Reply:
    """Find the address for replies among those that the mail went to."""
    return Reply(mail, addresses.find(mail.recipients))


def take(reply: Reply) -> Given:
    """Read the answer in a reply; raises NotTaken. The same mail again does nothing."""
    mail, link = reply.mail, reply.link
    if link is None:
        raise NotTaken(UNKNOWN, "")
    if mail.automatic:
        raise NotTaken(AUTOMATIC, "")
    if InboundMail.objects.filter(link=link, message_digest=mail.key).exists():
        raise NotTaken(REPEATED, "")
    if link.mails_back >= Link.MAILS_BACK:
        raise NotTaken(SILENT, "")
    return _answer(mail, link)


def _answer(mail: Mail, link: Link) -> Given:
    recipient, pause, address = link.recipient, link.pause, address_of(link.delivery)
    if not (recipient and address) or [one.lower() for one in mail.senders] != [address.lower()]:
        raise _no(
            "wrong_sender",
            gettext("A reply came from another address than the one that the mail went to."),
        )
    authserv = settings.WAYSTATION_REPLY_AUTHSERV
    proven = bool(authserv) and mail.proven(authserv)
    if authserv and not proven:
        raise _no(
            "not_proven",
            gettext("Our mail server could not prove that your reply came from you."),
        )
    ended = links.standing(link, visitor=None, now=clock.now())
    if ended is not None:
        raise NotTaken("link_ended", f"{ended.title}. {ended.words}", pause)
    if not addresses.may_answer(pause, proven=proven):
        raise _no(
            "login_needed",
            gettext("This question is answered on its page, by who is logged in."),
        )
    try:
        answer = words.answer_in(mail.words, pause, via=Via.MAIL, revision=link.revision)
    except Unclear as unclear:
        raise _no(unclear.code, str(unclear)) from unclear
    return Given(pause, answer)


def tell(reply: Reply, outcome: Outcome) -> str:
    """Plan the mail that says what became of a reply; gives that as a code."""
    if reply.link is None or outcome.code in {AUTOMATIC, REPEATED, SILENT}:
        return outcome.code
    # what `decide` refused, or its link did: a copy of the mail may have been first
    judged = outcome.pause is not None and not outcome.taken
    outcome = (_untold(reply.link) if judged else None) or outcome
    try:
        return _tell(reply.link, reply.mail.key, outcome)
    except IntegrityError:  # inbound_mail_once: the same mail at the same moment
        return REPEATED


def _untold(link: Link) -> Outcome | None:
    """What a copy of this mail has decided and not said yet: it is at work beside us, or its
    process was lost. Whoever tells it first tells it as it is.
    """
    if link.used_at is not None:
        return None
    here = {"pause": link.pause_id, "via": Via.MAIL}
    given = (
        Decision.objects.filter(**here, decided_by=link.recipient_id).first()
        or Vote.objects.filter(**here, voter=link.recipient_id).first()
    )
    return words.recorded(link.pause, given) if given else None


def _no(code: str, text: str) -> NotTaken:
    return NotTaken(code, gettext("%(ended)s Nothing was decided.") % {"ended": text})


@transaction.atomic(durable=True)
def _tell(link: Link, key: str, outcome: Outcome) -> str:
    """Note the mail, and plan the one that says what became of it.

    Copies of a mail come here one after the other: one that had the mail's row and wanted the
    link's, and one that had them the other way round, would wait for each other.
    """
    Link.objects.select_for_update().get(pk=link.pk)
    kept = addresses.remember(link, key, outcome.code, uses=outcome.taken)
    more = Link.objects.filter(pk=link.pk, mails_back__lt=Link.MAILS_BACK)
    if more.update(mails_back=F("mails_back") + 1):
        place = notifications.place_again(link.delivery)
        notifications.plan_at(
            link.pause, Occasion.REPLIED, [place], mark=kept.pk.hex, words=outcome.words
        )
    return outcome.code
