"""A new thread, within whatever else its maker writes."""

from __future__ import annotations

from django.contrib.auth.models import Group

from checkpoints.database.people import User
from checkpoints.models import Thread, WhenBusy
from runs import keyed
from runs.services import check_words


def make_thread(
    *,
    by: User,
    title: str = "",
    team: Group | None = None,
    when_busy: WhenBusy = WhenBusy.REFUSE,
    user_id: str = "",
    session_id: str = "",
) -> Thread:
    """A thread without a work order, inside the caller's transaction.

    `user_id` and `session_id` say whose memory it shares: `runs.threads.memory`. Raises
    InputInvalid.
    """
    check_words(title, user_id + session_id)
    thread = Thread.objects.create(
        owner=by, team=team, title=title, when_busy=when_busy, for_user=user_id, session=session_id
    )
    keyed.made(thread.shown_id)
    return thread
