"""Who answers for whom: one's own delegations, given and taken."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from checkpoints.database import clock
from checkpoints.database.people import User
from hitl.decisions.reviewers import delegations
from hitl.decisions.reviewers.delegations import DelegationRefused
from hitl.models import Delegation
from hitl.rendering import paging
from hitl.rendering.paging import ListAddress
from hitl.views.common import person, posted

SHOWN = 50
EARLIEST = paging.ListOrder("starts_at")


class DelegationForm(forms.Form):
    to_user = forms.ModelChoiceField(
        User.objects.none(),
        label=gettext_lazy("Who answers for you"),
        empty_label=gettext_lazy("Choose somebody of your teams"),
    )
    first = forms.DateField(
        label=gettext_lazy("From"), widget=forms.DateInput(attrs={"type": "date"})
    )
    last = forms.DateField(
        label=gettext_lazy("Until, that day included"),
        widget=forms.DateInput(attrs={"type": "date"}),
    )
    reason = forms.CharField(
        max_length=200,
        required=False,
        help_text=gettext_lazy("Such as holidays; your delegate and operators see it."),
        label=gettext_lazy("Reason"),
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["to_user"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = delegations.colleagues(user)

    def times(self) -> dict[str, dt.datetime]:
        """Whole days of the server's time zone."""
        zone = timezone.get_current_timezone()
        first, last = self.cleaned_data["first"], self.cleaned_data["last"]
        end = dt.datetime.combine(
            min(last, dt.date.max - dt.timedelta(days=2)) + dt.timedelta(days=1), dt.time(), zone
        )
        return {"starts_at": dt.datetime.combine(first, dt.time(), zone), "ends_at": end}


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def delegation_list(request: HttpRequest) -> HttpResponse:
    """What one has delegated, and for whom one answers; POST delegates."""
    user = person(request)
    form = DelegationForm(posted(request), user=user)
    if request.method == "POST" and form.is_valid() and _delegate(form, user):
        return redirect("hitl:delegations")
    now = clock.now()
    lasting = Delegation.objects.filter(ends_at__gt=now).select_related(
        "from_user", "to_user", "pause__run__parent"
    )
    here = ListAddress(request.path, request.GET.dict()).only("given", "taken")
    context = {
        "form": form,
        "now": now,
        "given": paging.in_order(
            lasting.filter(from_user=user), EARLIEST, here, "given", size=SHOWN
        ),
        "taken": paging.in_order(
            lasting.filter(to_user=user), EARLIEST, here, "taken", size=SHOWN, anchor="taken"
        ),
        "alone": not delegations.colleagues(user).exists(),
    }
    return render(
        request, "hitl/people/delegations.html", context, status=422 if form.errors else 200
    )


def _delegate(form: DelegationForm, user: User) -> bool:
    try:
        delegations.delegate(
            user,
            to_user=form.cleaned_data["to_user"],
            reason=form.cleaned_data["reason"],
            **form.times(),
        )
    except DelegationRefused as error:
        form.add_error(
            {"starts_at": "first", "ends_at": "last"}.get(error.field, error.field), str(error)
        )
    return not form.errors


@require_POST
@login_required
def delegation_end(request: HttpRequest, delegation_id: int) -> HttpResponse:
    user = person(request)
    if not Delegation.objects.filter(pk=delegation_id, from_user=user).exists():
        raise Http404(gettext("There is no such delegation."))
    delegations.end(delegation_id, by=user)
    messages.info(request, gettext("The delegation has ended. What was answered by it stays."))
    return redirect("hitl:delegations")
