"""Logins that are open: ended from outside, for somebody who may be at none of them."""

from __future__ import annotations

from importlib import import_module

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore

from checkpoints.database import clock
from checkpoints.database.people import User

BATCH = 500


def end(user: User) -> int:
    """End all sessions of somebody; gives how many. Their password stays as it is.

    Rows of sessions say nobody's name outside of what they hold, so all that are valid are read. A
    project whose sessions lie elsewhere than in rows has none that end so.
    """
    store = import_module(settings.SESSION_ENGINE).SessionStore
    if not issubclass(store, SessionStore):
        return 0
    rows = store.get_model_class().objects.filter(expire_date__gt=clock.now())
    kept = rows.values_list("session_key", "session_data").iterator(chunk_size=BATCH)
    reader, theirs = store(), str(user.pk)
    keys = [key for key, data in kept if reader.decode(data).get(SESSION_KEY) == theirs]
    for key in keys:
        store(key).delete()
    return len(keys)
