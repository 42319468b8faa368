"""`Idempotency-Key`: a request with a key begins or answers something only once. A client that
sends it again gets the same run, as it stands then, or the same stream from its beginning.

The key is used up in the transaction that writes, in the rows that keys of the REST API use too
(`hitl.http.idempotency`). A refused request leaves its key free.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable

from checkpoints.database import clock
from checkpoints.models import Thread
from checkpoints.models.fields import Locked
from checkpoints.state import codec
from extensions.langgraph.api import reviewing
from extensions.langgraph.api.calls import Call
from hitl.decisions.services import NotFound
from hitl.http.idempotency import HEADER, LONGEST, ClaimedKey
from hitl.live.pump import StreamRefused
from hitl.models import IdempotencyKey, idempotency
from runs import keyed

NAME = HEADER.lower()
"""The name of the header, in lower case as calls have it."""
WORKING = dt.timedelta(minutes=1)
"""How long the first request may take; after that its answer counts as lost."""
Begun = tuple[uuid.UUID, uuid.UUID]
"""The thread and the wire run; where no run began, the thread twice."""


def once(call: Call, act: Callable[[], Begun]) -> Begun:
    """Begin what `act` begins, or return what the first request with this key began.

    Raises StreamRefused, NotFound where the caller no longer sees the thread, and as `act`.
    """
    key = call.headers.get(NAME)
    if key is None:
        return act()
    if not 0 < len(key) <= LONGEST or not key.isprintable():
        raise StreamRefused(
            400,
            "idempotency_key_invalid",
            f"{HEADER} has 1 to {LONGEST} printable characters; nothing was done.",
        )
    digest = codec.digest(codec.encode([dict(call.names), dict(call.query), call.data]))
    row = idempotency.find(call.by, key)
    if row is not None:
        return _find_begun(call, row, digest)
    claim = ClaimedKey(call.by, key, digest)
    try:
        with keyed.at_work(claim):
            begun = act()
    except keyed.KeyTaken:
        row = idempotency.find(call.by, key)
        if row is None:
            raise
        return _find_begun(call, row, digest)
    _keep(claim, begun)
    return begun


def _keep(claim: ClaimedKey, begun: Begun) -> None:
    thread, run = begun
    claim.mine.update(
        status=200,
        kept=IdempotencyKey.Kept.WHOLE,
        body=json.dumps([str(thread), str(run)]).encode(),
        content_type="application/json",
        about=Thread(pk=thread).shown_id,
    )


def _find_begun(call: Call, row: IdempotencyKey, digest: str) -> Begun:
    """Return what the first request with this key began. Raises as `once`."""
    if row.request_digest != digest:
        raise StreamRefused(
            422,
            "idempotency_key_reused",
            "This key was sent with another request before. Nothing was done; use a new key for "
            "a new request.",
        )
    if row.status is None and clock.now() < row.made_at + WORKING:
        raise StreamRefused(
            409,
            "idempotency_in_progress",
            "The first request with this key is still worked on. Ask again in a second.",
        )
    if row.kept != IdempotencyKey.Kept.WHOLE or isinstance(row.body, Locked):
        raise StreamRefused(
            409,
            "idempotency_answer_not_kept",
            "The first request with this key was carried out, and its answer was lost. Nothing "
            "was done twice: look at the thread's runs.",
        )
    thread, run = map(uuid.UUID, json.loads(bytes(row.body)))
    if not reviewing.sees(call, thread):
        raise NotFound("There is no such thread.")
    return thread, run
