"""The pages of allauth that are served: no signing up, no lists of addresses."""

from collections.abc import Callable
from typing import Any, cast

from allauth.account import views as account
from allauth.account.internal.flows.reauthentication import get_reauthentication_flows
from allauth.mfa.base import views as factors
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes import views as codes
from allauth.mfa.totp import views as app
from allauth.mfa.utils import is_mfa_enabled
from allauth.mfa.webauthn import views as keys
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LogoutView
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import path
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from checkpoints.database.people import User
from project.identity import connections, oidc, saml
from project.identity.login import LoginView

login, logout = LoginView.as_view(), LogoutView.as_view()
page, form = require_safe, require_http_methods(["GET", "HEAD", "POST"])


@login_required
def reauthenticate_key(request: HttpRequest) -> HttpResponse:
    """allauth's page has nothing to say to who has no passkey."""
    if not is_mfa_enabled(cast(User, request.user), [Authenticator.Type.WEBAUTHN]):
        return redirect("mfa_reauthenticate")
    return cast(HttpResponse, keys.reauthenticate_webauthn(request))


@login_required
def change_password(request: HttpRequest) -> HttpResponse:
    """Who logs in by a provider has none here: allauth would send them to a page to set one."""
    if not cast(User, request.user).has_usable_password():
        messages.info(request, _("Your account has no password here: you log in another way."))
        return redirect("mfa_index")
    return cast(HttpResponse, account.password_change(request))


def confirming(view: Callable[..., HttpResponseBase]) -> Any:
    """A page on which somebody confirms who they are; who has neither password nor factor has
    nothing to confirm it by, and is asked for nothing.
    """

    @login_required
    def confirm(request: HttpRequest) -> HttpResponseBase:
        if not get_reauthentication_flows(cast(User, request.user)):
            return redirect("mfa_index")
        return view(request)

    return form(confirm)


def own(view: Callable[..., HttpResponseBase], served: Any = form) -> Any:
    """For whoever is logged in: allauth makes a session for all others before it sends them on."""
    return served(login_required(view))


urlpatterns = [
    path("login", login, name="login"),
    path("login", login, name="account_login"),  # as allauth calls it
    path("login/factor", form(factors.authenticate), name="mfa_authenticate"),
    path("login/closed", page(account.account_inactive), name="account_inactive"),
    path("login/elsewhere", oidc.login, name="oidc_login"),
    path("login/elsewhere/back", oidc.callback, name="oidc_callback"),
    path("login/elsewhere/ended", oidc.ended, name="oidc_ended"),
    path("login/saml", saml.login, name="saml_login"),
    path("login/saml/back", saml.back, name="saml_back"),
    path("login/saml/finish", saml.finish, name="saml_finish"),
    path("login/saml/metadata", saml.metadata, name="saml_metadata"),
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
    path("account/", own(factors.index, page), name="mfa_index"),
    path("account/password", form(change_password), name="account_change_password"),
    path("account/confirm", confirming(account.reauthenticate), name="account_reauthenticate"),
    path("account/confirm/code", confirming(factors.reauthenticate), name="mfa_reauthenticate"),
    path("account/confirm/key", confirming(reauthenticate_key), name="mfa_reauthenticate_webauthn"),
    path("account/elsewhere", own(connections.page, page), name="connections"),
    path("account/elsewhere/oidc", oidc.connect, name="oidc_connect"),
    path("account/elsewhere/saml", saml.connect, name="saml_connect"),
    path("account/elsewhere/<int:pk>/remove", connections.remove, name="connection_remove"),
    path("account/app", own(app.activate_totp), name="mfa_activate_totp"),
    path("account/app/remove", own(app.deactivate_totp), name="mfa_deactivate_totp"),
    path("account/codes", own(codes.view_recovery_codes, page), name="mfa_view_recovery_codes"),
    path(
        "account/codes/new",
        own(codes.generate_recovery_codes),
        name="mfa_generate_recovery_codes",
    ),
    path(
        "account/codes/file",
        own(codes.download_recovery_codes, page),
        name="mfa_download_recovery_codes",
    ),
    path("account/keys", own(keys.list_webauthn, page), name="mfa_list_webauthn"),
    path("account/keys/add", own(keys.add_webauthn), name="mfa_add_webauthn"),
    path("account/keys/<int:pk>/remove", own(keys.remove_webauthn), name="mfa_remove_webauthn"),
    path("account/keys/<int:pk>/name", own(keys.edit_webauthn), name="mfa_edit_webauthn"),
]
