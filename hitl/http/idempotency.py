"""`Idempotency-Key`: a request that is sent again gets the answer of the first one, and nothing is
done twice.

A key belongs to a person. Its row is written in the transaction that makes something
(`runs.keyed.made`), so either both are there or neither; `idempotency_key_once` makes two things
under one key impossible. Of two requests at once the second waits for the first one's transaction,
writes nothing, and gets the first one's answer. No clock decides who is dead: a server that was
killed before its commit left no row, and one that was killed after it left the row without an
answer, which is then made from what the row says was made.

The answer itself is kept sealed, for WAYSTATION_IDEMPOTENCY_HOURS, and is given again to who may
still see what it speaks of (`hitl.http.replay`). The same key with another request is 422.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.db import OperationalError
from django.db.models import F, QuerySet, Value
from django.db.models.functions import Concat
from django.http import HttpRequest, HttpResponse
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from checkpoints.database import clock, outages
from checkpoints.database.people import User
from checkpoints.state import codec
from hitl.http import replay, tracing
from hitl.http.authentication import BearerAuthentication, takes, view_of
from hitl.http.problems import response as problem
from hitl.models import IdempotencyKey, idempotency
from runs import keyed

logger = logging.getLogger(__name__)

HEADER = "Idempotency-Key"
LONGEST = 255
LARGEST = 1024 * 1024
"""Bytes of an answer that is kept; of a larger one only what it made is."""
NAMED = 200
"""Ids that are noted of one answer."""
CHANGING = {"POST", "PUT", "PATCH", "DELETE"}
UNTAKEN = {401, 403, 408, 413, 429}
"""Answers that say that the request was not looked at: its key stays free."""
_ID = re.compile(r"\b(?:thr|wo|run|pse|dec)_[0-9a-hjkmnp-tv-z]{26}\b")

Handler = Callable[[HttpRequest], HttpResponse]


def middleware(get_response: Handler) -> Handler:
    """Around every request of the REST API that changes something and names a key."""

    def handle(request: HttpRequest) -> HttpResponse:
        key = request.headers.get(HEADER)
        if key is None or request.method not in CHANGING or not request.path.startswith("/api/"):
            return get_response(request)
        person = who(request)
        if person is None or not takes(view_of(request), request.method):
            return get_response(request)  # which says 401, or 405
        if not 0 < len(key) <= LONGEST or not key.isprintable():
            return problem(
                400,
                "idempotency_key_invalid",
                f"{HEADER} has 1 to {LONGEST} printable characters; nothing was done.",
            )
        return once(request, person, key, get_response)

    return handle


def who(request: HttpRequest) -> User | None:
    """Whose key it is: the token's person, else the session's."""
    try:
        authenticated = BearerAuthentication().authenticate(Request(request))
    except AuthenticationFailed:
        return None
    if authenticated is not None:
        return authenticated[0]
    return request.user if isinstance(request.user, User) and request.user.is_active else None


def kept_for(status: int) -> bool:
    """Whether an answer says what was done, so that its key is used up."""
    return status < 500 and status not in UNTAKEN


@dataclass
class ClaimedKey:
    """The key of the request at work; see `runs.keyed`."""

    person: User
    key: str
    digest: str
    token: uuid.UUID = field(default_factory=uuid.uuid4)
    used: bool = False
    """Whether something was to be made under it."""
    taken: bool = False
    """Whether another request has it."""

    @property
    def mine(self) -> QuerySet[IdempotencyKey]:
        """The key's row, where it is this request's."""
        return IdempotencyKey.objects.filter(user=self.person, key=self.key, token=self.token)

    def make(self, shown_id: str) -> None:
        self.used = True
        try:
            self.write()
        except OperationalError as error:
            if not outages.is_locked(error):
                raise
            self.taken = True  # by a transaction that takes its time
            raise keyed.KeyTaken(
                "The first request with this key is still worked on. Nothing was done twice."
            ) from error
        if not self.mine.update(made=Concat(F("made"), Value(f"{shown_id} " if shown_id else ""))):
            self.taken = True
            raise keyed.KeyTaken(
                "Another request with this key was carried out meanwhile. Nothing was done twice."
            )

    def write(self, **values: Any) -> None:
        """Write the row, unless the key has one.

        Waits for a transaction that is just writing it.
        """
        row = IdempotencyKey(
            user=self.person,
            key=self.key,
            request_digest=self.digest,
            token=self.token,
            made_at=clock.now(),
            **values,
        )
        IdempotencyKey.objects.bulk_create([row], ignore_conflicts=True)


def once(
    request: HttpRequest,
    person: User,
    key: str,
    get_response: Handler,
    *,
    keeps: Callable[[int], bool] = kept_for,
) -> HttpResponse:
    """The answer that this key's first request got, or the one that it gets now.

    Answers that `keeps` refuses leave the key free, unless something was made.
    """
    # a form with files has another boundary each time that it is sent
    boundary = request.headers.get("Content-Type", "").partition("boundary=")[2].strip('"').encode()
    body = request.body.replace(boundary, b"") if boundary else request.body
    digest = codec.digest(
        b"\n".join([str(request.method).encode(), request.get_full_path().encode(), body])
    )
    before = idempotency.find(person, key)
    if before is not None:
        return _again(request, before, digest)
    claim = ClaimedKey(person, key, digest)
    with keyed.at_work(claim):
        response = get_response(request)
    if not claim.taken:
        return _store_answer(request, claim, response) if keeps(response.status_code) else response
    first = idempotency.find(person, key)
    return _in_progress() if first is None else _again(request, first, digest)


def _store_answer(request: HttpRequest, claim: ClaimedKey, response: HttpResponse) -> HttpResponse:
    """Keep an answer, and give it; or the one of another request that was as quick and made nothing
    either.
    """
    values = _answer(request, response)
    try:
        if claim.used and claim.mine.update(**values):
            return response
        claim.write(**values)
        first = idempotency.find(claim.person, claim.key)
    except outages.ERRORS as error:
        logger.warning(
            "the answer to %s %s could not be kept: %s", request.method, request.path, error
        )
        return response  # it is true; sent again, the request is answered from what was made
    return (
        response
        if first is None or first.token == claim.token
        else _again(request, first, claim.digest)
    )


def _answer(request: HttpRequest, response: HttpResponse) -> dict[str, Any]:
    """What is kept of an answer."""
    kept, body = IdempotencyKey.Kept.WHOLE, b""
    if "no-store" in response.get("Cache-Control", ""):
        kept = IdempotencyKey.Kept.SECRET
    elif response.streaming or len(response.content) > LARGEST:
        kept = IdempotencyKey.Kept.LARGE
    else:
        body = response.content
    named = dict.fromkeys(_ID.findall(f"{request.path} {body.decode(errors='replace')}"))
    return {
        "status": response.status_code,
        "kept": kept,
        "body": body,
        "content_type": response.get("Content-Type", "")[:100],
        "about": " ".join(list(named)[:NAMED]),
    }


def _again(request: HttpRequest, row: IdempotencyKey, digest: str) -> HttpResponse:
    if row.request_digest != digest:
        message = (
            "This key was sent with another request before. Nothing was done; use a new key for "
            "a new request."
        )
        return problem(422, "idempotency_key_reused", message)
    response = replay.answer_again(request, row)
    if (trace := tracing.name(request, response, by=row.user)) is not None:
        response[tracing.HEADER] = trace
    return response


def _in_progress() -> HttpResponse:
    response = problem(
        409,
        "idempotency_in_progress",
        "The first request with this key is still worked on. Ask again in a second.",
    )
    response["Retry-After"] = "1"
    return response
