"""Reset forgotten passwords: with allauth's links, in the product's own mails
(`hitl.outbound.accounts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from allauth.account.adapter import get_adapter
from allauth.account.forms import ResetPasswordForm, UserTokenForm, default_token_generator
from allauth.account.utils import filter_users_by_email, user_pk_to_url_str
from django.http import HttpRequest

from checkpoints.database.people import User
from hitl.http.logins import may_use_password
from hitl.identity import languages
from hitl.outbound import accounts
from hitl.outbound.accounts import Letter


class ForgottenForm(ResetPasswordForm):
    """Looks no account up: the answer, and the time until it, are the same for every address."""

    def clean_email(self) -> str:
        return str(get_adapter().clean_email(self.cleaned_data["email"].lower()))

    def save(self, request: HttpRequest, **kwargs: Any) -> str:
        address = str(self.cleaned_data["email"])
        accounts.ask_for_password(address)
        return address


class LinkForm(UserTokenForm):
    """Checks the account again when its link is used: it must still be active, with a password."""

    def _get_user(self, uidb36: str) -> User | None:
        user: User | None = super()._get_user(uidb36)  # type: ignore[no-untyped-call]  # allauth's
        return user if user is not None and user.is_active and _has_password(user) else None


class PasswordResets:
    def letters(self, address: str) -> Sequence[Letter]:
        """Write the mails for an address. Accounts without a password, as of people who log in
        elsewhere or of services, get none: a link would give them one.
        """
        return list(self._letters(address))

    def _letters(self, address: str) -> Iterator[Letter]:
        adapter = get_adapter()
        for user in filter_users_by_email(address, is_active=True, prefer_verified=True):
            if _has_password(user):
                with languages.spoken_to(user.pk):
                    yield self._letter(adapter, user)

    def _letter(self, adapter: Any, user: User) -> Letter:
        key = f"{user_pk_to_url_str(user)}-{default_token_generator.make_token(user)}"
        context = {
            "password_reset_url": adapter.get_reset_password_from_key_url(key),
            "username": user.get_username(),
        }
        # to the address that the account has, not to the one that was typed
        mail = adapter.render_mail("account/email/password_reset_key", user.email, context)
        return Letter(user.email, str(mail.subject), str(mail.body))


def _has_password(user: User) -> bool:
    return user.has_usable_password() and may_use_password(user)
