"""Log people in by an OpenID Connect provider: allauth's flow, made strict.

allauth trusts the ID token that came over TLS from the provider's token endpoint, without looking
at its signature, and sends no nonce. This module checks the signature by the provider's keys, and
the nonce by the session in which the login began. Where the ID token says nothing, it takes what
`userinfo` says of the same subject (`project.identity.claims`).
"""

from __future__ import annotations

import logging
import secrets
from typing import Any

import jwt
import requests
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.core.internal import ratelimit
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.helpers import render_authentication_error
from allauth.socialaccount.models import SocialAccount
from allauth.socialaccount.providers.base.constants import AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST, require_safe

from hitl.identity import sessions
from hitl.outbound.links import absolute
from project.identity import elsewhere, options
from project.identity.claims import ClaimsDisagree, joined
from project.identity.connections import connecting

SIGNED = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures by a key that the provider keeps to itself; never `none`, never a shared secret."""
NONCES = "oidc_nonces"
"""The session's key for the nonces of the logins that it has begun."""
MOST = 5
"""Logins that one session may have begun, as in several tabs."""
logger = logging.getLogger(__name__)
LOGGED_OUT = "http://schemas.openid.net/event/backchannel-logout"
RATE = "600/m/ip"
"""How often the provider may tell of logouts: this server reads the provider's keys for each."""
LEEWAY = 60
"""Seconds by which the provider's clock may differ."""


class Adapter(OpenIDConnectOAuth2Adapter):
    def get_callback_url(self, request: HttpRequest, app: Any) -> str:
        """Build it on the address of this server that operators named, not on the request's."""
        return absolute(reverse("oidc_callback"))

    def complete_login(self, request: HttpRequest, app: Any, token: Any, **kwargs: Any) -> Any:
        token_text = str(kwargs["response"].get("id_token") or "")
        claims = self.claims(app, token_text, require=["sub", "nonce"])
        begun = request.session.get(NONCES, [])
        if claims["nonce"] not in begun:
            raise OAuth2Error("the nonce is not one of this session")
        request.session[NONCES] = [nonce for nonce in begun if nonce != claims["nonce"]]
        told: Any = {}
        if "userinfo_endpoint" in self.openid_config:
            told = self._fetch_user_info(token.token)
            if not isinstance(told, dict) or not told:
                raise OAuth2Error("userinfo says nothing")
        try:
            said = joined(claims, told, groups=settings.WAYSTATION_OIDC_GROUPS_CLAIM)
        except ClaimsDisagree as error:
            raise OAuth2Error(str(error)) from error
        provider: Any = self.get_provider()  # type: ignore[no-untyped-call]  # allauth's
        return provider.sociallogin_from_response(request, said)

    def claims(self, app: Any, token: str, *, require: list[str]) -> dict[str, Any]:
        """Give the claims of a token, if the provider signed it for us just now and they include
        those in `require`.

        Raises OAuth2Error, RequestException.
        """
        if self.openid_config["issuer"] != settings.WAYSTATION_OIDC_ISSUER:
            raise OAuth2Error("the provider calls itself by another name")
        ours: Any = get_adapter()
        with ours.get_requests_session() as session:
            answer = session.get(self.openid_config["jwks_uri"])
            answer.raise_for_status()
        try:
            key_id = jwt.get_unverified_header(token).get("kid")
            keys = jwt.PyJWKSet.from_dict(answer.json()).keys
            fitting = [key for key in keys if key_id is None or key.key_id == key_id]
            if len(fitting) != 1:
                raise OAuth2Error("it is signed by a key that the provider does not name")
            claims: dict[str, Any] = jwt.decode(
                token,
                key=fitting[0],
                algorithms=SIGNED,
                audience=app.client_id,
                issuer=settings.WAYSTATION_OIDC_ISSUER,
                leeway=LEEWAY,
                options={"require": ["exp", "iat", "iss", "aud", *require]},
            )
        except (jwt.PyJWTError, ValueError) as error:
            raise OAuth2Error(f"the token does not hold: {error}") from error
        if isinstance(claims["aud"], list) and claims.get("azp", app.client_id) != app.client_id:
            raise OAuth2Error("the token is for another client")
        return claims


class Provider(OpenIDConnectProvider):
    oauth2_adapter_class = Adapter
    pkce_enabled_default = True

    def get_auth_params_from_request(self, request: HttpRequest, action: str) -> dict[str, Any]:
        """Add a nonce, and leave out what else the address asks for."""
        nonce = secrets.token_urlsafe(24)
        request.session[NONCES] = [*request.session.get(NONCES, []), nonce][-MOST:]
        return {**self.get_auth_params(), "nonce": nonce}  # type: ignore[no-untyped-call]

    def get_scope_from_request(self, request: HttpRequest) -> list[str]:
        return list(self.get_scope())  # type: ignore[no-untyped-call]

    def get_login_url(self, request: HttpRequest, **kwargs: Any) -> str:
        return reverse("oidc_login")


provider_classes = [Provider]


@require_safe
@never_cache
def login(request: HttpRequest) -> HttpResponse:
    """Send whoever wants to log in on to the provider."""
    return _through(request, lambda request: elsewhere.begin(request, options.OIDC))


@require_safe
@never_cache
@connecting
def connect(request: HttpRequest) -> HttpResponse:
    """Send somebody who is logged in on to the provider, to connect their account."""
    return _through(
        request, lambda request: elsewhere.begin(request, options.OIDC, AuthProcess.CONNECT)
    )


@require_safe
@never_cache
def callback(request: HttpRequest) -> HttpResponse:
    """Take the browser that the provider sends back, and log its person in."""
    view: Any = OAuth2CallbackView
    return _through(
        request, lambda request: view.adapter_view(Adapter(request, options.OIDC))(request)
    )


@csrf_exempt
@require_POST
@never_cache
def ended(request: HttpRequest) -> HttpResponse:
    """Take the provider's message that a person logged out there (OpenID Connect Back-Channel
    Logout 1.0): 200 once the person's sessions here have ended, 400 where the message does not
    hold, 503 where the provider's keys cannot be read.
    """
    if not settings.WAYSTATION_OIDC_ISSUER:
        raise Http404(gettext("People log in here by their passwords."))
    if not ratelimit.consume(request, app="project", action="ended", config={"ended": RATE}):
        return HttpResponse(status=429)
    adapter: Any = Adapter(request, options.OIDC)
    try:
        subject = _logged_out(adapter, request.POST.get("logout_token", ""))
    except OAuth2Error as error:
        logger.warning("A logout by the identity provider was refused: %s", error)
        return HttpResponse(status=400)
    except requests.RequestException:
        logger.exception("The keys of the identity provider cannot be read")
        return HttpResponse(status=503)
    for account in SocialAccount.objects.filter(provider=options.OIDC, uid=subject):
        count = sessions.end(account.user)
        logger.info("%s logged out at the identity provider: %s sessions", account.user, count)
    return HttpResponse()


def _logged_out(adapter: Any, token: str) -> str:
    """Read the subject of a logout token. Raises OAuth2Error, also for an ID token."""
    claims = adapter.claims(adapter.get_provider().app, token, require=["jti", "events", "sub"])
    events = claims["events"]
    if "nonce" in claims or not isinstance(events, dict) or LOGGED_OUT not in events:
        raise OAuth2Error("it is no logout token")
    return str(claims["sub"])


def _through(request: HttpRequest, view: Any) -> HttpResponse:
    if not settings.WAYSTATION_OIDC_ISSUER:
        raise Http404(gettext("People log in here by their passwords."))
    try:
        response: HttpResponse = view(request)
    except requests.RequestException as error:
        provider: Any = get_adapter().get_provider(request, options.OIDC)
        try:
            response = render_authentication_error(request, provider, exception=error)
        except ImmediateHttpResponse as refusal:
            response = refusal.response
    return response
