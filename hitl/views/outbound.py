"""What was sent to whom, and where people and teams want to be told."""

from __future__ import annotations

import uuid
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import Group
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from checkpoints.database.people import User
from hitl.channels import accounts, registry
from hitl.models import ChatAccount
from hitl.models.channels import service_choices
from hitl.models.outbound import (
    Channel,
    Delivery,
    DeliveryStatus,
    Endpoint,
    Occasion,
    channel_choices,
)
from hitl.outbound import endpoints, links, sending
from hitl.rendering import paging
from hitl.rendering.own_words import own
from hitl.rendering.paging import ListAddress
from hitl.views.common import person, posted
from runs.models import Template

PAGE = 50
NEWEST, OLDEST = (
    paging.ListOrder(newest=True, prefix=Delivery.PREFIX),
    paging.ListOrder(prefix=Endpoint.PREFIX),
)


@require_safe
@login_required
def deliveries(request: HttpRequest) -> HttpResponse:
    """Newest first; `?status=` narrows, `?before=<id>` gives the next page."""
    rows = Delivery.objects.visible_to(person(request)).shown()
    status = request.GET.get("status", "")
    if status in DeliveryStatus.values:
        rows = rows.filter(status=status)
    here = ListAddress(request.path, request.GET.dict()).only("status", "before")
    page = paging.in_order(rows, NEWEST, here, "before", size=PAGE)
    unsent = links.unsent(page.rows, by=person(request))
    context = {
        "deliveries": page.rows,
        "status": status,
        "statuses": DeliveryStatus.choices,
        "page": page,
    }
    response = render(request, "hitl/outbound/deliveries.html", {**context, "unsent": unsent})
    if unsent:
        response["Cache-Control"] = "no-store"  # each is as good as a password
    return response


@require_POST
@login_required
def again(request: HttpRequest, delivery_id: uuid.UUID) -> HttpResponse:
    """Send again what was given up, or failed and waits for its next try."""
    delivery = Delivery.objects.visible_to(person(request)).filter(pk=delivery_id).first()
    if delivery is None:
        raise Http404(gettext("There is no such message."))
    if sending.send_again(delivery):
        messages.success(request, gettext("It is sent again within seconds."))
    else:
        messages.info(request, gettext("Nothing holds it back, so nothing was changed."))
    return redirect("hitl:deliveries")


class EndpointForm(forms.Form):
    channel = forms.ChoiceField(label=gettext_lazy("How"), choices=[])
    target = forms.CharField(
        max_length=2000,
        required=False,
        label=gettext_lazy("Address"),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text=gettext_lazy(
            "A service's address such as discord://…, https://… of a webhook, or the id of a "
            "place for a chat with buttons. It is kept like a password and never shown again. "
            "Your own mail needs none."
        ),
    )
    name = forms.CharField(
        max_length=80,
        required=False,
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("What you call it."),
    )
    scope = forms.ChoiceField(label=gettext_lazy("For"), choices=[])
    occasions = forms.MultipleChoiceField(
        choices=[
            choice
            for choice in Occasion.choices
            if choice[0] not in {Occasion.TEST, Occasion.REPLIED, Occasion.ACCOUNT}
        ],
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label=gettext_lazy("When"),
        help_text=gettext_lazy(
            "If none is ticked: whatever is about a question. How orders end is told only where it "
            "is ticked."
        ),
    )
    templates = forms.MultipleChoiceField(
        choices=[],
        required=False,
        label=gettext_lazy("Of work by"),
        help_text=gettext_lazy("If none is chosen: by every template."),
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        teams = (
            Group.objects.all()
            if user.is_superuser
            else user.groups.all()
            if user.has_perm("hitl.add_endpoint")
            else Group.objects.none()
        )
        self.teams = {f"team:{team.pk}": team for team in teams.order_by("name")}
        choices = [
            ("me", gettext("Me")),
            *(
                (key, gettext("Team %(name)s") % {"name": team.name})
                for key, team in self.teams.items()
            ),
        ]
        self.choose(
            "scope",
            [*choices, *([("everybody", gettext("All questions"))] if user.is_superuser else [])],
        )
        wider = len(choices) > 1 or user.is_superuser
        offered = {Channel.WEBHOOK.value, Channel.APPRISE.value, Channel.EMAIL.value}
        offered |= {channel.name for channel in registry.posting()}
        self.choose(
            "channel",
            [(name, str(label)) for name, label in channel_choices() if name in offered][::-1],
        )
        if not wider:
            self.fields["scope"].widget = forms.HiddenInput()
            self.fields["scope"].initial = "me"

        slugs = Template.objects.current().order_by("title").values_list("slug", "title")
        self.choose("templates", [(slug, own(title)) for slug, title in slugs])

    def choose(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField | forms.MultipleChoiceField)
        field.choices = choices

    def make(self, by: User) -> tuple[Endpoint, str]:
        values = {
            name: self.cleaned_data[name]
            for name in ("channel", "target", "name", "occasions", "templates")
        }
        team = self.teams.get(self.cleaned_data["scope"])
        scope: Any = "team" if team else self.cleaned_data["scope"]
        return endpoints.make(by, scope=scope, team=team, **values)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def notifications(request: HttpRequest) -> HttpResponse:
    """Where a person, and the teams they look after, are told of questions; POST adds a place."""
    user = person(request)
    form = EndpointForm(posted(request), user=user)
    if request.method == "POST" and form.is_valid():
        try:
            endpoint, secret = form.make(user)
        except endpoints.EndpointInvalid as error:
            form.add_error(error.field if error.field in form.fields else None, str(error))
        except endpoints.NotYourEndpoint as error:
            form.add_error("scope", str(error))
        else:
            return _shown(
                request, user, EndpointForm(user=user), made=endpoint, secret=secret, status=201
            )
    return _shown(request, user, form, status=422 if form.errors else 200)


def _shown(
    request: HttpRequest, user: User, form: EndpointForm, *, status: int = 200, **made: Any
) -> HttpResponse:
    known = Endpoint.objects.managed_by(user).exclude(channel=Channel.EMAIL, owner__isnull=False)
    here = ListAddress(reverse("hitl:notifications"), request.GET.dict()).only("after")
    context = {
        "form": form,
        "endpoints": paging.in_order(
            known.select_related("owner", "team", "thread"), OLDEST, here, "after", size=PAGE
        ),
        "mail_is_on": endpoints.mail_is_on(user),
        "own_mail": endpoints.own_mail(user),
        "chats": service_choices(),
        "tests": Delivery.objects.filter(recipient=user, occasion=Occasion.TEST)
        .select_related("endpoint")
        .order_by("-id")[:5],
        **made,
    }
    response = render(request, "hitl/outbound/notifications.html", context, status=status)
    if made:
        response["Cache-Control"] = "no-store"  # it holds a secret
    return response


@require_POST
@login_required
def mail(request: HttpRequest) -> HttpResponse:
    """Switch one's own mail on or off, or try it."""
    user = person(request)
    if request.POST.get("do") == "test":
        _test(request, None)
    elif request.POST.get("do") == "questions":
        endpoints.tell_of_questions_alone(user)
    elif request.POST.get("do") in {"on", "off"}:
        endpoints.switch_mail(user, on=request.POST["do"] == "on")
        messages.success(
            request,
            gettext("You get mail again.")
            if request.POST["do"] == "on"
            else gettext("You get no more mail."),
        )
    return redirect("hitl:notifications")


@require_POST
@login_required
def change(request: HttpRequest, endpoint_id: uuid.UUID) -> HttpResponse:
    """Try, switch, remove an endpoint, or give it a new secret."""
    user = person(request)
    endpoint = Endpoint.objects.managed_by(user).filter(pk=endpoint_id).first()
    if endpoint is None:
        raise Http404(gettext("There is no such endpoint."))
    match request.POST.get("do"):
        case "test":
            _test(request, endpoint)
        case "on" | "off" as wanted:
            endpoints.switch(endpoint, on=wanted == "on")
            messages.success(
                request,
                gettext("%(endpoint)s is switched %(wanted)s.")
                % {"endpoint": endpoint, "wanted": gettext(wanted)},
            )
        case "remove":
            messages.success(
                request,
                gettext("%(endpoint)s was removed. What was not sent yet is not sent.")
                % {"endpoint": endpoint},
            )
            endpoint.delete()
        case "secret" if endpoint.channel == Channel.WEBHOOK:
            return _shown(
                request,
                user,
                EndpointForm(user=user),
                made=endpoint,
                secret=endpoints.rotate_secret(endpoint),
            )
    return redirect("hitl:notifications")


def _test(request: HttpRequest, endpoint: Endpoint | None) -> None:
    if endpoints.send_test(person(request), endpoint) is None:
        messages.info(request, gettext("A test is on its way already."))
    else:
        messages.success(
            request,
            gettext(
                "A test is on its way. What came of it shows below; load the page "
                "again in some seconds."
            ),
        )


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def chats(request: HttpRequest) -> HttpResponse:
    """The accounts that answer as this person; POST shows a code, or removes one.

    404 where no channel is switched on in which people connect one.
    """
    user = person(request)
    connecting = [channel for channel in registry.channels() if channel.connect]
    if not connecting:
        raise Http404(gettext("There are no chats here."))
    mine, code = ChatAccount.objects.filter(user=user).order_by("id"), ""
    if request.method == "POST" and request.POST.get("do") == "code":
        code = accounts.new_code(user)
    elif request.method == "POST":
        key = request.POST.get("account", "")
        if key.isdecimal() and len(key) < 18 and mine.filter(pk=int(key)).delete()[0]:
            messages.success(request, gettext("It no longer answers as you."))
        return redirect("hitl:chats")
    context = {
        "accounts": mine[: accounts.MOST],
        "code": code,
        "minutes": accounts.MINUTES,
        "channels": connecting,
    }
    response = render(request, "hitl/outbound/chats.html", context)
    response["Cache-Control"] = "no-store"  # it may hold a code
    return response
