"""The patch of a question, file by file: as much of it as a reader asks for, laid out as they
chose.
"""

from __future__ import annotations

import uuid

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from hitl.rendering.patches import sheets, written
from hitl.rendering.patches.drawing import Look
from hitl.rendering.patches.reading import ReadPatch
from hitl.views.cards.contents import patch_of
from hitl.views.common import find_pause, person, place_of

COOKIE = "patch_look"
MONTHS = 13 * 30 * 24 * 3600
CHOICES = {
    ("view", "unified"): {"split": False},
    ("view", "split"): {"split": True},
    ("wrap", "on"): {"wrap": True},
    ("wrap", "off"): {"wrap": False},
    ("spaces", "show"): {"spaces": True},
    ("spaces", "hide"): {"spaces": False},
}


def look_of(request: HttpRequest | None) -> Look:
    """How this browser's reader wishes to see patches; what the cookie says else is passed over."""
    kept = (request.COOKIES.get(COOKIE, "") if request is not None else "").split(".")
    return Look(split="split" in kept, wrap="cut" not in kept, spaces="hide" not in kept)


@require_POST
@login_required
def pause_look(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """Keep a choice in this browser, and go back to the question; what is no choice changes
    nothing.
    """
    pause, look = find_pause(pause_id, request), look_of(request)
    for choice, change in CHOICES.items():
        if request.POST.get(choice[0]) == choice[1]:
            look = look._replace(**change)
    words = {"split": look.split, "cut": not look.wrap, "hide": not look.spaces}
    response = redirect(f"{place_of(pause)}#patch")
    response.set_cookie(
        COOKIE,
        ".".join(word for word, on in words.items() if on),
        max_age=MONTHS,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return response


@require_safe
@login_required
def pause_files(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """All files of the patch, drawn whole; `?file=<number>` one of them, `&from=<line>` its next
    lines as a part of a page.
    """
    pause = find_pause(pause_id, request)
    patch, damage = patch_of(pause, person(request))
    if patch is None:
        raise Http404(damage or gettext("There is no such patch."))
    look, number, begin = look_of(request), _number(request, "file"), _number(request, "from")
    if "from" in request.GET:
        file = _next(patch, number, begin, look)
        return HttpResponse(written.rows(pause.pk, file))
    if number is not None and number >= len(patch.files):
        raise _no_such_lines()
    context = {
        "pause": pause,
        "patch": patch,
        "sheet": sheets.draw(patch, look, whole=True, only=number),
        "only": number,
        "after": _after(number, patch),
        "ticks": True,
        "home": place_of(pause),
    }
    return render(request, "hitl/changes/pause_files.html", context)


def _number(request: HttpRequest, name: str) -> int | None:
    """Raises Http404 for what is no number."""
    text = request.GET.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise _no_such_lines()
    return int(text)


def _after(number: int | None, patch: ReadPatch) -> int | None:
    """The number of the file behind one; None where there is none."""
    return number + 1 if number is not None and number + 1 < len(patch.files) else None


def _next(patch: ReadPatch, number: int | None, begin: int | None, look: Look) -> sheets.FileSheet:
    try:
        return sheets.go_on(patch, number or 0, begin or 0, look)
    except IndexError:
        raise _no_such_lines() from None


def _no_such_lines() -> Http404:
    return Http404(gettext("The patch has no such lines."))
