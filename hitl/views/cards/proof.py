"""The page between an answer and its decision that asks for a second factor: all that was posted is
in it, to be sent again with a code or a passkey.

As the second look: with JavaScript its form is a dialog of the card (static/js/card.js).
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from hitl.identity import factors

FIELDS = ("factor_code", "factor_credential")


def wrong(request: HttpRequest) -> str:
    """Why the factor that was posted does not count; "" where it does, or none was."""
    kinds = factors.chosen()
    if kinds is None or not any(request.POST.get(name) for name in FIELDS):
        return ""
    return kinds.prove(request)


def show(request: HttpRequest, *, url: str, about: str, problem: str = "") -> HttpResponse:
    """Ask for it; `url` is where the answer goes to, `about` what the question is called."""
    kinds = factors.chosen()
    posted = [
        (name, value)
        for name, values in request.POST.lists()
        for value in values
        if name not in {"csrfmiddlewaretoken", *FIELDS}
    ]
    context = {
        "url": url,
        "about": about,
        "posted": posted,
        "problem": problem,
        "challenge": kinds.challenge(request) if kinds else None,
    }
    return render(request, "hitl/pauses/factor.html", context, status=403)
