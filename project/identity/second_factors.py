"""The second factors of allauth, as `hitl.identity.factors` asks for them: codes of an
authenticator app, recovery codes, passkeys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from allauth.core import context
from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm
from allauth.mfa.models import Authenticator
from allauth.mfa.utils import is_mfa_enabled
from allauth.mfa.webauthn.forms import AuthenticateWebAuthnForm, ReauthenticateWebAuthnForm
from allauth.mfa.webauthn.internal import auth
from django import forms
from django.http import HttpRequest

from checkpoints.database.people import User
from hitl.identity import factors

MAIN = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)
"""Recovery codes stand in for these."""


class SecondFactors:
    def has_one(self, user: User) -> bool:
        return bool(is_mfa_enabled(user, MAIN))

    def challenge(self, request: HttpRequest) -> Mapping[str, Any] | None:
        user = cast(User, request.user)
        if not is_mfa_enabled(user, [Authenticator.Type.WEBAUTHN]):
            return None
        return {"request_options": auth.begin_authentication(user)}

    def prove(self, request: HttpRequest) -> str:
        code = request.POST.get("factor_code", "").strip()
        credential = request.POST.get("factor_credential", "")
        form: forms.Form = (
            ReauthenticateWebAuthnForm(user=request.user, data={"credential": credential})
            if credential
            else ReauthenticateForm(user=request.user, data={"code": code})
        )
        if not form.is_valid():
            return " ".join(str(text) for texts in form.errors.values() for text in texts)
        form.save()  # type: ignore[attr-defined]  # allauth's
        _note(form)
        return ""


class LoginForm(AuthenticateForm):
    def save(self) -> None:
        super().save()
        _note(self)


class LoginKeyForm(AuthenticateWebAuthnForm):
    def save(self) -> None:
        super().save()
        _note(self)


def _note(form: Any) -> None:
    """A factor that was proven counts for questions too."""
    authenticator = getattr(form, "authenticator", None) or form.cleaned_data["credential"]
    factors.note(context.request, form.user, str(authenticator.type))
