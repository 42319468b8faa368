"""The page on which a person connects their account to an identity provider, or takes that login
away.
"""

from __future__ import annotations

from functools import wraps
from typing import Any, cast

from allauth.socialaccount.models import SocialAccount
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from checkpoints.database.people import User
from hitl.http.logins import may_use_password
from project.identity import linking, proofs


def page(request: HttpRequest) -> HttpResponse:
    accounts = SocialAccount.objects.filter(user=cast(User, request.user)).order_by("pk")
    names = linking.served()
    rows = [(account, names.get(account.provider, account.provider)) for account in accounts]
    connected = {account.provider for account in accounts}
    others = {provider: name for provider, name in names.items() if provider not in connected}
    shown = {"rows": rows, "others": others, "key": _key(request)}
    return render(request, "identity/connections.html", shown)


def connecting(view: Any) -> Any:
    """Decorate the address that leads to a provider, to connect: it works from our own page alone,
    since another site might have logged the browser in there as somebody else. The page has a link
    and no form, since the content security policy lets no form lead to another host.
    """

    @login_required
    @wraps(view)
    def begin(request: HttpRequest) -> HttpResponse:
        if not constant_time_compare(request.GET.get("key", ""), _key(request)):
            return redirect("connections")
        return _unproven(request) or cast(HttpResponse, view(request))

    return begin


@require_POST
@login_required
def remove(request: HttpRequest, pk: int) -> HttpResponse:
    """Take a login by a provider away, unless nothing else opens the account."""
    user = cast(User, request.user)
    account = get_object_or_404(SocialAccount, pk=pk, user=user)
    others = SocialAccount.objects.filter(user=user, provider__in=linking.served()).exclude(pk=pk)
    if not others.exists() and not (user.has_usable_password() and may_use_password(user)):
        messages.error(request, _("Nothing else opens your account, so this login stays."))
    elif (answer := _unproven(request)) is not None:
        return answer
    else:
        linking.disconnect(request, account)
        messages.success(request, _("This login no longer opens your account."))
    return redirect("connections")


def _unproven(request: HttpRequest) -> HttpResponse | None:
    """Send a person away first who has not just proven who they are. They come back to our page and
    not to the provider, since the form for the proof may not lead on to another host either.
    """
    if proofs.proven(request):
        return None
    answer = proofs.to_prove(request, back="connections")
    if answer is None:
        messages.error(request, _("Log in once more, and do this within five minutes."))
    return answer or redirect("connections")


def _key(request: HttpRequest) -> str:
    """Make the key that the page's links carry; it holds for this session."""
    return salted_hmac("connections", request.session.session_key or "").hexdigest()
