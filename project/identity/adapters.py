"""What allauth asks the project."""

from __future__ import annotations

import base64
import logging
import smtplib
from typing import Any, cast

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from cryptography.fernet import Fernet, MultiFernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.encoding import force_bytes

from checkpoints.database.people import User
from hitl.http import clients
from hitl.http.logins import may_use_password
from hitl.outbound.links import absolute

logger = logging.getLogger(__name__)
SILENT = {"account/messages/logged_in.txt", "account/messages/logged_out.txt"}
"""What the next page says anyway."""


class AccountAdapter(DefaultAccountAdapter):
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Accounts are made by operators."""
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        return clients.address_of(request)

    def add_message(
        self,
        request: HttpRequest,
        level: int,
        message_template: str | None = None,
        *more: Any,
        **words: Any,
    ) -> None:
        if message_template not in SILENT:
            super().add_message(request, level, message_template, *more, **words)

    def post_login(self, request: HttpRequest, user: AbstractBaseUser, **more: Any) -> HttpResponse:
        """A login by an identity provider lasts for some hours: then it is asked again."""
        if "sociallogin" in (more.get("signal_kwargs") or {}):
            request.session.set_expiry(int(settings.WAYSTATION_SSO_SESSION_HOURS * 3600))
        return super().post_login(request, user, **more)

    def send_password_reset_mail(
        self, user: AbstractBaseUser, email: str, context: dict[str, Any]
    ) -> None:
        """Who has no password, because they log in elsewhere or are no person, gets none so."""
        if user.has_usable_password() and may_use_password(cast(User, user)):
            super().send_password_reset_mail(user, email, context)

    def get_reset_password_from_key_url(self, key: str) -> str:
        """At the address of this server that operators named, not at that of the request."""
        uid, _, key = key.partition("-")
        address = reverse("account_reset_password_from_key", kwargs={"uidb36": uid, "key": key})
        return absolute(address)

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """A mail server that is away changes nothing of the answer: else it would tell which
        addresses have an account.
        """
        try:
            super().send_mail(template_prefix, email, context)
        except (OSError, smtplib.SMTPException):
            logger.exception("A mail about an account was not sent")

    def send_notification_mail(
        self,
        template_prefix: str,
        user: AbstractBaseUser,
        context: dict[str, Any] | None = None,
        email: str | None = None,
    ) -> None:
        """To the account's own address: there is no other list of addresses here."""
        super().send_notification_mail(
            template_prefix, user, context, email or cast(User, user).email
        )


class FactorAdapter(DefaultMFAAdapter):
    """Secrets of authenticator apps and recovery codes are kept encrypted by SECRET_KEY, so that
    rows of the database alone make no codes.
    """

    def encrypt(self, text: str) -> str:
        return _box().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        return _box().decrypt(encrypted_text.encode()).decode()


def _box() -> MultiFernet:
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return MultiFernet([Fernet(_derived(key)) for key in keys])


def _derived(key: str | bytes) -> bytes:
    derived = HKDF(
        algorithm=hashes.SHA256(), length=32, salt=None, info=b"waystation second factors"
    ).derive(force_bytes(key))
    return base64.urlsafe_b64encode(derived)
