"""One's own API tokens: for a program that acts as oneself."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.models import labels
from hitl.identity import service_accounts
from hitl.models import ApiToken
from hitl.outbound.links import absolute
from hitl.rendering import agent_hosts, paging
from hitl.rendering.paging import ListAddress
from hitl.views.common import person, posted

MOST = 20
"""Tokens of one person that are valid at once."""
SHOWN = 50
NEWEST = paging.ListOrder(newest=True, prefix="tok")
DAYS = 90
"""For how long a token is valid unless somebody says otherwise."""


class TokenForm(forms.Form):
    name = forms.CharField(
        max_length=80,
        help_text=gettext_lazy("What will use it, such as the name of a script."),
        label=gettext_lazy("Name"),
    )
    scope = forms.ChoiceField(
        choices=labels.in_words(ApiToken.Scope.choices),
        initial=ApiToken.Scope.READ,
        label=gettext_lazy("What it may do"),
    )
    days = forms.IntegerField(
        min_value=1,
        max_value=366,
        initial=DAYS,
        required=False,
        label=gettext_lazy("Valid for, in days"),
    )
    never = forms.BooleanField(
        required=False,
        label=gettext_lazy("It never expires"),
        help_text=gettext_lazy("It is valid until somebody revokes it. A number of days is safer."),
    )

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = self.cleaned_data
        if "days" in values and not values["days"] and not values.get("never"):
            self.add_error("days", gettext("Say for how many days, or that it never expires."))
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
    form = TokenForm(posted(request))
    secret, status = "", 200
    if request.method == "POST":
        secret = _make(form, user, now)
        form, status = (TokenForm(), 201) if secret else (form, 422)
    here = ListAddress(request.path, request.GET.dict()).only("before")
    page = paging.in_order(ApiToken.objects.filter(user=user), NEWEST, here, "before", size=SHOWN)
    return render(
        request,
        "hitl/people/tokens.html",
        {
            "form": form,
            "rows": page.rows,
            "page": page,
            "secret": secret,
            "now": now,
            "connects": settings.WAYSTATION_MCP,
            "accounts": service_accounts.overview(now=now)[:SHOWN] if user.is_superuser else [],
        },
        status=status,
    )


def _make(form: TokenForm, user: User, now: dt.datetime) -> str:
    """The secret of the token that a form asks for; "" where the form says why there is none."""
    if form.is_valid() and ApiToken.objects.valid(now=now).filter(user=user).count() >= MOST:
        form.add_error(
            None,
            gettext("You have %(most)s tokens that are valid. Revoke one first.") % {"most": MOST},
        )
    if not form.is_valid():
        return ""
    values = form.cleaned_data
    return ApiToken.make(
        user,
        name=values["name"],
        scope=values["scope"],
        expires_at=form.expires_at(now),
        made_by=user,
    )[1]


class AgentForm(TokenForm):
    """A token for an agent over MCP, and whom it asks."""

    scope = forms.ChoiceField(
        choices=[
            (ApiToken.Scope.ASK, gettext_lazy("An agent: it asks people, and never answers")),
            (
                ApiToken.Scope.ANSWER,
                gettext_lazy("My own assistant: it answers in my name what I am asked"),
            ),
        ],
        label=gettext_lazy("What it is"),
    )
    team = forms.ChoiceField(
        required=False,
        label=gettext_lazy("Whom it asks"),
        help_text=gettext_lazy("Members of the team may answer."),
    )
    field_order = ("name", "scope", "team", "days", "never")

    def __init__(self, user: User, data: Any = None) -> None:
        super().__init__(data)
        alone = settings.WAYSTATION_MCP_OWNER_DECIDES
        names = user.groups.order_by("name").values_list("name", flat=True)
        field: Any = self.fields["team"]
        field.choices = [
            ("", gettext("Me alone") if alone else gettext("Whomever the agent names")),
            *((name, name) for name in names),
        ]
        self.fields["name"].help_text = gettext("What people see as who asks, such as release-bot.")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def connect(request: HttpRequest) -> HttpResponse:
    """POST makes a token, and shows it within what goes into agents' hosts, in the answer to just
    this request.
    """
    if not settings.WAYSTATION_MCP:
        raise Http404(gettext("This server does not speak MCP."))
    user = person(request)
    form = AgentForm(user, posted(request))
    secret = _make(form, user, clock.now()) if request.method == "POST" else ""
    hosts = []
    if secret:
        team = form.cleaned_data["team"] if form.cleaned_data["scope"] == ApiToken.Scope.ASK else ""
        query = f"?{urlencode({'team': team})}" if team else ""
        hosts = agent_hosts.configurations(f"{absolute('/mcp')}{query}", secret)
    status = 200 if request.method != "POST" else 201 if secret else 422
    prompts = agent_hosts.CLAUDE_PROMPTS if secret else ""
    context = {"form": form, "secret": secret, "hosts": hosts, "prompts": prompts}
    return render(request, "hitl/people/connect.html", context, status=status)


@require_POST
@login_required
def revoke(request: HttpRequest, token_id: uuid.UUID) -> HttpResponse:
    tokens = ApiToken.objects.filter(pk=token_id, user=person(request))
    if not tokens.exists():
        raise Http404(gettext("You have no such token."))
    if tokens.filter(revoked_at__isnull=True).update(revoked_at=clock.now()):
        messages.info(
            request, gettext("The token is revoked. Programs that use it are refused from now on.")
        )
    return redirect("hitl:tokens")
