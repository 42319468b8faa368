"""`Authorization: Bearer <token>` or `x-api-key: <token>`, what a token's scope allows, and what an
address asks of a request before its view is called.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib import auth
from django.http import HttpRequest, HttpResponse, parse_cookie
from django.urls import Resolver404, resolve
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated, NotFound
from rest_framework.permissions import SAFE_METHODS, BasePermission, IsAuthenticated
from rest_framework.request import Request

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.models import Checkpoint, Thread
from checkpoints.store.prepared_queries import Prepared
from hitl.identity import factors
from hitl.models import ApiToken, Decision
from runs.models import Artifact, Pause, Run
from runs.security import scopes
from runs.security.scopes import Scope

METHODS = ("get", "post", "put", "patch", "delete")
SEEN_EVERY = dt.timedelta(minutes=1)
"""`last_used_at` is written at most so often, and only by requests that may change something:
reading writes nothing at all.
"""


if TYPE_CHECKING:  # whose import reads the classes of this module
    from rest_framework.views import APIView

EXPIRED = "This token has expired. Make a new one."

_valid = Prepared(
    lambda now, digest: (
        ApiToken.objects.valid(now=now)
        .select_related("user__service_account")
        .filter(digest=digest)
    ),
    dt.datetime,
    str,
)


def token_of(secret: str, *, method: str) -> ApiToken | None:
    """The valid token with this secret, that came with a request of this method."""
    now = clock.now()
    token = next(iter(_valid.get(now, ApiToken.digest_of(secret))), None)
    if (
        token is not None
        and method not in SAFE_METHODS
        and (token.last_used_at is None or token.last_used_at < now - SEEN_EVERY)
    ):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


class BearerAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        parts = get_authorization_header(request).split()
        if not parts and (key := request.META.get("HTTP_X_API_KEY", "")):
            parts = [b"bearer", key.encode("latin-1", "replace")]
        if not parts or parts[0].lower() != b"bearer":
            return None
        token = (
            token_of(parts[1].decode("latin-1"), method=str(request.method))
            if len(parts) == 2
            else None
        )
        if (
            token is None
            and len(parts) == 2
            and ApiToken.objects.expired(now=clock.now(), secret=parts[1].decode("latin-1"))
        ):
            raise AuthenticationFailed(EXPIRED, code="token_expired")
        if token is None:
            raise AuthenticationFailed(
                "This token is unknown, expired or revoked.", code="token_invalid"
            )
        scopes.enter(token.scope, token.pk)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def middleware(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """No request acts by the token of the one before."""

    def handle(request: HttpRequest) -> HttpResponse:
        with scopes.acting(None), factors.before(request):
            return get_response(request)

    return handle


class WithinScope(BasePermission):
    """A token does what its scope is for, as the view says: `may_act` for unsafe methods,
    `may_read` for safe ones, beside `write`.

    A view that says nothing is changed by `write` alone, and read by `read` and `write`. A token
    that asks gets what is its person's own.
    """

    message = "This token may not do this. Nothing was done."
    code = "scope_missing"

    def has_permission(self, request: Request, view: Any) -> bool:
        token = request.auth
        if not isinstance(token, ApiToken):
            return True
        refused = scopes.refusal(token.scope, needed(view, str(request.method)))
        if refused is not None:
            self.message, self.code = str(refused), refused.code
            return False
        if token.scope == Scope.ASK and not _owns(token.user, view.kwargs):
            raise NotFound("There is nothing of this id.")
        return True


def needed(view: Any, method: str) -> tuple[str, ...]:
    """The scopes that a method of a view takes beside `write`."""
    if method in SAFE_METHODS:
        return (Scope.READ, *getattr(view, "may_read", ()))
    return tuple(getattr(view, "may_act", ()))


OWNED: dict[str, Callable[[Any], Any]] = {
    "thread_id": lambda key: Thread.objects.filter(pk=key),
    "order_id": lambda key: Thread.objects.filter(work_order=key),
    "run_id": lambda key: Thread.objects.filter(pk__in=Run.objects.filter(pk=key).values("thread")),
    "pause_id": lambda key: Thread.objects.filter(
        pk__in=Pause.objects.filter(pk=key).values("run__thread")
    ),
    "decision_id": lambda key: Thread.objects.filter(
        pk__in=Decision.objects.filter(pk=key).values("pause__run__thread")
    ),
    "checkpoint_id": lambda key: Thread.objects.filter(
        pk__in=Checkpoint.objects.filter(pk=key).values("thread")
    ),
    "artifact_id": lambda key: Thread.objects.filter(
        pk__in=Artifact.objects.filter(pk=key).values("thread")
    ),
}
"""Argument of an address → the thread that it speaks of.

An address with another one is nothing for a token that asks.
"""


def _owns(user: User, named: dict[str, Any]) -> bool:
    """Whether all that an address names is of this person's own threads."""
    return all(
        # of another engine: the view looks at whose it is
        (name == "run_id" and isinstance(key, str))
        or (name in OWNED and OWNED[name](key).filter(owner=user).exists())
        for name, key in named.items()
    )


# without annotations there
class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI page describes the header."""

    target_class = "hitl.http.authentication.BearerAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "A token from `manage.py api_token USER`.",
        }


SUBPROTOCOL = "waystation"
"""What a socket speaks.

Beside it a client that can set no header may offer `bearer.<token>`: addresses are logged, offers
are not.
"""


@dataclass(frozen=True)
class Caller:
    """Who opened a socket or a stream."""

    user: User
    scope: str
    """Of its token; a session's is `write`."""
    token: ApiToken | None = None
    """None for a session."""

    @property
    def token_key(self) -> uuid.UUID | None:
        return None if self.token is None else self.token.pk

    def may_follow(self, thread_id: uuid.UUID) -> bool:
        """Whether its scope lets it follow a thread, of those that its person sees: of one's own
        alone, where it asks.
        """
        return self.scope != Scope.ASK or _owns(self.user, {"thread_id": thread_id})


def caller_of(scope: Any) -> Caller | None:
    """By `Authorization: Bearer`, by an offered subprotocol, else by session.

    Reads all anew, so it can be asked again later.
    """
    secret = secret_of(scope)
    if secret is not None:
        return caller_by(secret, method="GET")  # as which both begin
    key = _session_key_of(scope)
    if not key:
        return None
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user = auth.get_user(request)
    return Caller(user, Scope.WRITE) if isinstance(user, User) and user.is_active else None


def caller_by(secret: str, *, method: str) -> Caller | None:
    token = token_of(secret, method=method)
    return Caller(token.user, token.scope, token) if token else None


def unknown(scope: Any) -> NotAuthenticated | AuthenticationFailed:
    """Why `caller_of` knows nobody."""
    secret = secret_of(scope)
    if secret is not None and ApiToken.objects.expired(now=clock.now(), secret=secret):
        return AuthenticationFailed(EXPIRED, code="token_expired")
    return NotAuthenticated("Log in, or send Authorization: Bearer with a token.")


def _session_key_of(scope: Any) -> str:
    cookies = "; ".join(
        value.decode("latin-1") for name, value in scope["headers"] if name == b"cookie"
    )
    return parse_cookie(cookies).get(settings.SESSION_COOKIE_NAME, "")


def secret_of(scope: Any) -> str | None:
    """What came with `Authorization: Bearer`, as `x-api-key`, or as an offered subprotocol."""
    headers = dict(scope["headers"])
    header = headers.get(b"authorization", b"").split()
    if len(header) == 2 and header[0].lower() == b"bearer":
        return str(header[1].decode("latin-1"))
    if not header and (key := headers.get(b"x-api-key", b"").strip()):
        return str(key.decode("latin-1"))
    offers = (
        offer.removeprefix("bearer.")
        for offer in scope.get("subprotocols", [])
        if offer.startswith("bearer.")
    )
    return next(offers, None)


def view_of(request: HttpRequest) -> type[APIView] | None:
    """The view that will answer this request; None where it is none of the framework's."""
    try:
        view: type[APIView] | None = getattr(resolve(request.path_info).func, "cls", None)
    except Resolver404:
        return None
    return view


def takes(view: type[APIView] | APIView | None, method: str | None) -> bool:
    """Whether an address has this method; one that has none at all is no address, and says so
    itself.
    """
    if view is None or not any(hasattr(view, name) for name in METHODS):
        return True
    return hasattr(view, "get" if method == "HEAD" else str(method).lower())


def asks_who(view: type[APIView] | None) -> bool:
    """Whether nobody is served here without credentials."""
    return view is not None and IsAuthenticated in view.permission_classes
