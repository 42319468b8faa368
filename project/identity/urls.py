"""The pages of allauth that are served: no signing up, no lists of addresses."""

from typing import cast

from allauth.account import views as account
from allauth.mfa.base import views as factors
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes import views as codes
from allauth.mfa.totp import views as app
from allauth.mfa.utils import is_mfa_enabled
from allauth.mfa.webauthn import views as keys
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LogoutView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path
from django.views.decorators.http import require_http_methods, require_safe

from checkpoints.database.people import User
from project.identity import oidc
from project.identity.login import LoginView

login, logout = LoginView.as_view(), LogoutView.as_view()


@login_required
def reauthenticate_key(request: HttpRequest) -> HttpResponse:
    """allauth's page has nothing to say to who has no passkey."""
    if not is_mfa_enabled(cast(User, request.user), [Authenticator.Type.WEBAUTHN]):
        return redirect("mfa_reauthenticate")
    return cast(HttpResponse, keys.reauthenticate_webauthn(request))


page, form = require_safe, require_http_methods(["GET", "HEAD", "POST"])
urlpatterns = [
    path("login", login, name="login"),
    path("login", login, name="account_login"),  # as allauth calls it
    path("login/factor", form(factors.authenticate), name="mfa_authenticate"),
    path("login/closed", page(account.account_inactive), name="account_inactive"),
    path("login/elsewhere", oidc.login, name="oidc_login"),
    path("login/elsewhere/back", oidc.callback, name="oidc_callback"),
    path("logout", logout, name="logout"),
    path("logout", logout, name="account_logout"),
    path("password/forgotten", form(account.password_reset), name="account_reset_password"),
    path(
        "password/forgotten/sent",
        page(account.password_reset_done),
        name="account_reset_password_done",
    ),
    path(
        "password/forgotten/<str:uidb36>/<str:key>",
        form(account.password_reset_from_key),
        name="account_reset_password_from_key",
    ),
    path(
        "password/changed",
        page(account.password_reset_from_key_done),
        name="account_reset_password_from_key_done",
    ),
    path("account/", page(factors.index), name="mfa_index"),
    path("account/password", form(account.password_change), name="account_change_password"),
    path("account/confirm", form(account.reauthenticate), name="account_reauthenticate"),
    path("account/confirm/code", form(factors.reauthenticate), name="mfa_reauthenticate"),
    path("account/confirm/key", form(reauthenticate_key), name="mfa_reauthenticate_webauthn"),
    path("account/app", form(app.activate_totp), name="mfa_activate_totp"),
    path("account/app/remove", form(app.deactivate_totp), name="mfa_deactivate_totp"),
    path("account/codes", page(codes.view_recovery_codes), name="mfa_view_recovery_codes"),
    path(
        "account/codes/new",
        form(codes.generate_recovery_codes),
        name="mfa_generate_recovery_codes",
    ),
    path(
        "account/codes/file",
        page(codes.download_recovery_codes),
        name="mfa_download_recovery_codes",
    ),
    path("account/keys", page(keys.list_webauthn), name="mfa_list_webauthn"),
    path("account/keys/add", form(keys.add_webauthn), name="mfa_add_webauthn"),
    path("account/keys/<int:pk>/remove", form(keys.remove_webauthn), name="mfa_remove_webauthn"),
    path("account/keys/<int:pk>/name", form(keys.edit_webauthn), name="mfa_edit_webauthn"),
]
