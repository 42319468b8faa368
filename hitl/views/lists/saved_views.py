"""Saved views: kept from the bar of a list, and looked after on a page of their own."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import Group
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST

from hitl.find import saved
from hitl.find.saved import NotYourView, ViewInvalid
from hitl.http.errors import status_of
from hitl.models import SavedView
from hitl.rendering import paging
from hitl.rendering.paging import ListAddress
from hitl.views.common import person

PAGE = 50
BY_AGE = paging.ListOrder(newest=True, prefix=SavedView.PREFIX)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def views(request: HttpRequest) -> HttpResponse:
    """One's own views and those of one's teams; POST keeps another one and shows it."""
    if request.method != "POST":
        return _page(request)
    user, given = person(request), request.POST
    try:
        view = saved.make(
            user,
            of_list=given.get("list", ""),
            name=given.get("name", ""),
            query=given.get("query", ""),
            team=_team(request),
        )
    except ViewInvalid as error:
        return _page(request, error)
    messages.success(request, gettext("“%(view)s” is kept among your views.") % {"view": view})
    return redirect(saved.address_of(view))


@require_POST
@login_required
def view_do(request: HttpRequest, view_id: uuid.UUID) -> HttpResponse:
    """Rename and share one's own view, or remove it."""
    user = person(request)
    view = saved.seen_by(user).filter(pk=view_id).first()
    if view is None:
        raise Http404(gettext("There is no such view."))
    try:
        if request.POST.get("do") == "remove":
            saved.remove(view, user)
            messages.success(
                request, gettext("“%(view)s” was removed. What it showed stays.") % {"view": view}
            )
        else:
            saved.change(view, user, name=request.POST.get("name", ""), team=_team(request))
            messages.success(request, gettext("“%(view)s” was changed.") % {"view": view})
    except (ViewInvalid, NotYourView) as error:
        return _page(request, error)
    return redirect("hitl:views")


def _team(request: HttpRequest) -> Group | None:
    """The team that a view is shared with. Raises ViewInvalid."""
    key = request.POST.get("team", "")
    if not key:
        return None
    own = {str(team.pk): team for team in person(request).groups.all()}
    if (team := own.get(key)) is None:
        raise ViewInvalid("team", gettext("You are in no such team."))
    return team


def _page(request: HttpRequest, problem: ViewInvalid | NotYourView | None = None) -> HttpResponse:
    user = person(request)
    here = ListAddress(request.path, request.GET.dict()).only("before")
    page = paging.in_order(saved.seen_by(user), BY_AGE, here, "before", size=PAGE)
    context = {
        "page": page,
        "own": [_shown(view) for view in page.rows if view.owner_id == user.pk],
        "shared": [_shown(view) for view in page.rows if view.owner_id != user.pk],
        "teams": list(user.groups.order_by("name")),
        "problem": problem,
        "typed": request.POST,
    }
    status = status_of(problem) if problem else 200
    return render(request, "hitl/lists/views.html", context, status=status)


def _shown(view: SavedView) -> dict[str, object]:
    return {"view": view, "address": saved.address_of(view)}
