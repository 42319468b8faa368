"""Single keys, which answer and move: each person has them or not."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext
from django.views.decorators.http import require_POST

from hitl.identity import keys
from hitl.views.common import person


@require_POST
@login_required
def switch(request: HttpRequest) -> HttpResponse:
    """Keep a person's choice, and go back to the page where it was made; no other word than `on`
    and `off` changes anything.
    """
    wanted = request.POST.get("single_keys")
    if wanted in {"on", "off"}:
        keys.switch(person(request), on=wanted == "on")
        messages.success(
            request,
            gettext("Keyboard shortcuts are on again.")
            if wanted == "on"
            else gettext("Keyboard shortcuts are off, in all your browsers."),
        )
    place = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(
        place, {request.get_host()}, require_https=request.is_secure()
    )
    return redirect(place if safe else "hitl:inbox")
