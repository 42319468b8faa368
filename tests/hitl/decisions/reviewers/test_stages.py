"""Reviews in stages: several groups of people are asked about one content, each in its turn."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from checkpoints.database import clock
from checkpoints.models import Event
from hitl.decisions import claims, notifications, services
from hitl.decisions.deadlines import outcomes
from hitl.decisions.reviewers import policy
from hitl.decisions.reviewers.outsiders import Outsider
from hitl.decisions.services import Answer
from hitl.models import Decision, Delegation, Via, Vote
from hitl.models.outbound import Delivery
from hitl.threads import export
from runs import services as runs
from runs.models import Pause
from tests.conftest import drive, fresh, pause_of, state_at_head
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.worlds.histories.whole_story import broken
from tests.worlds.mailing import relay
from tests.worlds.outsiders import browser as outside
from tests.worlds.outsiders import link_to, mails_to
from tests.worlds.people import group, person
from tests.worlds.ruled_order import browser, rest
from tests.worlds.ruled_order import ruled as ruled

pytestmark = pytest.mark.django_db

LEGAL = {"name": "legal", "reviewers": {"users": ["lea"], "groups": ["lawyers"]}}
FINANCE = {"name": "finance", "reviewers": {"users": ["fin"]}, "question": "Can we pay for it?"}
CFO = {
    "name": "cfo",
    "title": "Chief financial officer",
    "reviewers": {"users": ["carl"]},
    "after": ["legal", "finance"],
}
STAGES = {"stages": [LEGAL, FINANCE, CFO]}
ASKED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "legal": {
            "type": "object",
            "properties": {"clause": {"type": "string", "minLength": 1}},
            "required": ["clause"],
        },
        "cfo": {"type": "object", "properties": {"budget": {"type": "integer"}}},
    },
    "required": ["legal"],
}


@pytest.fixture
def now(db):
    return clock.now()


@pytest.fixture
def people(db):
    named = {name: person(name) for name in ("lea", "fin", "carl", "lou", "mia")}
    named["lou"].groups.add(group("lawyers"))
    return named


def answer(pause, action="approve", **more):
    more.setdefault("feedback", "because" if action == "revise" else "")
    return Answer(action, Via.REST, revision=pause.revision, **more)


def waits_for(people):
    return {name for name, one in people.items() if policy.waiting_for(one).exists()}


def refusal(pause, by, action="approve", **more):
    with pytest.raises((policy.Refused, services.AnswerInvalid)) as caught:
        services.decide(pause.pk, answer(pause, action, **more), by=by)
    return getattr(caught.value, "code", "")


@pytest.mark.both_databases
def test_each_stage_is_asked_in_its_turn_and_the_last_approval_lets_the_run_go_on(ruled, people):
    order = ruled(STAGES)
    pause = pause_of(order)
    assert waits_for(people) == {"lea", "lou", "fin"}
    assert isinstance(services.decide(pause.pk, answer(pause), by=people["fin"]), Vote)
    assert waits_for(people) == {"lea", "lou"}
    assert isinstance(services.decide(pause.pk, answer(pause), by=people["lou"]), Vote)
    assert (waits_for(people), fresh(order).status) == ({"carl"}, "paused")
    decision = services.decide(pause.pk, answer(pause), by=people["carl"])
    assert isinstance(decision, Decision)
    assert [vote.stage for vote in Vote.objects.order_by("pk")] == ["finance", "legal", "cfo"]
    assert sorted(decision.votes) == sorted(Vote.objects.values_list("digest", flat=True))
    assert drive(order).status == "completed"
    assert broken() == {}


def test_who_has_no_turn_is_told_why_with_a_code_that_stays(ruled, people, ben):
    pause = pause_of(ruled(STAGES))
    assert refusal(pause, ben) == "not_a_reviewer"
    for action in ("approve", "revise", "cancel", "skip"):
        assert refusal(pause, people["carl"], action) == "not_your_turn"
    services.decide(pause.pk, answer(pause), by=people["lea"])
    assert refusal(pause, people["lea"]) == "already_voted"
    assert refusal(pause, people["lou"]) == "stage_answered"
    assert refusal(pause, people["fin"], stage="legal") == "not_a_reviewer"
    assert refusal(pause, people["fin"], stage="leagl") == "unknown_stage"
    assert Vote.objects.count() == Pause.objects.get().approvals == 1


def test_the_refusals_reach_every_door_as_403_and_409(ruled, people, ben):
    pause = pause_of(ruled(STAGES))
    at, body = f"/api/v1/pauses/{pause.shown_id}/decisions", {"decision": "approve"}
    for who, status, code in (
        (ben, 403, "not_a_reviewer"),
        (people["carl"], 409, "not_your_turn"),
        (people["lea"], 202, None),
        (people["lou"], 409, "stage_answered"),
    ):
        response = rest(who).post(at, body, format="json")
        assert (response.status_code, response.json().get("code")) == (status, code)
    page = browser(people["carl"]).post(
        f"/pauses/{pause.shown_id}/decide", {"action": "approve", "revision": 1}
    )
    assert page.status_code == 409
    assert "It is not your turn yet" in page.content.decode()


def test_who_is_asked_at_several_stages_says_which_and_approves_at_one(ruled, people):
    rules = {"stages": [LEGAL, {**FINANCE, "reviewers": {"users": ["lea", "fin"]}}]}
    pause = pause_of(ruled(rules))
    assert refusal(pause, people["lea"]) == "stage_required"
    vote = services.decide(pause.pk, answer(pause, stage="finance"), by=people["lea"])
    assert vote.stage == "finance"
    assert refusal(pause, people["lea"], stage="legal") == "already_voted"
    assert not policy.waiting_for(people["lea"]).exists()


def test_who_is_asked_at_several_stages_chooses_one_on_the_card(ruled, people):
    rules = {"stages": [LEGAL, {**FINANCE, "reviewers": {"users": ["lea", "fin"]}}]}
    order = ruled(rules)
    page = browser(people["lea"]).get(f"/work-orders/{order.shown_id}/").content.decode()
    assert '<option value="finance">Finance</option>' in page
    assert '<input type="hidden" name="stage"' not in page
    posted = {"action": "approve", "revision": 1, "stage": "finance"}
    at = f"/pauses/{pause_of(order).shown_id}/decide"
    assert browser(people["lea"]).post(at, posted).status_code == 302
    assert Vote.objects.get().stage == "finance"


def test_each_stage_brings_data_of_its_own_which_join_the_state_under_its_name(ruled, people):
    order = ruled(STAGES, required_inputs=ASKED)
    pause = pause_of(order)
    assert refusal(pause, people["lea"]) == "input_invalid"
    assert refusal(pause, people["lea"], payload={"cfo": {"budget": 3}}) == "input_invalid"
    assert refusal(pause, people["fin"], payload={"legal": {"clause": "7"}}) == "input_unexpected"
    services.decide(pause.pk, answer(pause, payload={"legal": {"clause": "7b"}}), by=people["lea"])
    services.decide(pause.pk, answer(pause), by=people["fin"])
    decision = services.decide(
        pause.pk, answer(pause, payload={"cfo": {"budget": 90}}), by=people["carl"]
    )
    assert decision.payload == {"legal": {"clause": "7b"}, "cfo": {"budget": 90}}
    drive(order)
    state = state_at_head(order.thread_id)
    assert (state["legal"], state["cfo"]) == ({"clause": "7b"}, {"budget": 90})
    assert broken() == {}


def test_within_a_stage_the_others_confirm_the_data_of_the_first(ruled, people):
    rules = {"stages": [{**LEGAL, "quorum": 2}, FINANCE]}
    pause = pause_of(
        ruled(
            rules, required_inputs={**ASKED, "properties": {"legal": ASKED["properties"]["legal"]}}
        )
    )
    services.decide(pause.pk, answer(pause), by=people["fin"])
    services.decide(pause.pk, answer(pause, payload={"legal": {"clause": "7"}}), by=people["lea"])
    assert refusal(pause, people["lou"], payload={"legal": {"clause": "8"}}) == "vote_differs"
    decision = services.decide(pause.pk, answer(pause), by=people["lou"])
    assert decision.payload == {"legal": {"clause": "7"}}


def test_all_stages_approve_the_same_text_and_the_first_may_edit_it(ruled, people):
    pause = pause_of(ruled({**STAGES, "edits": True}))
    services.decide(pause.pk, answer(pause, edited_content="shorter"), by=people["lea"])
    assert refusal(pause, people["fin"], edited_content="longer") == "vote_differs"
    assert refusal(pause, people["fin"], "skip") == "vote_differs"
    services.decide(pause.pk, answer(pause), by=people["fin"])
    decision = services.decide(pause.pk, answer(pause), by=people["carl"])
    assert decision.edited_content == "shorter"


def test_a_revision_ends_all_stages_and_the_next_round_begins_with_the_first(ruled, people):
    order = ruled(STAGES)
    pause = pause_of(order)
    services.decide(pause.pk, answer(pause), by=people["lea"])
    decision = services.decide(pause.pk, answer(pause, "revise"), by=people["fin"])
    assert len(decision.votes) == 1, "the ledger names who had approved"
    with pytest.raises(services.AlreadyAnswered) as told:
        services.decide(pause.pk, answer(pause), by=people["carl"])
    assert "fin" in str(told.value)
    drive(order)
    again = pause_of(order)
    assert (again.revision, again.approvals, waits_for(people)) == (2, 0, {"lea", "lou", "fin"})
    assert broken() == {}


def test_who_approved_may_still_send_it_back_or_cancel(ruled, people):
    order = ruled(STAGES)
    pause = pause_of(order)
    services.decide(pause.pk, answer(pause), by=people["lea"])
    services.decide(pause.pk, answer(pause), by=people["fin"])
    decision = services.decide(pause.pk, answer(pause, "cancel"), by=people["lea"])
    assert (decision.action, len(decision.votes), fresh(order).status) == ("cancel", 2, "failed")
    assert waits_for(people) == set()
    assert broken() == {}


def test_the_requester_approves_at_no_stage_where_the_rules_forbid_it(ruled, people, ana):
    rules = {"stages": [{**LEGAL, "reviewers": {"users": ["ana", "lea"]}}, FINANCE]}
    pause = pause_of(ruled({**rules, "self_approval": False}))
    assert refusal(pause, ana) == "self_approval"
    assert not policy.waiting_for(ana).exists()
    assert services.decide(pause.pk, answer(pause, "cancel"), by=ana).action == "cancel"


def test_who_stands_in_for_a_reviewer_answers_at_their_stage(ruled, people, now):
    Delegation.objects.create(
        from_user=people["carl"],
        to_user=people["mia"],
        created_by=people["carl"],
        starts_at=now - timedelta(days=1),
        ends_at=now + timedelta(days=1),
    )
    pause = pause_of(ruled(STAGES))
    assert refusal(pause, people["mia"]) == "not_your_turn"
    assert "mia" not in waits_for(people)
    for name in ("lea", "fin"):
        services.decide(pause.pk, answer(pause), by=people[name])
    assert waits_for(people) == {"carl", "mia"}
    decision = services.decide(pause.pk, answer(pause), by=people["mia"])
    assert decision.on_behalf_of == people["carl"]
    assert broken() == {}


def test_whom_the_escalation_asks_answers_at_the_stage_that_is_open(ruled, people):
    pause = pause_of(ruled({**STAGES, "escalation": [{"after": "PT1H", "users": ["mia"]}]}))
    assert "mia" not in waits_for(people)
    Pause.objects.update(stage=1)
    assert "mia" in waits_for(people)
    assert refusal(pause, people["mia"]) == "stage_required"
    assert (
        services.decide(pause.pk, answer(pause, stage="legal"), by=people["mia"]).stage == "legal"
    )


def test_a_review_in_stages_is_not_claimed(ruled, people):
    pause = pause_of(ruled(STAGES))
    with pytest.raises(policy.NotAllowed) as caught:
        claims.claim(pause.pk, by=people["lea"])
    assert caught.value.code == "not_claimable"


def test_an_expiry_in_the_second_stage_ends_the_run_and_keeps_who_had_approved(ruled, people, now):
    order = ruled({**STAGES, "deadline": {"after": "PT1H"}})
    pause = pause_of(order)
    for name in ("lea", "fin"):
        services.decide(pause.pk, answer(pause), by=people[name])
    Pause.objects.update(deadline_at=now - timedelta(minutes=1), next_at=now)
    with pytest.raises(services.DeadlinePassed):
        services.decide(pause.pk, answer(pause), by=people["carl"])
    assert outcomes.meet(Pause.objects.filter(pk=pause.pk)) == ""
    pause.refresh_from_db()
    assert (pause.status, pause.approvals, fresh(order).status) == ("expired", 2, "failed")
    assert broken() == {}
    runs.retry(order.pk, by=order.created_by)
    again = pause_of(order)
    assert (again.approvals, waits_for(people)) == (0, {"lea", "lou", "fin"})


def test_the_next_stage_is_told_when_its_turn_begins(ruled, people, now):
    for name, one in people.items():
        one.email = f"{name}@example.org"
        one.save()
    pause = pause_of(ruled(STAGES))
    notifications.announce()

    def told():
        return set(Delivery.objects.values_list("recipient__username", flat=True))

    assert told() == {"lea", "lou", "fin"}
    services.decide(pause.pk, answer(pause), by=people["lea"])
    assert told() == {"lea", "lou", "fin"}
    services.decide(pause.pk, answer(pause), by=people["fin"])
    assert told() == {"lea", "lou", "fin", "carl"}
    relay()
    (mail,) = mails_to("carl@example.org")
    assert "You are asked for: Chief financial officer." in mail.body
    (mail,) = mails_to("fin@example.org")
    event = Event.objects.filter(kind="pause_updated").order_by("seq").last()
    assert (event.data["review_stage"], event.data["begun"]) == ("finance", ["cfo"])


def test_the_api_tells_each_stage_and_what_it_asks(ruled, people):
    pause = pause_of(ruled(STAGES, required_inputs=ASKED))
    services.decide(pause.pk, answer(pause, payload={"legal": {"clause": "7"}}), by=people["lea"])
    review = rest(people["fin"]).get(f"/api/v1/pauses/{pause.shown_id}").json()["review"]
    assert [(stage["name"], stage["status"]) for stage in review["stages"]] == [
        ("legal", "complete"),
        ("finance", "open"),
        ("cfo", "waiting"),
    ]
    assert (review["stage"], review["quorum"]) == ("finance", 3)
    assert review["stages"][2]["required_inputs"]["properties"].keys() == {"cfo"}
    assert review["votes"][0]["stage"] == "legal"
    theirs = rest(people["carl"]).get(f"/api/v1/pauses/{pause.shown_id}").json()["review"]
    assert (theirs["stage"], theirs["why_not"]["approve"]["code"]) == ("", "not_your_turn")


def test_the_card_shows_the_stages_and_posts_the_one_that_was_looked_at(ruled, people):
    order = ruled(STAGES, required_inputs=ASKED)
    pause = pause_of(order)
    page = browser(people["lea"]).get(f"/work-orders/{order.shown_id}/").content.decode()
    assert '<input type="hidden" name="stage" value="legal">' in page
    assert "waits for Legal and Finance" in page
    assert "clause" in page.lower()
    assert "budget" not in page.lower()
    posted = {"action": "approve", "revision": 1, "stage": "legal"}
    at = f"/pauses/{pause.shown_id}/decide"
    assert browser(people["lea"]).post(at, posted).status_code == 422
    field = next(
        part.split('"')[0] for part in page.split('name="')[1:] if "clause" in part.split('"')[0]
    )
    assert browser(people["lea"]).post(at, {**posted, field: "7b"}).status_code == 302
    assert Vote.objects.get().payload == {"legal": {"clause": "7b"}}
    late = browser(people["lou"]).post(at, {**posted, field: "9"})
    assert (late.status_code, "Legal has approved already" in late.content.decode()) == (409, True)


def test_the_inbox_says_which_stage_is_asked(ruled, people):
    pause = pause_of(ruled(STAGES))
    assert "· stage Legal and Finance" in browser(people["fin"]).get("/").content.decode()
    for name in ("lea", "fin"):
        services.decide(pause.pk, answer(pause), by=people[name])
    assert "· stage Chief financial officer" in browser(people["carl"]).get("/").content.decode()


def test_an_export_names_the_stage_of_each_vote(ruled, people):
    order = ruled(STAGES)
    pause = pause_of(order)
    services.decide(pause.pk, answer(pause), by=people["lea"])
    document = export.export(order.thread_id)
    assert [vote["stage"] for vote in document["pauses"][0]["votes"]] == ["legal"]


@pytest.mark.usefixtures("unguarded")
def test_votes_that_complete_no_stage_make_no_approval_whoever_wrote_the_decision(ruled, people):
    """P6: three votes of one stage are not one of each."""
    order = ruled(STAGES)
    pause = pause_of(order)
    for name in ("lea", "fin", "carl"):
        services.decide(pause.pk, answer(pause), by=people[name])
    Vote.objects.filter(stage="cfo").update(stage="legal")
    assert {"approved_without_its_stages", "approved_by_nobody"} <= set(broken())


def test_a_turn_that_the_votes_do_not_give_is_found(ruled, people):
    ruled(STAGES)
    assert broken() == {}
    Pause.objects.update(turn=4)
    assert "turn_of_nobody" in broken()


@pytest.fixture
def two_at_once(file_database, people):
    return people


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_two_last_stages_at_once_close_the_question_once(ruled, two_at_once):
    people = two_at_once
    order = ruled({"stages": [LEGAL, FINANCE]})
    pause = pause_of(order)
    results = at_once(
        *(partial(services.decide, pause.pk, answer(pause), by=people[n]) for n in ("lea", "fin"))
    )
    assert sorted(type(result).__name__ for result in results) == ["Decision", "Vote"]
    assert Pause.objects.get().approvals == 2
    assert drive(order).status == "completed"
    assert broken() == {}


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_of_two_of_one_stage_at_once_one_counts(ruled, two_at_once):
    people = two_at_once
    order = ruled({"stages": [LEGAL, FINANCE]})
    pause = pause_of(order)
    results = at_once(
        *(partial(services.decide, pause.pk, answer(pause), by=people[n]) for n in ("lea", "lou"))
    )
    assert sorted(type(result).__name__ for result in results) == ["NotNow", "Vote"]
    assert (Pause.objects.get().approvals, fresh(order).status) == (1, "paused")
    assert broken() == {}


SUPPLIER = "supplier@example.org"
OUTSIDE = {
    "stages": [
        LEGAL,
        {"name": "supplier", "external": [SUPPLIER], "after": ["legal"]},
    ]
}


def test_somebody_without_an_account_is_asked_when_the_turn_of_their_stage_comes(ruled, people):
    order = ruled(OUTSIDE)
    pause = pause_of(order)
    notifications.announce()
    relay()
    assert not Delivery.objects.filter(place__startswith="mail:").exists()
    assert refusal(pause, Outsider(SUPPLIER)) == "not_your_turn"
    services.decide(pause.pk, answer(pause), by=people["lea"])
    relay()
    page = link_to(SUPPLIER)
    posted = {"action": "approve", "me": "yes"}
    assert outside().get(page).status_code == 200
    assert outside().post(page, posted).status_code == 200
    assert [vote.stage for vote in Vote.objects.order_by("pk")] == ["legal", "supplier"]
    assert drive(order).status == "completed"
    assert broken() == {}
