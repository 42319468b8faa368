"""Who may have work stopped at its next step boundary, and let it go on: one rule at every door."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from hitl.decisions import services
from hitl.decisions.reviewers import policy
from hitl.decisions.services import Answer
from hitl.models import Comment, Decision, Mention, ServiceAccount, Via
from hitl.threads import messages
from runs import services as runs
from runs.models import Pause, Run
from runs.services.forks import ReasonMissing
from tests.conftest import drive, fresh, pause_of
from tests.databases.undone import undone
from tests.worlds import steps
from tests.worlds.people import give, group, person
from tests.worlds.ruled_order import browser, by_decisions, by_order, by_page, rest
from tests.worlds.ruled_order import ruled as ruled

pytestmark = pytest.mark.django_db

REVIEWERS = {"reviewers": {"users": ["cleo"], "groups": ["auditors"]}}
MAY = {
    "ana": "",  # owns it
    "ben": "",  # in its team
    "root": "",  # a superuser
    "cleo": "with a reason",  # has approved
    "otto": "with a reason",  # was asked
    "oli": "with a reason",  # an operator
    "mia": "not",  # her opinion was asked
    "vic": "not",  # may look at runs in the admin
    "zoe": "not",
}
ALLOWED = [who for who, may in MAY.items() if may != "not"]


@pytest.fixture
def people(ana: User, ben: User, zoe: User) -> dict[str, User]:
    cleo, otto, oli, mia, vic, bot = map(person, ("cleo", "otto", "oli", "mia", "vic", "bot"))
    root = person("root", is_superuser=True)
    for auditor in (otto, bot):
        auditor.groups.add(group("auditors"))
    ServiceAccount.objects.create(user=bot, purpose="asks")
    give(oli, "change_run")
    give(vic, "view_run")
    everybody = (ana, ben, root, cleo, otto, oli, mia, vic, bot, zoe)  # as they are now
    return {one.username: User.objects.get(pk=one.pk) for one in everybody}


@pytest.fixture
def order(ruled, people):
    """Approved by Cleo, and about to go on."""
    order = ruled(REVIEWERS)
    pause = pause_of(order)
    comment = Comment.objects.create(pause=pause, author=people["cleo"], by_name="cleo", text="?")
    Mention.objects.create(comment=comment, person=people["mia"], asked=True)
    services.decide(pause.pk, Answer("approve", Via.PAGE), by=people["cleo"])
    return fresh(order)


def of_page(by, order, reason):
    return browser(by).post(f"/work-orders/{order.shown_id}/suspend", {"reason": reason})


def of_order(by, order, reason):
    address = f"/api/v1/work-orders/{order.shown_id}/suspend"
    return rest(by).post(address, {"reason": reason}, format="json")


def of_run(by, order, reason):
    address = f"/api/v1/runs/{order.latest_run.shown_id}/suspend"
    return rest(by).post(address, {"reason": reason}, format="json")


def suspend_order(by, order, reason):
    services.suspend_order(order.pk, by=by, reason=reason)


def suspend_run(by, order, reason):
    messages.suspend(order.latest_run_id, by=by, reason=reason)


@pytest.mark.parametrize("door", [suspend_order, suspend_run])
def test_work_is_suspended_by_whoever_reviews_or_operates_it(order, people, subtests, door):
    for who in ALLOWED:
        with subtests.test(who=who), undone():
            by = people[who]
            if MAY[who]:
                with pytest.raises(ReasonMissing, match="Say why"):
                    door(by, order, "  ")
                assert not Run.objects.exclude(suspend_by="").exists()
            door(by, order, "the numbers\nlook wrong")
            steps.forget()
            stopped = drive(fresh(order))
            assert (stopped.phase, steps.CALLS[-1][0]) == ("suspended", "execute")
            name = by.get_full_name() or by.get_username()
            assert pause_of(stopped).question == f"Suspended by {name}: the numbers look wrong"


@pytest.mark.parametrize("door", [of_page, of_order, of_run])
def test_each_door_suspends_as_the_rule_says(order, people, door):
    for who, may in MAY.items():
        if may == "not" or (who, door) == ("oli", of_page):  # operators see no page of it
            assert door(people[who], order, "it looks wrong").status_code in {403, 404}, who
        elif may:
            refused = door(people[who], order, "  ")
            assert (refused.status_code, "Say why" in refused.content.decode()) == (422, True), who
    assert not Run.objects.exclude(suspend_by="").exists()
    by = people["cleo" if door == of_page else "oli"]
    assert door(by, order, "it looks\nwrong").status_code in {200, 302}
    assert pause_of(drive(fresh(order))).question == f"Suspended by {by}: it looks wrong"


def decide(by, pause, answer):
    return services.decide(pause.pk, answer, by=by)


def answer_order(by, pause, answer):
    return services.answer_order(pause.run.work_order_id, answer, by=by)


@pytest.mark.parametrize("door", [decide, answer_order])
def test_a_stop_is_let_go_on_by_the_same_and_ended_by_those_who_take_part(
    order, people, subtests, door
):
    runs.suspend(order.pk, by=people["ana"], reason="wait")
    drive(order)
    for who in ALLOWED:
        with subtests.test(who=who), undone():
            pause, by = pause_of(order), people[who]
            if MAY[who]:
                with pytest.raises(policy.NotAllowed):
                    door(by, pause, Answer("cancel", Via.REST, feedback="no"))
                assert pause_of(order).status == "open"
            decision = door(by, pause, Answer("approve", Via.REST, feedback="fine now"))
            assert (decision.decided_by, decision.feedback) == (by, "fine now")
            assert drive(fresh(order)).status == "completed"


@pytest.mark.parametrize("door", [by_page, by_decisions, by_order])
def test_each_door_lets_a_stop_go_on_as_the_rule_says(order, people, door):
    runs.suspend(order.pk, by=people["ana"], reason="wait")
    pause = pause_of(drive(order))
    for who, may in MAY.items():
        if may == "not" or (who, door) == ("oli", by_page):
            assert door(people[who], pause, "approve", "") not in {"decided", "voted"}, who
        elif may:
            assert door(people[who], pause, "cancel", "no") in {"403", "not_a_reviewer"}, who
    assert pause_of(order).status == "open"
    by = people["cleo" if door == by_page else "oli"]
    assert door(by, pause, "approve", "fine now") == "decided"
    assert Decision.objects.get(pause=pause).decided_by == by


def test_who_stopped_it_finds_the_stop_on_its_page(order, people):
    page = browser(people["cleo"])
    address = f"/work-orders/{order.shown_id}/"
    assert "Suspend after this step" in page.get(address).content.decode()
    assert 'name="reason"' in page.get(f"{address}suspend").content.decode()
    page.post(f"{address}suspend", {"reason": "wait <b>"})
    shown = page.get(address).content.decode()
    assert "as cleo asked." in shown
    assert "wait &lt;b&gt;" in shown
    drive(order)
    shown = page.get(address).content.decode()
    assert "Suspended by cleo: wait &lt;b&gt;" in shown
    pause = Pause.objects.open().get().shown_id
    assert rest(people["cleo"]).get(f"/api/v1/pauses/{pause}").status_code == 200
    nobody = browser(people["mia"]).get(address).content.decode()
    assert "Suspend after this step" not in nobody


def test_a_service_account_suspends_what_it_asked_for_alone(order, people):
    for right in ((), ("change_run",)):
        give(people["bot"], *right)
        bot = User.objects.get(username="bot")
        with pytest.raises(services.NotFound):
            services.suspend_order(order.pk, by=bot, reason="why not")


def test_an_operator_learns_nothing_of_the_work_by_stopping_it(order, people):
    Run.objects.update(input={"secret plan": 1})
    told = of_run(people["oli"], order, "maintenance").json()
    assert told["input"] == {}
    assert rest(people["oli"]).get(f"/api/v1/runs/{told['id']}").status_code == 404
    pause = pause_of(drive(order))
    assert rest(people["oli"]).get(f"/api/v1/pauses/{pause.shown_id}").status_code == 404


@pytest.mark.parametrize("reason", ["x" * 241, "x" * 5000])
def test_a_reason_that_does_not_fit_is_refused(order, people, reason):
    for door in (of_page, of_order, of_run):
        refused = door(people["ana"], order, reason)
        assert refused.status_code == 422
        assert "240" in refused.content.decode()
