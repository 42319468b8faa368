"""A list tells of each question what reading it alone tells, though it reads and judges what is
alike once.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from checkpoints.database import clock
from hitl.api.pauses import questions
from hitl.api.pauses.fields import DecisionOut
from hitl.api.pauses.reviews import Reviews, review_of
from hitl.decisions import claims, services
from hitl.decisions.reviewers import policy
from hitl.decisions.services import Answer
from hitl.decisions.talk import handing_over
from hitl.models import Decision, Delegation, Via
from runs.api.fields import TellsQuickly
from runs.models import Pause
from tests.conftest import pause_of
from tests.worlds.people import group, person
from tests.worlds.ruled_order import rest
from tests.worlds.ruled_order import ruled as ruled

pytestmark = pytest.mark.django_db

STAGES = {
    "stages": [
        {"name": "legal", "reviewers": {"users": ["cleo"], "groups": ["auditors"]}},
        {"name": "finance", "reviewers": {"users": ["ben"]}, "after": ["legal"]},
    ]
}
RULES = [
    {},
    {"self_approval": False},
    {"reason_required": ["cancel"]},
    {"deadline": {"after": "P2D"}},
    {"reviewers": {"users": ["cleo"], "groups": ["auditors"]}},
    {"reviewers": {"users": ["ben", "ana"]}, "self_approval": False},
    {"quorum": 2},
    {"escalation": [{"after": "P1D", "users": ["cleo"]}]},
    STAGES,
]


@pytest.fixture
def people(ana: User, ben: User, zoe: User) -> list[User]:
    otto = User.objects.create_user("otto")
    otto.groups.add(group("auditors"))
    return [ana, ben, zoe, person("cleo"), otto, User.objects.create_superuser("root")]


@pytest.fixture
def asked(ruled, people: list[User]) -> list[Pause]:
    """Questions of all kinds, some of them twice, asked by Ana and by Ben, and what has become of
    them.
    """
    ana, ben, zoe, cleo, *_ = people
    pauses = [pause_of(ruled(rules, order={"by": by})) for rules in RULES for by in (ana, ben, ben)]
    of = {(at // 3, at % 3): pause for at, pause in enumerate(pauses)}
    now = timezone.now()
    for to_user, only in ((zoe, None), (cleo, of[1, 1])):
        Delegation.objects.create(
            from_user=ben,
            to_user=to_user,
            pause=only,
            starts_at=now - dt.timedelta(hours=1),
            ends_at=now + dt.timedelta(hours=1),
            created_by=ben,
        )
    handing_over.hand_over(of[0, 1].pk, to="ana", reason="away", by=ben)
    claims.claim(of[0, 2].pk, by=ana)
    Pause.objects.filter(review__contains="escalation").update(stage=1)
    Pause.objects.filter(pk=of[2, 1].pk).update(outside={"to": ["x@example.org"]})
    for at, by, action in (
        ((6, 0), ben, "approve"),
        ((8, 0), cleo, "approve"),
        ((2, 0), ben, "approve"),
        ((3, 2), ana, "cancel"),
    ):
        services.decide(of[at].pk, Answer(action, Via.PAGE), by=by)
    return pauses


@pytest.mark.both_databases
def test_a_list_tells_of_each_question_what_reading_it_alone_tells(
    asked, people, ben, django_assert_max_num_queries
):
    """F9, S4-13: who may answer, and why others may not, whatever was read for all together; with
    more rows it asks no more.
    """
    for by in people:
        client, alone = rest(by), {}
        for query in ("open=1", "limit=200", "open=1&whose=asked", "whose=own", "whose=team"):
            rows = client.get(f"/api/v1/pauses?{query}").json()["results"]
            for row in rows:
                if row["id"] not in alone:
                    alone[row["id"]] = client.get(f"/api/v1/pauses/{row['id']}").json()
                assert list(row.items()) == list(alone[row["id"]].items()), (by, query)
        assert len(alone) >= (3 if by.username in {"cleo", "otto"} else len(RULES)), by
    client = rest(ben)
    few = client.get("/api/v1/pauses?open=1&limit=3")
    with django_assert_max_num_queries(14):
        many = client.get("/api/v1/pauses?open=1&limit=50")
    assert len(few.json()["results"]) == 3 < len(many.json()["results"])


@pytest.mark.one_database
def test_what_is_alike_for_one_person_is_not_for_another(ruled, people):
    """F9: questions alike in all but who asked, of whom some may be answered by who looks."""
    pauses = [pause_of(ruled({}, order={"by": by, "team": None})) for by in [*people, *people[:3]]]
    listed = questions._shown([pause.pk for pause in pauses])
    for by in people:
        seats = policy.seats_of(by, now=clock.now())
        alike = Reviews(by, seats)
        told = [alike.of(pause) for pause in listed]
        assert told == [review_of(pause, by, seats) for pause in listed], by
        assert len({pause["why_not"] == {} for pause in told}) == (1 if by.is_superuser else 2)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kolkata"])
@pytest.mark.both_databases
def test_moments_are_told_in_the_time_zone_of_the_request(ruled, ben, zone):
    """Found out with the first row, they must not stay in that one's time zone."""
    services.decide(pause_of(ruled({})).pk, Answer("approve", Via.PAGE), by=ben)
    decision = Decision.objects.select_related("pause").get()
    decision.early_at = dt.datetime(2026, 3, 29, 1, 30, 0, 7, tzinfo=dt.UTC)
    with timezone.override(zone):
        quick: Any = DecisionOut(decision)
        usual = super(TellsQuickly, quick).to_representation(decision)
        assert list(quick.data.items()) == list(usual.items())
        assert quick.data["early_at"].endswith("Z") == (zone == "UTC")
