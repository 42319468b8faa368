"""`Authorization: Bearer <token>`, and what a token's scope allows."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib import auth
from django.contrib.auth.models import User
from django.http import HttpRequest, parse_cookie
from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from checkpoints.prepared import Prepared
from hitl.models import ApiToken

SEEN_EVERY = dt.timedelta(minutes=1)
"""`last_used_at` is written at most so often, and only by requests that may change something: reading writes nothing at all (F1)."""


_valid = Prepared(lambda now, digest: ApiToken.objects.valid(now=now).select_related("user").filter(digest=digest), dt.datetime, str)


def token_of(secret: str, *, method: str) -> ApiToken | None:
    """The valid token with this secret, that came with a request of this method."""
    now = timezone.now()
    token = next(iter(_valid.get(now, ApiToken.digest_of(secret))), None)
    if token is not None and method not in SAFE_METHODS and (token.last_used_at is None or token.last_used_at < now - SEEN_EVERY):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


class BearerAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        words = get_authorization_header(request).split()
        if not words or words[0].lower() != b"bearer":
            return None
        token = token_of(words[1].decode("latin-1"), method=str(request.method)) if len(words) == 2 else None
        if token is None and len(words) == 2 and ApiToken.objects.expired(now=timezone.now(), secret=words[1].decode("latin-1")):
            raise AuthenticationFailed("This token has expired. Make a new one.", code="token_expired")
        if token is None:
            raise AuthenticationFailed("This token is unknown, expired or revoked.", code="token_invalid")
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class WithinScope(BasePermission):
    """A read token only reads."""

    message = "This token may only read."
    code = "scope_missing"

    def has_permission(self, request: Request, view: Any) -> bool:
        token = request.auth
        return not isinstance(token, ApiToken) or token.scope == ApiToken.Scope.WRITE or request.method in SAFE_METHODS


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI page describes the header."""

    target_class = "hitl.authentication.BearerAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "A token from `manage.py api_token USER`."}


SUBPROTOCOL = "waystation"
"""What a socket speaks. Beside it a client that can set no header may offer `bearer.<token>`: addresses are logged, offers are not."""


@dataclass(frozen=True)
class Caller:
    """Who opened a socket or a stream."""

    user: User
    may_write: bool


def caller_of(scope: Any) -> Caller | None:
    """By `Authorization: Bearer`, by an offered subprotocol, else by session. Reads all anew, so it can be asked again later."""
    secret = _secret_of(scope)
    if secret is not None:
        token = token_of(secret, method="GET")  # as which both begin
        return Caller(token.user, token.scope == ApiToken.Scope.WRITE) if token else None
    key = _session_key_of(scope)
    if not key:
        return None
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user = auth.get_user(request)
    return Caller(user, may_write=True) if isinstance(user, User) and user.is_active else None


def _session_key_of(scope: Any) -> str:
    cookies = "; ".join(value.decode("latin-1") for name, value in scope["headers"] if name == b"cookie")
    return parse_cookie(cookies).get(settings.SESSION_COOKIE_NAME, "")


def _secret_of(scope: Any) -> str | None:
    header = dict(scope["headers"]).get(b"authorization", b"").split()
    if len(header) == 2 and header[0].lower() == b"bearer":
        return str(header[1].decode("latin-1"))
    offers = (offer.removeprefix("bearer.") for offer in scope.get("subprotocols", []) if offer.startswith("bearer."))
    return next(offers, None)
