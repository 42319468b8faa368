"""What stands before the views that take events from outside: repetitions by id, and signatures.

Their size is `hitl.http.incoming`'s.

A repetition gets the first one's answer and has no second effect: by `sender_metadata.event_id`
where somebody is logged in or brings a token, by `webhook-id` where a source signs. Only what was
taken, or did not fit, uses an id up: what came too soon may come again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from checkpoints.database import clock
from checkpoints.models.fields import demand
from checkpoints.state import codec
from checkpoints.state.encryption import KeyMissing, SealBroken
from hitl.http import idempotency, incoming, problems
from hitl.http.authentication import SEEN_EVERY
from hitl.models import InboundSource
from hitl.outbound.signatures import new_secret
from hitl.wait_gate import signatures

MARK = "\t"
"""Begins the keys that are kept here: no client's Idempotency-Key may hold it."""
LONGEST = 1_000

View = Callable[..., HttpResponse]


def once_per_event(view: View) -> View:
    """An event that names its id is done once per person and address."""

    @wraps(view)
    def handle(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        event_id = _event_id(request) if request.method == "POST" else ""
        person = idempotency.who(request) if event_id else None
        if person is None:
            return view(request, *args, **kwargs)
        key = _key("event", request.path, event_id)
        return idempotency.once(
            request, person, key, lambda first: _rendered(view(first, *args, **kwargs)), keeps=_done
        )

    return handle


def _event_id(request: HttpRequest) -> str:
    """ "" where the body names none, or is none: the view says what is wrong with it."""
    try:
        body = incoming.read(request.body)
    except incoming.UnreadableBody:
        return ""
    sender = body.get("sender_metadata") if isinstance(body, dict) else None
    event_id = sender.get("event_id") if isinstance(sender, dict) else None
    text = (
        str(event_id) if isinstance(event_id, str | int) and not isinstance(event_id, bool) else ""
    )
    return text if len(text) <= LONGEST and text == codec.readable(text) else ""


def _key(kind: str, *parts: str) -> str:
    return f"{MARK}{kind}:{codec.digest(codec.encode(list(parts)))}"


def _done(status: int) -> bool:
    return status < 300 or status == 422


def _rendered(response: Any) -> HttpResponse:
    # Django's views are untyped here
    return response.render() if hasattr(response, "render") else response  # type: ignore[no-any-return]


def signed(view: View, *, starts: bool = False) -> View:
    """Let through what a source signed, and each message's effect once.

    Whoever cannot sign learns nothing, and writes nothing. A source that starts work (`starts`)
    signs nothing else: it answers no question.
    """

    @wraps(view)
    def handle(request: HttpRequest, source: str, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method != "POST":
            return view(request, source, *args, **kwargs)
        message_id = request.headers.get(signatures.ID, "")
        try:
            inbound_source = _verified(request, source, message_id, starts=starts)
        except signatures.BadSignature as error:
            response = problems.response(401, error.code, f"{error} Nothing was done.")
            response["WWW-Authenticate"] = "Signature"
            return response
        except (KeyMissing, SealBroken) as error:
            return problems.response(
                503, error.code, "The source's secret cannot be read here; nothing was done."
            )
        request.inbound_source = inbound_source  # type: ignore[attr-defined]  # for BySource
        key = _key("webhook", source, message_id)
        return idempotency.once(
            request,
            inbound_source.user,
            key,
            lambda first: _rendered(view(first, source, *args, **kwargs)),
            keeps=_done,
        )

    return handle


def _verified(request: HttpRequest, name: str, message_id: str, *, starts: bool) -> InboundSource:
    """The source that signed a request; raises signatures.BadSignature."""
    source = (
        InboundSource.objects.select_related("user")
        .filter(name=name, active=True, user__is_active=True, start__isnull=not starts)
        .first()
    )
    secrets = [] if source is None else list(demand(source.secrets))
    signatures.verify(
        secrets or [new_secret()],  # takes as long for a name that is none
        message_id=message_id,
        timestamp=request.headers.get(signatures.TIMESTAMP, ""),
        signature=request.headers.get(signatures.SIGNATURE, ""),
        body=request.body,
        now=clock.now(),
    )
    assert source is not None  # a secret that was made just now signed nothing
    if source.last_used_at is None or source.last_used_at < clock.now() - SEEN_EVERY:
        InboundSource.objects.filter(pk=source.pk).update(last_used_at=clock.now())
    return source


class BySource(BaseAuthentication):
    """Who a signed request acts as."""

    def authenticate(self, request: Request) -> tuple[Any, InboundSource] | None:
        source: InboundSource | None = getattr(request._request, "inbound_source", None)
        return None if source is None else (source.user, source)

    def authenticate_header(self, request: Request) -> str:
        return "Signature"
