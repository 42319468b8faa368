"""Who may log in by the identity provider, and as whom."""

from __future__ import annotations

import logging
from typing import Any, cast

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialLogin
from django.http import HttpRequest
from django.shortcuts import render
from django.utils.translation import gettext as _
from requests import RequestException

from checkpoints.database.people import User
from hitl.identity import directory
from hitl.models import is_service

logger = logging.getLogger(__name__)


class ElsewhereAdapter(DefaultSocialAccountAdapter):
    """An account is known by the provider's subject alone: never by a mail address or a name, which
    somebody there might choose. Its first login makes it, where the provider's groups let it in.
    """

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return directory.lets_in(_values(sociallogin))

    def is_auto_signup_allowed(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return True

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Refuse whom the provider's groups do not let in; else bring the account's groups up to
        date.
        """
        values = _values(sociallogin)
        sociallogin.email_addresses = []  # addresses stand at the account
        user = cast(User, sociallogin.user) if sociallogin.is_existing else None
        if user is not None and is_service(user):
            raise refusal(request, _("This account is no person's."))
        if not directory.lets_in(values):
            if user is not None:
                directory.refuse(user, values)
            raise refusal(request, _("Your groups there do not let you in here."))
        if user is not None and user.is_active:
            directory.bring(user, values)

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> User:
        user = cast(User, super().save_user(request, sociallogin, form))
        directory.bring(user, _values(sociallogin))
        return user

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Exception | None = None,
        extra_context: Any = None,
    ) -> None:
        """Say so, in words that tell nothing of the provider; the log has the reason."""
        logger.warning("A login by the identity provider failed: %s", exception or error)
        if isinstance(exception, RequestException):
            words = _("The identity provider cannot be reached just now. Try again in a minute.")
            raise refusal(request, words, status=503)
        raise refusal(request, _("This login did not hold. Begin once more."))


def _values(sociallogin: SocialLogin) -> list[str]:
    return directory.values_of(sociallogin.account.extra_data)


def refusal(request: HttpRequest, words: str, *, status: int = 403) -> ImmediateHttpResponse:
    return ImmediateHttpResponse(
        render(request, "identity/refused.html", {"problem": words}, status=status)
    )
