"""Logging in by a SAML identity provider: allauth's flow, around `project.identity.assertions`."""

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
from hitl.identity.saml import IdentityProvider, MetadataUnfit, PairUnfit
from hitl.identity.saml import provider as described
from project.identity import elsewhere, options
from project.identity.connections import connecting

if TYPE_CHECKING:
    from project.identity.assertions import Assertion

logger = logging.getLogger(__name__)
KEPT = 600
"""Seconds for which the provider's metadata is kept, and in which a login comes back."""
WAITS = 5
"""Seconds that it may take to read."""
RAW = "response"
_kept: dict[tuple[str, str], tuple[float, IdentityProvider]] = {}


def _provider() -> IdentityProvider:
    """Raises OSError, MetadataUnfit."""
    key = (settings.WAYSTATION_SAML_METADATA, settings.WAYSTATION_SAML_ISSUER)
    read_at, found = _kept.get(key, (0.0, None))
    if found is None or time.monotonic() - read_at > KEPT:
        found = described(*key, now=clock.now(), seconds=WAITS)
        _kept[key] = (time.monotonic(), found)
    return found


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
        """Who it is: by the attribute that operators named, without a way round it; else by
        subject-id, or the NameID. Raises ValueError for a NameID that says it of one login alone.
        """
        if name := settings.WAYSTATION_SAML_SUBJECT_ATTRIBUTE:
            return str((data.get_attributes().get(name) or [""])[0])
        uid = super().extract_uid(data)  # type: ignore[no-untyped-call]  # allauth's
        if data.transient() and uid == data.get_nameid():
            raise ValueError("its NameID is transient, another one at each login")
        return str(uid or "")


def _refusing(view: Any) -> Any:
    """A page of the login: 404 without a provider, 503 while it cannot be used, 403 where what it
    said does not hold; the log has the reason.
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
        logger.exception("python3-saml is not installed: pip install -r requirements-saml.txt")
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
    """Where the provider's page sends them back to, without our session: browsers keep its cookie
    from requests of other sites. What holds waits for the next request, which has it.
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
    """Log in whoever began it in this browser, once."""
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
    """What the provider has to know of us."""
    from project.identity import assertions

    return HttpResponse(assertions.metadata(), content_type="application/samlmetadata+xml")
