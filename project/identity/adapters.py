"""What allauth asks the project."""

from __future__ import annotations

import base64
from typing import Any, cast

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
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
from hitl.identity import languages
from hitl.outbound import accounts
from hitl.outbound.links import absolute

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

    def login(self, request: HttpRequest, user: AbstractBaseUser) -> None:
        """Raises ImmediateHttpResponse for who was switched off since they proved the password:
        allauth asks before the second factor alone.
        """
        if not user.is_active:
            raise ImmediateHttpResponse(self.respond_user_inactive(request, user))
        super().login(request, user)

    def post_login(self, request: HttpRequest, user: AbstractBaseUser, **more: Any) -> HttpResponse:
        """A login by an identity provider lasts for some hours: then it is asked again."""
        if "sociallogin" in (more.get("signal_kwargs") or {}):
            request.session.set_expiry(int(settings.WAYSTATION_SSO_SESSION_HOURS * 3600))
        return super().post_login(request, user, **more)

    def get_reset_password_from_key_url(self, key: str) -> str:
        """At the address of this server that operators named, not at that of the request."""
        uid, _, key = key.partition("-")
        address = reverse("account_reset_password_from_key", kwargs={"uidb36": uid, "key": key})
        return absolute(address)

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Queue what became of an account, in its person's language: no page waits for a mail
        server.
        """
        user = cast(User, context["to"])
        with languages.spoken_to(user.pk):
            letter = self.render_mail(template_prefix, email, context)
            accounts.tell(user, str(letter.subject), str(letter.body))

    def send_notification_mail(
        self,
        template_prefix: str,
        user: AbstractBaseUser,
        context: dict[str, Any] | None = None,
        email: str | None = None,
    ) -> None:
        """To the account's own address: there is no other list of addresses here."""
        super().send_notification_mail(
            template_prefix, user, {**(context or {}), "to": user}, cast(User, user).email
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
