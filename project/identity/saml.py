"""Log people in by a SAML identity provider: allauth's flow, with the product's own checks
(`project.identity.assertions`).
"""

from __future__ import annotations

import logging
import time
from functools import wraps
from typing import TYPE_CHECKING, Any

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.helpers import complete_social_login
from allauth.socialaccount.providers.base.constants import AuthProcess
from allauth.socialaccount.providers.saml.provider import SAMLProvider
from allauth.socialaccount.sessions import LoginSession
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST, require_safe

from checkpoints.database import clock
from checkpoints.text import extras
from hitl.identity.saml import IdentityProvider, MetadataUnfit, PairUnfit
from hitl.identity.saml import provider as described
from project.identity import elsewhere, options
from project.identity.connections import connecting

if TYPE_CHECKING:
    from project.identity.assertions import Assertion

logger = logging.getLogger(__name__)
KEPT = 600
"""Seconds for which the provider's metadata is kept, and within which a login has to come back."""
WAITS = 5
"""Seconds that reading the metadata may take."""
RAW = "response"
"""The provider's response in the session of a login under way."""
_kept: dict[tuple[str, str], tuple[float, IdentityProvider]] = {}


def _provider() -> IdentityProvider:
    """Read the provider's metadata, or take it as kept. Raises OSError, MetadataUnfit."""
    key = (settings.WAYSTATION_SAML_METADATA, settings.WAYSTATION_SAML_ISSUER)
    read_at, provider = _kept.get(key, (0.0, None))
    if provider is None or time.monotonic() - read_at > KEPT:
        provider = described(*key, now=clock.now(), seconds=WAITS)
        _kept[key] = (time.monotonic(), provider)
    return provider


class Provider(SAMLProvider):
    def get_login_url(self, request: HttpRequest, **kwargs: Any) -> str:
        return reverse("saml_login")

    def redirect(
        self,
        request: HttpRequest,
        process: str,
        next_url: Any = None,
        data: Any = None,
        **more: Any,
    ) -> HttpResponse:
        from project.identity import assertions

        address, request_id = assertions.login_at(_provider())
        self.stash_redirect_state(request, process, next_url, data, state_id=request_id, **more)
        return HttpResponseRedirect(address)

    def extract_uid(self, data: Assertion) -> str:
        """Give the person's id: the attribute that operators named, and nothing in its place;
        without such a setting subject-id, or the NameID. Raises ValueError for a NameID that is new
        at each login.
        """
        if name := settings.WAYSTATION_SAML_SUBJECT_ATTRIBUTE:
            return str((data.get_attributes().get(name) or [""])[0])
        uid = super().extract_uid(data)  # type: ignore[no-untyped-call]  # allauth's
        if data.transient() and uid == data.get_nameid():
            raise ValueError("its NameID is transient, another one at each login")
        return str(uid or "")


def _refusing(view: Any) -> Any:
    """Decorate a page of the login: 404 without a provider, 503 while the provider cannot be used,
    403 where its response does not hold; the log has the reason.
    """

    @never_cache
    @wraps(view)
    def page(request: HttpRequest) -> HttpResponse:
        if not settings.WAYSTATION_SAML_ISSUER:
            raise Http404(_("Nobody logs in here by SAML."))
        try:
            return _answer(view, request)
        except ImmediateHttpResponse as refusal:
            response: HttpResponse = refusal.response
            return response

    return page


def _answer(view: Any, request: HttpRequest) -> HttpResponse:
    try:
        from project.identity.assertions import AssertionRefused
    except ImportError:
        logger.exception("python3-saml is not installed: %s", extras.install("saml"))
        raise _away(request) from None
    try:
        response: HttpResponse = view(request)
    except (OSError, MetadataUnfit):
        logger.exception("The metadata of WAYSTATION_SAML_METADATA cannot be used")
        raise _away(request) from None
    except PairUnfit as error:
        logger.error("Nobody logs in by SAML: %s", error)
        words = _("Logging in this way is set up wrongly. Tell whoever runs this server.")
        raise elsewhere.refusal(request, words, status=503) from None
    except (AssertionRefused, PermissionDenied) as error:
        logger.warning("A login by SAML failed: %s", error or "nobody began it in this browser")
        raise elsewhere.refusal(request, _("This login did not hold. Begin once more.")) from error
    return response


def _away(request: HttpRequest) -> ImmediateHttpResponse:
    words = _("The identity provider cannot be reached just now. Try again in a minute.")
    return elsewhere.refusal(request, words, status=503)


@require_safe
@_refusing
def login(request: HttpRequest) -> HttpResponse:
    """Send whoever wants to log in on to the provider."""
    return elsewhere.begin(request, options.SAML)


@require_safe
@connecting
@_refusing
def connect(request: HttpRequest) -> HttpResponse:
    """Send somebody who is logged in on to the provider, to connect their account."""
    return elsewhere.begin(request, options.SAML, AuthProcess.CONNECT)


@csrf_exempt
@require_POST
@_refusing
def back(request: HttpRequest) -> HttpResponse:
    """Take the response with which the provider's page sends a browser back. It comes without our
    session, since browsers send its cookie with no request from another site. A response that holds
    waits for the next request, which has the session.
    """
    from project.identity import assertions

    raw = request.POST.get("SAMLResponse", "")
    assertions.verified(_provider(), raw)
    response = redirect("saml_finish")
    waiting = _waiting(request)
    waiting.store.update({RAW: raw})
    waiting.store.set_expiry(KEPT)
    waiting.save(response)
    return response


back.body_limit = "EVENT_BYTES"  # for `hitl.http.incoming`


@require_safe
@_refusing
def finish(request: HttpRequest) -> HttpResponse:
    """Log in the person who began this login in this browser, once."""
    from project.identity import assertions

    waiting = _waiting(request)
    raw = str(waiting.store.get(RAW) or "")
    waiting.delete()
    assertion = assertions.verified(_provider(), raw)
    provider: Any = get_adapter().get_provider(request, options.SAML)
    state = provider.unstash_redirect_state(request, assertion.answers())
    try:
        sociallogin = provider.sociallogin_from_response(request, assertion)
    except (ValueError, ImproperlyConfigured) as error:
        raise assertions.AssertionRefused(f"It does not say who it is: {error}") from error
    sociallogin.state = state
    response: HttpResponse = complete_social_login(request, sociallogin)
    return response


def _waiting(request: HttpRequest) -> LoginSession:
    return LoginSession(request, "saml_session", "saml")


@require_safe
@_refusing
def metadata(request: HttpRequest) -> HttpResponse:
    """Show the metadata that the provider needs about this server."""
    from project.identity import assertions

    return HttpResponse(assertions.metadata(), content_type="application/samlmetadata+xml")
