"""Saved views: kept, renamed, shared with a team, and removed by whoever made them."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from django.contrib.auth.models import Group
from django.db import transaction
from django.urls import reverse
from django.utils.translation import gettext

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.text import invisible
from hitl.find import asking
from hitl.find.answers import ANSWERS
from hitl.find.asking import NotUnderstood
from hitl.find.lists import List
from hitl.find.orders import ORDERS
from hitl.find.questions import INBOX
from hitl.find.threads import THREADS
from hitl.models.people.saved_views import SavedView, SavedViewQuerySet
from runs import keyed, limits
from runs.workflows.refusals import FieldRefused

LISTS: dict[str, List] = {one.name: one for one in (INBOX, ORDERS, THREADS, ANSWERS)}
LONGEST_NAME = 80
OFFERED = 50
"""Views that the bar of a list names."""


class ViewInvalid(FieldRefused):
    """The view cannot be kept as it is given. Nothing was changed."""

    code = "view_invalid"


class NotYourView(Exception):
    """A view that a team shares is changed by whoever made it."""

    code = "not_your_view"

    def __init__(self, view: SavedView) -> None:
        super().__init__(
            gettext("%(owner)s made this view, and alone may change it. Nothing was done.")
            % {"owner": view.owner}
        )


def offered(user: User, name: str) -> list[SavedView]:
    """The views of a list that a person sees, by name."""
    return list(seen_by(user).filter(list=name).order_by("name", "pk")[:OFFERED])


def seen_by(user: User) -> SavedViewQuerySet:
    return SavedView.objects.visible_to(user).select_related("owner", "team")


def address_of(view: SavedView) -> str:
    """Where a view is looked at."""
    path = reverse(LISTS[view.list].address)
    return f"{path}?{view.query}" if view.query else path


def make(by: User, *, of_list: str, name: str, query: str, team: Group | None = None) -> SavedView:
    """Keep a view of a list. Raises ViewInvalid."""
    view = SavedView(owner=by, list=of_list)
    if of_list not in LISTS:
        raise ViewInvalid("list", gettext("One of %(values)s.") % {"values": ", ".join(LISTS)})
    _fill(view, by, {"name": name, "query": query, "team": team})
    with transaction.atomic(durable=True):
        User.objects.select_for_update(no_key=True).get(pk=by.pk)  # counts one after the other
        if SavedView.objects.filter(owner=by).count() >= limits.SAVED_VIEWS:
            raise ViewInvalid(
                "name",
                gettext("You have %(most)s, and may have no more. Remove one first.")
                % {"most": limits.SAVED_VIEWS},
            )
        _check_name(view)
        keyed.made(view.shown_id)
        view.save(force_insert=True)
    return view


def change(view: SavedView, by: User, **values: Any) -> SavedView:
    """Change `name`, `query` or `team` of one's own view. Raises NotYourView, ViewInvalid."""
    _check_own(view, by)
    _fill(view, by, values)
    with transaction.atomic(durable=True):
        User.objects.select_for_update(no_key=True).get(pk=by.pk)
        _check_name(view)
        keyed.made(view.shown_id)
        view.save(update_fields=["name", "query", "team"])
    return view


def remove(view: SavedView, by: User) -> None:
    """Remove one's own view; what it showed stays. Raises NotYourView."""
    _check_own(view, by)
    with transaction.atomic(durable=True):
        keyed.made(view.shown_id)
        view.delete()


def _check_own(view: SavedView, by: User) -> None:
    if view.owner_id != by.pk:
        raise NotYourView(view)


def _check_name(view: SavedView) -> None:
    """One after the other for a person, so that the constraint is never met."""
    same = SavedView.objects.filter(owner=view.owner_id, list=view.list, name=view.name)
    if same.exclude(pk=view.pk).exists():
        raise ViewInvalid("name", gettext("You have a view of this list with this name."))


def _fill(view: SavedView, by: User, values: dict[str, Any]) -> None:
    if "name" in values:
        name = " ".join(str(values["name"]).split())
        if not 0 < len(name) <= LONGEST_NAME or name != invisible.plain(name):
            raise ViewInvalid(
                "name",
                gettext("A name of 1 to %(longest)s visible characters.")
                % {"longest": LONGEST_NAME},
            )
        view.name = name
    if "query" in values:
        view.query = _canonical(LISTS[view.list], str(values["query"]))
    if "team" in values:
        team = values["team"]
        if team is not None and not by.groups.filter(pk=team.pk).exists():
            raise ViewInvalid("team", gettext("You are in no team of this name."))
        view.team = team


def _canonical(asked_of: List, query: str) -> str:
    """A query with what says something, in the list's own order."""
    try:
        given = parse_qs(query.removeprefix("?"), max_num_fields=50)
        asked = asking.read(given.items(), asked_of.parameters, now=clock.now())
    except NotUnderstood as error:
        raise ViewInvalid("query", str(error)) from error
    except ValueError as error:
        raise ViewInvalid("query", gettext("This is no query of an address.")) from error
    if len(asked.query) > MOST:
        raise ViewInvalid("query", gettext("Up to %(most)s characters.") % {"most": MOST})
    return asked.query


MOST = SavedView._meta.get_field("query").max_length or 0
"""Characters of a query."""
