"""One's own API tokens: for a program that acts as oneself."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from checkpoints.database import clock
from hitl.models import ApiToken
from hitl.rendering import paging
from hitl.rendering.paging import ListAddress
from hitl.views.common import person

MOST = 20
"""Tokens of one person that are valid at once."""
SHOWN = 50
NEWEST = paging.ListOrder(newest=True, prefix="tok")
DAYS = 90
"""For how long a token is valid unless somebody says otherwise."""


class TokenForm(forms.Form):
    name = forms.CharField(
        max_length=80, help_text="What will use it, such as the name of a script."
    )
    scope = forms.ChoiceField(
        choices=ApiToken.Scope.choices, initial=ApiToken.Scope.READ, label="What it may do"
    )
    days = forms.IntegerField(
        min_value=1, max_value=366, initial=DAYS, required=False, label="Valid for, in days"
    )
    never = forms.BooleanField(
        required=False,
        label="It never expires",
        help_text="It is valid until somebody revokes it. A number of days is safer.",
    )

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = self.cleaned_data
        if "days" in values and not values["days"] and not values.get("never"):
            self.add_error("days", "Say for how many days, or that it never expires.")
        return values

    def expires_at(self, now: dt.datetime) -> dt.datetime | None:
        return (
            None
            if self.cleaned_data["never"]
            else now + dt.timedelta(days=self.cleaned_data["days"])
        )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def token_list(request: HttpRequest) -> HttpResponse:
    """POST makes one, and shows its secret in the answer to just this request: it is kept
    nowhere.
    """
    user, now = person(request), clock.now()
    form = TokenForm(request.POST or None)
    secret, status = "", 200
    if request.method == "POST":
        if form.is_valid() and ApiToken.objects.valid(now=now).filter(user=user).count() >= MOST:
            form.add_error(None, f"You have {MOST} tokens that are valid. Revoke one first.")
        if form.is_valid():
            values = form.cleaned_data
            _, secret = ApiToken.make(
                user, name=values["name"], scope=values["scope"], expires_at=form.expires_at(now)
            )
            form = TokenForm()
        status = 201 if secret else 422
    here = ListAddress(request.path, request.GET.dict()).only("before")
    page = paging.in_order(ApiToken.objects.filter(user=user), NEWEST, here, "before", size=SHOWN)
    return render(
        request,
        "hitl/people/tokens.html",
        {"form": form, "rows": page.rows, "page": page, "secret": secret, "now": now},
        status=status,
    )


@require_POST
@login_required
def revoke(request: HttpRequest, token_id: uuid.UUID) -> HttpResponse:
    tokens = ApiToken.objects.filter(pk=token_id, user=person(request))
    if not tokens.exists():
        raise Http404("You have no such token.")
    if tokens.filter(revoked_at__isnull=True).update(revoked_at=clock.now()):
        messages.info(
            request, "The token is revoked. Programs that use it are refused from now on."
        )
    return redirect("hitl:tokens")
