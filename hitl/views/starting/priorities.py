"""The page on which an order's priority is changed."""

from __future__ import annotations

import uuid
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from checkpoints.database.people import User
from hitl.decisions import services
from hitl.forms.priorities import PriorityField
from hitl.http.errors import status_of
from hitl.views.common import person, posted
from runs.definitions import rights
from runs.services import InputInvalid, priorities
from runs.states import RunEnded


class PriorityForm(forms.Form):
    def __init__(self, *args: Any, by: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["priority"] = PriorityField(by, required=True)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def order_priority(request: HttpRequest, order_id: uuid.UUID) -> HttpResponse:
    """GET shows the form; only POST changes it."""
    user = person(request)
    order = services.find_order(order_id, by=user)
    may = priorities.may_change(order, user)
    form = PriorityForm(
        posted(request),
        by=user,
        initial={"priority": order.priority},
    )
    status = 200
    if request.method == "POST" and form.is_valid():
        try:
            priorities.change(order.pk, form.cleaned_data["priority"], by=user)
        except (InputInvalid, RunEnded, rights.Forbidden) as error:
            form.add_error(None, str(error))
            status = status_of(error)
        else:
            messages.success(request, gettext("The priority was changed."))
            return redirect("hitl:order", order.pk)
    elif form.errors:
        status = 422
    return render(
        request,
        "hitl/orders/order_priority.html",
        {"order": order, "form": form, "may": may},
        status=status,
    )
