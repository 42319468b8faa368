"""Reading replies out of a mailbox, over IMAP: what is unseen, in rounds.

No transaction is open while the network is waited for. A mail is marked as seen once it was taken
in. One that is delivered, or read, again is known by its Message-ID. Two rounds at once, and one
that breaks off in the middle, do no harm.
"""

from __future__ import annotations

import imaplib
import logging
import ssl
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from django.conf import settings

from checkpoints.database.rounds import RoundItem
from extensions.mail_replies import channel, reading
from runs import limits
from runs.env import Mailbox

MOST = 100
"""Mails of one round."""

logger = logging.getLogger(__name__)


def read(*, seconds: float) -> int:
    """Take in the unseen mails of the mailbox, for so long at most; gives how many those were.

    A server that is away, or refuses, is logged without what it says: that may repeat a password.
    """
    box: Mailbox | None = settings.WAYSTATION_REPLY_MAILBOX
    if box is None:
        return 0
    ends, count = time.monotonic() + seconds, 0
    try:
        with _open(box) as server:
            for uid in _unseen(server):
                if time.monotonic() > ends:
                    break
                _take(server, uid)
                count += 1
    except (imaplib.IMAP4.error, OSError, ssl.SSLError) as error:
        logger.warning("the mailbox of replies could not be read: %s", type(error).__name__)
    return count


@contextmanager
def _open(box: Mailbox) -> Iterator[imaplib.IMAP4]:
    """The mailbox' folder, selected."""
    patience = settings.WAYSTATION_OUTBOUND_SECONDS
    if box.tls:
        context = ssl.create_default_context()
        server: imaplib.IMAP4 = imaplib.IMAP4_SSL(
            box.host, box.port, ssl_context=context, timeout=patience
        )
    else:
        server = imaplib.IMAP4(box.host, box.port, timeout=patience)
    # also where the other side broke off, which leaves the library's own end half done
    with closing(server.socket()):
        try:
            server.login(box.user, box.password)
            if server.select(f'"{box.folder}"')[0] != "OK":
                raise imaplib.IMAP4.error("no such folder")
            yield server
            server.logout()
        finally:
            with suppress(OSError):  # closed before
                server.shutdown()


class NotHandedOver(Exception):
    """The server refuses a mail for now: it is read in a later round."""


def _unseen(server: imaplib.IMAP4) -> list[str]:
    told, found = server.uid("SEARCH", "UNSEEN")
    if told != "OK":
        raise imaplib.IMAP4.error("no search now")
    return found[0].decode("ascii").split()[:MOST] if found and found[0] else []


def _take(server: imaplib.IMAP4, uid: str) -> None:
    """Take in one mail. One that fails stays unseen, for the next round; others go on."""
    with RoundItem(logger, f"mail {uid} of the mailbox", but=(imaplib.IMAP4.error, OSError)) as row:
        raw = _raw(server, uid)
        mail = reading.from_rfc822(raw) if raw is not None else None
        outcome = channel.take_in(mail) if mail is not None else "unreadable"
        logger.info("mail %s of the mailbox: %s", uid, outcome)
    if row.error is None:
        server.uid("STORE", uid, "+FLAGS.SILENT", r"(\Seen)")


def _raw(server: imaplib.IMAP4, uid: str) -> bytes | None:
    """The mail as it is; None for one that is too long. Of such a one nothing more is read.

    Raises NotHandedOver.
    """
    told, answer = server.uid("FETCH", uid, f"(BODY.PEEK[]<0.{limits.MAIL_BYTES + 1}>)")
    if told != "OK":
        raise NotHandedOver
    raw = next((part[1] for part in answer if isinstance(part, tuple)), None)
    return raw if isinstance(raw, bytes) and len(raw) <= limits.MAIL_BYTES else None
