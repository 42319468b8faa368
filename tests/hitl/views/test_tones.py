"""A state looks alike at every place: what a person or a rule ended is neutral, never red."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.template.loader import render_to_string
from django.test import Client
from django.utils import timezone

from checkpoints.admin.columns import STATES
from checkpoints.models import CheckpointStatus, Thread
from checkpoints.text import states
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.models.outbound import DeliveryStatus
from runs.models.schedules import OccurrenceStatus
from runs.states import Lifecycle, PauseStatus, RunStatus
from tests.conftest import drive, fresh, pause_of
from tests.worlds import lost_worker
from tests.worlds.deadlines import asked as asked
from tests.worlds.deadlines import fire

ROOT = Path(__file__).resolve().parents[3]
ALL = {
    str(state)
    for kind in (
        RunStatus,
        PauseStatus,
        CheckpointStatus,
        DeliveryStatus,
        OccurrenceStatus,
        Lifecycle,
    )
    for state in kind
}
RED = {"bad", "failed", "error"}
"""Classes that a style sheet colours red; a log's line, too."""
OF_ADMIN = re.compile(r"(?:bg|text)-red-\d+")
NO = re.compile(r'<div class="[^"]*!rounded-full[^"]*"\s+title="False">')
"""How the admin writes no."""
PLACES = (
    "/work-orders/",
    "/work-orders/{order}/",
    "/work-orders/{order}/picture",
    "/work-orders/{order}/why",
    "/threads/",
    "/threads/{thread}/history",
    "/decisions/",
    "/checkpoints/{head}/",
    "/admin/runs/run/",
    "/admin/runs/run/{run_key}/change/",
    "/admin/runs/pause/",
    "/admin/runs/workorder/",
    "/admin/checkpoints/checkpoint/",
    "/admin/checkpoints/thread/{thread_key}/change/",
    "/admin/hitl/decision/",
)


def test_only_what_went_wrong_is_red():
    assert {state for state in ALL if states.tone(state) == "bad"} == {"failed", "dead", "refused"}
    assert {states.tone("cancelled"), states.tone("expired")} == {"calm"}
    assert not {"cancel", "cancelled", "expired"} & STATES.keys(), "nor in the admin"


def test_no_template_and_no_style_sheet_gives_a_state_a_colour_of_its_own():
    """A page asks `tone`: what is said of a state twice is told two ways before long."""
    own = [
        f"{path.name}: {found}"
        for path in sorted((ROOT / "templates").rglob("*.html"))
        for found in re.findall(r'class="(?:status|mark|card)\b[^"]*"', path.read_text())
        if re.search(r"\{\{[^}]*(?:status|standing)\s*\}\}", found)
    ]
    rules = [
        f"{path.name}: {rule}"
        for path in sorted((ROOT / "static/css").glob("*.css"))
        for rule in path.read_text().splitlines()
        if re.match(r"[^{]*\.(?:status|mark)(?:\.|:is\()", rule)
        and re.search(rf"\b(?:{'|'.join(sorted(ALL))})\b", rule.partition("{")[0])
    ]
    assert (own, rules) == ([], [])


@pytest.fixture
def order_in(asked, make_order, ana):
    def make(state):
        if state == "failed":
            return drive(make_order("writing-fail"))
        if state == "completed":
            return drive(make_order("writing-quick"))
        if state in {"pending", "running"}:
            order = make_order("writing")
            if state == "running":
                lost_worker.claim(order.latest_run_id, now=timezone.now())
            return fresh(order)
        order = asked(deadline={"after": "PT1H"})
        if state == "cancelled":
            services.decide(pause_of(order).pk, Answer("cancel", Via.PAGE), by=ana)
        elif state == "expired":
            fire(pause_of(order).pk, now=timezone.now() + dt.timedelta(hours=2))
        return fresh(order)

    return make


@pytest.mark.django_db
@pytest.mark.parametrize("state", [str(state) for state in RunStatus])
def test_a_state_has_one_look_at_every_place(order_in, state):
    order = order_in(state)
    run = order.latest_run
    assert run.status == state
    client = Client()
    client.force_login(person_who_sees_all(order))
    ids = {
        "order": order.shown_id,
        "thread": order.thread.shown_id,
        "thread_key": order.thread_id,
        "run_key": run.pk,
        "head": order.thread.head.shown_id if order.thread.head else "",
    }
    red = {}
    for place in PLACES:
        if "{head}" in place and not ids["head"]:
            continue
        answer = client.get(place.format(**ids))
        assert answer.status_code == 200, place
        page = NO.sub("", answer.content.decode())
        page = page.partition("<main")[2] or page
        classes = {name for found in re.findall(r'class="([^"]*)"', page) for name in found.split()}
        if found := {name for name in classes if name in RED or OF_ADMIN.fullmatch(name)}:
            red[place] = found
    if state == "failed":
        shown = ("/work-orders/", "/work-orders/{order}/", "/work-orders/{order}/picture")
        admin = ("/admin/runs/run/", "/admin/runs/workorder/", "/admin/checkpoints/checkpoint/")
        assert {*shown, *admin, "/threads/{thread}/history"} <= red.keys()
    else:
        assert red == {}


@pytest.mark.parametrize("state", ["resumed", "completed", "failed", "cancelled", "expired"])
def test_the_card_of_a_threads_end_is_red_where_it_failed_alone(state):
    run = SimpleNamespace(status=state, error="What it says.")
    context = {"thread": Thread(), "run": run, "status": state, "may_resume": True}
    card = render_to_string("hitl/threads/_thread_status_card.html", context)
    assert f'class="card ended {states.tone(state)}"' in card
    assert ("bad" in states.tone(state)) == (state == "failed")


def person_who_sees_all(order):
    order.thread.owner.is_staff = order.thread.owner.is_superuser = True
    order.thread.owner.save()
    return order.thread.owner
