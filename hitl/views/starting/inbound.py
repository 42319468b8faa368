"""Messages from outside that start work: one's own, a new one, and what came."""

from __future__ import annotations

import uuid
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from checkpoints.database.people import User
from hitl.forms.priorities import PriorityField
from hitl.models import InboundStart, StartDelivery
from hitl.rendering import paging
from hitl.rendering.own_words import own
from hitl.rendering.paging import ListAddress
from hitl.views.common import person, posted
from hitl.wait_gate import starts
from runs.definitions import TemplateNotFound, rights
from runs.models import Template
from runs.services import InputInvalid

PAGE = 30
NEWEST = paging.ListOrder(newest=True, prefix=InboundStart.PREFIX)
LATEST = paging.ListOrder(newest=True, prefix=StartDelivery.PREFIX)


class StartForm(forms.Form):
    name = forms.SlugField(
        max_length=80,
        help_text=gettext_lazy("Part of its address: letters, digits, hyphens."),
        label=gettext_lazy("Name"),
    )
    template = forms.ChoiceField(choices=[], label=gettext_lazy("Template"))
    title = forms.CharField(
        max_length=200, required=False, label=gettext_lazy("Title of each order")
    )
    request = forms.CharField(
        max_length=20_000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        label=gettext_lazy("Request"),
    )
    request_pointer = forms.CharField(
        max_length=200,
        required=False,
        label=gettext_lazy("Path to the request"),
        help_text=gettext_lazy(
            "A JSON pointer such as /data/text; it comes before the words above."
        ),
    )
    mapping = forms.JSONField(
        required=False,
        initial=dict,
        label=gettext_lazy("Fields of the input"),
        help_text=gettext_lazy(
            'Each with a JSON pointer into the message: {"customer": "/data/customer/id"}'
        ),
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
    )
    input = forms.JSONField(
        required=False,
        initial=dict,
        label=gettext_lazy("Fields that are always the same"),
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
    )
    repository_url = forms.CharField(
        max_length=500, required=False, label=gettext_lazy("Repository")
    )

    def __init__(self, *args: Any, templates: list[Template], user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["priority"] = PriorityField(user)
        field = self.fields["template"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(one.slug, own(one.title)) for one in templates]

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        for name in ("mapping", "input"):
            values[name] = values.get(name) or {}
            if not isinstance(values[name], dict):
                self.add_error(
                    name, gettext('A JSON object, such as {"customer": "/data/customer/id"}.')
                )
        return values


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def start_list(request: HttpRequest) -> HttpResponse:
    """POST makes one, and shows its secret in the answer to just this request."""
    user = person(request)
    if request.method == "POST" and not user.has_perm(starts.ADD):
        raise PermissionDenied(starts.MAY_NOT)
    refused = rights.refusals(user)
    known = [one for one in Template.objects.current().order_by("slug") if one.slug not in refused]
    form, made = StartForm(posted(request), templates=known, user=user), {}
    if request.method == "POST" and form.is_valid():
        try:
            start, secret = starts.make(user, **form.cleaned_data)
        except starts.StartInvalid as error:
            form.add_error(error.field if error.field in form.fields else None, str(error))
        except (InputInvalid, TemplateNotFound, rights.NotPermitted) as error:
            form.add_error("template", str(error))
        else:
            made, form = {"made": start, "secret": secret}, StartForm(templates=known, user=user)
    return _shown(request, form, status=201 if made else 422 if form.errors else 200, **made)


def _shown(request: HttpRequest, form: StartForm, *, status: int, **made: Any) -> HttpResponse:
    here = ListAddress(request.path, request.GET.dict()).only("before")
    mine = InboundStart.objects.filter(source__user=person(request)).select_related("source")
    context = {"form": form, "page": paging.in_order(mine, NEWEST, here, "before", size=PAGE)}
    return render(request, "hitl/starts/starts.html", {**context, **made}, status=status)


@never_cache
@require_http_methods(["GET", "HEAD"])
@login_required
def start(request: HttpRequest, start_id: uuid.UUID) -> HttpResponse:
    """Its address, what it maps, and what came."""
    found = _mine(request, start_id)
    here = ListAddress(request.path, request.GET.dict()).only("before")
    came = paging.in_order(
        found.deliveries.select_related("order__latest_run"), LATEST, here, "before", size=PAGE
    )
    return render(request, "hitl/starts/start.html", {"start": found, "deliveries": came})


@never_cache
@require_POST
@login_required
def start_do(request: HttpRequest, start_id: uuid.UUID) -> HttpResponse:
    """Switch it, give it a new secret, or remove it."""
    found = _mine(request, start_id)
    match request.POST.get("do"):
        case "on" | "off" as wanted:
            starts.switch(found, on=wanted == "on")
            messages.success(
                request,
                gettext("%(found)s is switched %(wanted)s.")
                % {"found": found, "wanted": gettext(wanted)},
            )
        case "secret":
            secret = starts.rotate_secret(found)
            page = {"start": found, "deliveries": paging.ListPage[StartDelivery]([])}
            return render(request, "hitl/starts/start.html", {**page, "secret": secret})
        case "remove":
            starts.remove(found)
            messages.success(
                request,
                gettext("%(found)s was removed. Its work orders stay.") % {"found": found},
            )
            return redirect("hitl:starts")
    return redirect("hitl:start", found.pk)


def _mine(request: HttpRequest, start_id: uuid.UUID) -> InboundStart:
    mine = InboundStart.objects.filter(source__user=person(request))
    found = mine.select_related("source", "team").filter(pk=start_id).first()
    if found is None:
        raise Http404(gettext("You have no such inbound start."))
    return found
