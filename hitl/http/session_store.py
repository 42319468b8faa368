"""Sessions as Django keeps them; the one row that every request of a browser reads is asked for in
words that are made once.
"""

from __future__ import annotations

import datetime as dt

from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.utils import timezone

from checkpoints.store.prepared_queries import Prepared

_unexpired = Prepared(
    lambda key, now: Session.objects.filter(session_key=key, expire_date__gt=now), str, dt.datetime
)


class SessionStore(db.SessionStore):
    """Django finds it by this name."""

    def _get_session_from_db(self) -> Session | None:
        found = _unexpired.get(self.session_key, timezone.now()) if self.session_key else []
        if not found:
            self._session_key = None
        return next(iter(found), None)
