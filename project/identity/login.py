"""The page to log in: a name and a password, then a second factor where the account has one."""

from __future__ import annotations

from typing import Any

from allauth.account.utils import perform_login
from django.conf import settings
from django.contrib.auth import views
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

from checkpoints.database.people import User
from project.identity import linking


class LoginView(views.LoginView):
    """Django's own view. axes counts its failures (`hitl.http.logins`); a person who has proven the
    password goes on through allauth's stages, of which the second factor is one.
    """

    redirect_authenticated_user = True

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        elsewhere = [
            (reverse(f"{provider}_login"), name) for provider, name in linking.served().items()
        ]
        passwords = settings.WAYSTATION_PASSWORDS == "everyone"
        return {**super().get_context_data(**more), "elsewhere": elsewhere, "passwords": passwords}

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        response: HttpResponse = perform_login(
            self.request, form.get_user(), redirect_url=self.get_success_url()
        )
        return response


def of_admin(request: HttpRequest) -> HttpResponse:
    """Send on to the one login page: the admin's own login asks for no second factor."""
    if isinstance(request.user, User) and request.user.is_staff:
        return redirect("admin:index")
    if request.user.is_authenticated:
        raise PermissionDenied
    target = request.GET.get("next") or reverse("admin:index")
    return redirect(f"{reverse('login')}?{urlencode({'next': target})}")
