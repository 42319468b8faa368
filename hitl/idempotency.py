"""`Idempotency-Key`: a request that is sent again gets the answer of the first one, and nothing is done twice (S3-43, F7).

A key belongs to a person and holds for KEPT. The same key with another request is 422; while the first one is worked on, 409. What its
first request was answered with is stored right after the answer was made. A server killed in between leaves a key without one: after
STALE it may be used again, and the services behind it refuse to do twice what was done (`decide` names who answered).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from checkpoints import codec
from hitl.authentication import BearerAuthentication
from hitl.models import IdempotencyKey
from hitl.problems import response as problem

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
LONGEST = 255
KEPT = dt.timedelta(hours=24)
STALE = dt.timedelta(seconds=60)
LARGEST = 1024 * 1024
"""Bytes of an answer that is kept; a larger one is not replayed, and its key says so."""
CHANGING = {"POST", "PUT", "PATCH", "DELETE"}
UNTAKEN = {401, 403, 408, 413, 429}
"""Answers that say that the request was not looked at: its key stays free."""

Handler = Callable[[HttpRequest], HttpResponse]


def middleware(get_response: Handler) -> Handler:
    """Around every request of the REST API that changes something and names a key."""

    def handle(request: HttpRequest) -> HttpResponse:
        key = request.headers.get(HEADER)
        if key is None or request.method not in CHANGING or not request.path.startswith("/api/"):
            return get_response(request)
        person = who(request)
        if person is None:
            return get_response(request)  # which says 401
        if not 0 < len(key) <= LONGEST or not key.isprintable():
            return problem(400, "idempotency_key_invalid", f"{HEADER} has 1 to {LONGEST} printable characters; nothing was done.")
        return once(request, person, key, get_response)

    return handle


def who(request: HttpRequest) -> User | None:
    """Whose key it is: the token's person, else the session's."""
    try:
        found = BearerAuthentication().authenticate(Request(request))
    except AuthenticationFailed:
        return None
    if found is not None:
        return found[0]
    return request.user if isinstance(request.user, User) and request.user.is_active else None


def kept_for(status: int) -> bool:
    """Whether an answer says what was done, so that its key is used up."""
    return status < 500 and status not in UNTAKEN


def once(request: HttpRequest, person: User, key: str, get_response: Handler, *, keeps: Callable[[int], bool] = kept_for) -> HttpResponse:
    """The answer that this key's first request got, or the one that it gets now. Answers that `keeps` refuses leave the key free."""
    digest = codec.digest(b"\n".join([str(request.method).encode(), request.get_full_path().encode(), request.body]))
    mine, row = _claim(person, key, digest)
    if not mine:
        return _again(row, digest)
    kept = IdempotencyKey.objects.filter(pk=row.pk)
    try:
        response = get_response(request)
    except BaseException:
        kept.delete()
        raise
    if not keeps(response.status_code):
        kept.delete()
    else:
        body = b"" if response.streaming or len(response.content) > LARGEST else response.content
        kept.update(status=response.status_code, body=body, content_type=response.get("Content-Type", ""))
    return response


def _claim(person: User, key: str, digest: str) -> tuple[bool, IdempotencyKey]:
    """Whether this request is the first one of its key, and the key's row. Of two at the same moment one is."""
    now = timezone.now()
    mine = IdempotencyKey.objects.filter(user=person)
    mine.filter(made_at__lt=now - KEPT).delete()
    mine.filter(key=key, status=None, made_at__lt=now - STALE).delete()
    try:
        with transaction.atomic():
            return True, IdempotencyKey.objects.create(user=person, key=key, request_digest=digest, made_at=now)
    except IntegrityError:  # idempotency_key_once
        row = mine.filter(key=key).first()
        return (False, row) if row is not None else _claim(person, key, digest)  # it was given back meanwhile


def _again(row: IdempotencyKey, digest: str) -> HttpResponse:
    if row.request_digest != digest:
        words = "This key was sent with another request before. Nothing was done; use a new key for a new request."
        return problem(422, "idempotency_key_reused", words)
    if row.status is None:
        response = problem(409, "idempotency_in_progress", "The first request with this key is still worked on. Ask again in a second.")
        response["Retry-After"] = "1"
        return response
    response = HttpResponse(bytes(row.body), status=row.status, content_type=row.content_type)
    response[REPLAYED] = "true"
    return response
