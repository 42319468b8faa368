"""Decide who may log in by an identity provider, and to which account."""

from __future__ import annotations

import logging
from typing import Any, cast

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter, get_adapter
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.providers.base.constants import AuthProcess
from django.conf import settings
from django.contrib import messages
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from requests import RequestException

from checkpoints.database.people import User
from hitl.identity import directory
from hitl.models import is_service
from project.identity import linking, options

logger = logging.getLogger(__name__)


class ElsewhereAdapter(DefaultSocialAccountAdapter):
    """Finds an account by the provider's subject: never by a name, which a person there might
    choose; by a mail address only as `project.identity.linking` allows. The first login makes the
    account, where the provider's groups let it in.
    """

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return directory.lets_in(values_of(sociallogin))

    def is_auto_signup_allowed(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return True

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Refuse a person whom the provider's groups do not let in; else bring the account's groups
        up to date, or connect the account first.
        """
        values, provider = values_of(sociallogin), sociallogin.account.provider
        sociallogin.email_addresses = []  # addresses stand at the account
        user = cast(User, sociallogin.user) if sociallogin.is_existing else None
        if user is not None and is_service(user):
            raise refusal(request, _("This account is no person's."))
        if not directory.lets_in(values):
            if user is not None:
                directory.refuse(user, values, provider=provider)
            raise refusal(request, _("Your groups there do not let you in here."))
        if sociallogin.state.get("process") == AuthProcess.CONNECT:
            words, ok = linking.connect(request, sociallogin, values)
            messages.add_message(request, messages.SUCCESS if ok else messages.ERROR, words)
            raise ImmediateHttpResponse(redirect("connections"))
        try:
            linking.refuse_closed(sociallogin)
            if user is None:
                linking.settle(request, sociallogin, values)
            else:
                directory.bring(user, values, provider=provider)
        except linking.NotLinked as error:
            raise refusal(request, str(error)) from error

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> User:
        """Make the account. Raises ImmediateHttpResponse where another request was first."""
        try:
            with transaction.atomic():
                user = cast(User, super().save_user(request, sociallogin, form))
                provider = sociallogin.account.provider
                directory.bring(user, values_of(sociallogin), provider=provider)
        except IntegrityError:
            raise refusal(request, _("This login did not hold. Begin once more.")) from None
        return user

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Exception | None = None,
        extra_context: Any = None,
    ) -> None:
        """Say that the login failed, in words that reveal nothing of the provider; the log has the
        reason.
        """
        logger.warning("A login by the identity provider failed: %s", exception or error)
        if isinstance(exception, RequestException):
            words = _("The identity provider cannot be reached just now. Try again in a minute.")
            raise refusal(request, words, status=503)
        raise refusal(request, _("This login did not hold. Begin once more."))


def values_of(sociallogin: SocialLogin) -> list[str]:
    names = {
        options.OIDC: settings.WAYSTATION_OIDC_GROUPS_CLAIM,
        options.SAML: settings.WAYSTATION_SAML_GROUPS_ATTRIBUTE,
    }
    account = sociallogin.account
    return directory.values_of(account.extra_data.get(names[account.provider]))


def begin(request: HttpRequest, provider_id: str, process: str = AuthProcess.LOGIN) -> HttpResponse:
    """Send a browser on to a provider, to log in or, from our own page alone, to connect. `process`
    counts, even if the address asks for another one.
    """
    provider: Any = get_adapter().get_provider(request, provider_id)
    arguments = provider.get_redirect_from_request_kwargs(request)
    response: HttpResponse = provider.redirect(request, **{**arguments, "process": process})
    return response


def refusal(request: HttpRequest, words: str, *, status: int = 403) -> ImmediateHttpResponse:
    return ImmediateHttpResponse(
        render(request, "identity/refused.html", {"problem": words}, status=status)
    )
