"""Comments at a question, and handing it over, by forms of its card."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext
from django.views.decorators.http import require_POST

from hitl.decisions import services
from hitl.decisions.reviewers import policy
from hitl.decisions.reviewers.delegations import DelegationRefused
from hitl.decisions.talk import comments, handing_over, patches
from hitl.http.errors import status_of
from hitl.views.common import find_pause, person, place_of
from hitl.views.pauses.answers import show_again
from runs.services import PauseClosed


@require_POST
@login_required
def comment(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """Say something at a question; what cannot be kept is shown as unsent."""
    pause, text = find_pause(pause_id, request), request.POST.get("text", "")
    ask = request.POST.getlist("ask")
    try:
        comments.add(pause_id, text, by=person(request), ask=ask, about=_about(request))
    except (comments.CommentRefused, comments.TooManyComments, PauseClosed) as error:
        more = [(gettext("Your comment"), text)] if text.strip() else []
        return show_again(request, pause, status_of(error), problem=str(error), more=more)
    return redirect(f"{place_of(pause)}#said")


def _about(request: HttpRequest) -> comments.PatchLine | None:
    """The line of the patch that a comment is about. Raises CommentRefused for none."""
    path, line = request.POST.get("path", ""), request.POST.get("line", "")
    if not path:
        return None
    if not (line.isascii() and line.isdecimal() and len(line) < 10):
        raise comments.CommentRefused("line", gettext("Say which line it is about, as a number."))
    return comments.PatchLine(path, int(line), request.POST.get("side", "new"))


@require_POST
@login_required
def seen(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """Tick a file of the patch as seen; `file` holds its digest, and `:0` takes the tick back."""
    digest, _, on = request.POST.get("file", "").partition(":")
    pause = patches.tick(pause_id, digest, seen=on != "0", by=person(request))
    return redirect(f"{place_of(pause)}#patch")


@require_POST
@login_required
def comment_withdraw(request: HttpRequest, comment_id: uuid.UUID) -> HttpResponse:
    withdrawn = comments.withdraw(comment_id, by=person(request))
    messages.info(request, gettext("Your comment was taken back."))
    return redirect(f"{place_of(withdrawn.pause)}#said")


@require_POST
@login_required
def hand_over(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """Let a colleague answer in one's place; with `take_back`, answer oneself again."""
    pause, reason = find_pause(pause_id, request), request.POST.get("reason", "")
    if "take_back" in request.POST:
        handing_over.take_back(pause_id, by=person(request))
        return redirect(place_of(pause))
    to = request.POST.get("to", "")
    try:
        handing_over.hand_over(pause_id, by=person(request), to=to, reason=reason)
    except (DelegationRefused, policy.Refused, services.AlreadyAnswered, PauseClosed) as error:
        more = [(gettext("Why you hand it over"), reason)] if reason.strip() else []
        return show_again(request, pause, status_of(error), problem=str(error), more=more)
    messages.info(
        request, gettext("%(to)s was asked to answer in your place.") % {"to": to.strip()}
    )
    return redirect(place_of(pause))
