"""The answer of a request whose `Idempotency-Key` is used up: as it was kept, or made anew from
what was made under the key.

Who asks must be allowed today what the first request was: the view's own permissions are asked, and
what the answer speaks of is read once more as that person. A token that only reads, and a person
who sees it no more, get what any such request gets.
"""

from __future__ import annotations

import datetime as dt
import logging
import time
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, ResolverMatch, resolve
from rest_framework.views import APIView

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.models.fields import Locked
from hitl.http import throttles
from hitl.http.problems import response as problem
from hitl.models import IdempotencyKey

logger = logging.getLogger(__name__)

REPLAYED = "Idempotent-Replayed"
ANSWERING = dt.timedelta(seconds=2)
"""How long a request may take from its first commit to its answer; later it is answered from what
was made.
"""
EVERY = 0.05
"""Seconds between two looks, with no transaction open: the first request is about to write its
answer.
"""
AGAIN = "5"
"""Seconds after which may be asked again what cannot be shown now."""
API = "/api/v1/"
FOLDERS = {
    "wo": "work-orders",
    "thr": "threads",
    "run": "runs",
    "pse": "pauses",
    "dec": "decisions",
    "ckpt": "checkpoints",
    "end": "endpoints",
    "dlv": "deliveries",
    "repo": "repositories",
    "view": "views",
    "bat": "batches",
}
"""Kind of an id → where the API shows such a thing."""


def answer_again(request: HttpRequest, row: IdempotencyKey) -> HttpResponse:
    """What is answered under a key that is used up.

    Whatever keeps the answer from being given now, such as a database in trouble, is a 503 that
    says so: the row tells that the first request's doing stands, and no answer says less than that.
    """
    try:
        return _again(request, row)
    # whatever it is, there is a true answer to it, which an error page would not give
    except Exception:
        logger.exception("%s %s could not be answered again", request.method, request.path)
        return _later(row)


def _again(request: HttpRequest, row: IdempotencyKey) -> HttpResponse:
    refusal = _refused(request)
    if refusal is not None:
        return _later(row, refusal) if refusal.status_code >= 500 else refusal
    row = _answered(row)
    if row.kept == IdempotencyKey.Kept.ERASED:
        return _erased()
    empty = row.kept == IdempotencyKey.Kept.WHOLE and row.status == 204
    shown = None if empty or row.status == 404 else _show(row, request)
    if shown is not None and shown.status_code != 200:
        return _not_shown(row, shown)
    response = _kept(row) or _rebuilt(row, shown)
    response[REPLAYED] = response.get(REPLAYED, "true")
    return response


def _not_shown(row: IdempotencyKey, shown: HttpResponse) -> HttpResponse:
    """What is said where the API does not show today what the answer speaks of."""
    if shown.status_code in {401, 403, 404}:
        return problem(
            404,
            "not_found",
            "What this key's first request made is nothing that you may see. Nothing was done "
            "again.",
        )
    if shown.status_code == 410:
        return _erased()
    if shown.status_code == 429 or shown.status_code >= 500:
        return _later(row, shown)
    return _without_answer(row, "What it made is not shown at its address any more.")


def _erased() -> HttpResponse:
    return problem(
        410,
        "erased",
        "What this key's first request made was erased since. Nothing was done again.",
    )


def _later(row: IdempotencyKey, told: HttpResponse | None = None) -> HttpResponse:
    """503: what the first request made stands, and cannot be shown now. `told` is what says how
    long to wait.
    """
    stands = (
        "What this key's first request made"
        if row.made
        else "The answer of this key's first request"
    )
    response = problem(
        503,
        "idempotency_answer_unavailable",
        f"{stands} stands, and cannot be shown at the moment. Send it again with the same "
        "Idempotency-Key in a few seconds: nothing is done twice.",
    )
    response["Retry-After"] = AGAIN if told is None else told.get("Retry-After", AGAIN)
    return response


def _answered(row: IdempotencyKey) -> IdempotencyKey:
    """The row, once it holds its answer, or is so old that its request may be dead.

    Waits, for ANSWERING at the most.
    """
    while row.status is None and clock.now() < row.made_at + ANSWERING:
        time.sleep(EVERY)  # nothing tells when another process has answered
        row = IdempotencyKey.objects.filter(pk=row.pk).first() or row
    return row


def _kept(row: IdempotencyKey) -> HttpResponse | None:
    """The answer as it was; None where it is not kept, or sealed with a key that is not known any
    more.
    """
    if row.kept != IdempotencyKey.Kept.WHOLE or isinstance(row.body, Locked):
        return None
    return HttpResponse(bytes(row.body), status=row.status, content_type=row.content_type)


def _rebuilt(row: IdempotencyKey, shown: HttpResponse | None) -> HttpResponse:
    """What was made, as it is now; of what held a secret, only that it was made."""
    if shown is not None and row.kept != IdempotencyKey.Kept.SECRET:
        response = HttpResponse(
            shown.content, status=200, content_type=shown.get("Content-Type", "")
        )
        response[REPLAYED] = "rebuilt"
        return response
    why = {
        IdempotencyKey.Kept.SECRET: (
            "Its answer held a secret, which is told once and kept nowhere."
        ),
        IdempotencyKey.Kept.LARGE: "Its answer was too large to be kept.",
    }.get(IdempotencyKey.Kept(row.kept), "Its answer was lost.")
    return _without_answer(row, why)


def _without_answer(row: IdempotencyKey, why: str) -> HttpResponse:
    message = f"This key's first request was carried out. {why} Nothing was done again."
    return problem(
        409, "idempotency_answer_not_kept", message, made=row.made.split(), first_status=row.status
    )


def _refused(request: HttpRequest) -> HttpResponse | None:
    """What the request's own view says to it before it does anything: 401, 403, 429; None where it
    may go on.
    """
    try:
        match = resolve(request.path_info)
    except Resolver404:
        return None  # the first request was told so, and that is given again
    made = getattr(match.func, "cls", None)
    if made is None:
        return None
    view: APIView = made(**getattr(match.func, "initkwargs", {}))
    view.setup(request, *match.args, **match.kwargs)
    asked = view.initialize_request(request, *match.args, **match.kwargs)
    view.request = asked
    view.headers = view.default_response_headers
    try:
        view.initial(asked, *match.args, **match.kwargs)
    # the view's own way of saying it; what it has no words for it raises again
    except Exception as error:  # noqa: BLE001
        response = view.finalize_response(
            asked, view.handle_exception(error), *match.args, **match.kwargs
        )
        answer: HttpResponse = response.render()
        return answer
    return None


def _show(row: IdempotencyKey, request: HttpRequest) -> HttpResponse | None:
    """What the answer speaks of, read as its person today; None where it speaks of nothing that can
    be read.
    """
    match = _place(row, request)
    if match is None:
        return None
    looking = HttpRequest()
    looking.method = "GET"
    looking.META = {
        name: request.META[name]
        for name in ("SERVER_NAME", "SERVER_PORT", "HTTP_HOST", "REMOTE_ADDR")
        if name in request.META
    }
    person: User = row.user
    looking.user = person
    # of Django REST framework: who it was is known already
    looking._force_auth_user = person  # type: ignore[attr-defined]
    response: Any = match.func(looking, *match.args, **match.kwargs)
    # Django's views are untyped here
    return response.render() if hasattr(response, "render") else response  # type: ignore[no-any-return]


def _place(row: IdempotencyKey, request: HttpRequest) -> ResolverMatch | None:
    """Where the API shows what was made last, else what the address names."""
    if made := row.made.split():
        folders = [
            f"{API}{FOLDERS[kind]}/{shown_id}"
            for shown_id in reversed(made)
            if (kind := shown_id.partition("_")[0]) in FOLDERS
        ]
        return _readable(folders[0]) if folders else None
    api = next((prefix for prefix in throttles.API if request.path_info.startswith(prefix)), API)
    parts = request.path_info.removeprefix(api).split("/")
    matches = (_readable(api + "/".join(parts[:count])) for count in range(len(parts), 0, -1))
    return next((match for match in matches if match is not None), None)


def _readable(path: str) -> ResolverMatch | None:
    """The address, if it is of one thing, and may be read."""
    try:
        match = resolve(path)
    except Resolver404:
        return None
    return match if match.kwargs and hasattr(getattr(match.func, "cls", None), "get") else None
