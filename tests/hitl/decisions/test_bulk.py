"""Several questions at once, with brakes: S4's inbox, F5, F24."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from checkpoints import ids
from hitl.decisions import bulk, services
from hitl.decisions.services import Answer
from hitl.models import Decision, Via
from runs import definitions
from runs.models import Pause, Template
from runs.workflows.base import Ask, Done, Report
from tests.conftest import drive, fresh, pause_of
from tests.databases.undone import undone
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db


@pytest.fixture
def risky(templates):
    """Templates like the usual one, whose plans are of some risk, or want a reason."""

    def make(name, **review):
        first, *others = Template.objects.current().get(slug="writing").steps
        definitions.edit_template(
            name,
            steps=[{**first, "review": review}, *others],
            title=name.title(),
            needs_repository=False,
        )
        return name

    return make


@pytest.fixture
def waiting(make_order):
    return [drive(make_order()), drive(make_order())]


def asks_for_a_name(state, context):
    if state.get("name"):
        return Done()
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return Ask(
        question="Who?",
        answers={"approve": context.step},
        report=Report(content=""),
        phase="who",
        required_inputs=schema,
    )


def chosen(*orders):
    return [bulk.Chosen(pause_of(order).pk, pause_of(order).revision) for order in orders]


def codes(results):
    return [result.code for result in results]


def test_each_is_answered_by_itself(waiting, ben):
    results = bulk.decide(chosen(*waiting), Answer("approve", Via.PAGE), by=ben)
    assert codes(results) == ["", ""]
    assert [fresh(order).latest_run.status for order in waiting] == ["pending", "pending"]
    assert Decision.objects.filter(decided_by=ben, action="approve", via="page").count() == 2


def test_one_that_is_refused_stops_none_of_the_others(waiting, make_order, ana, ben, zoe):
    """Answered or changed meanwhile, out of sight, not there."""
    answered, changed, hidden = (
        drive(make_order()),
        drive(make_order()),
        drive(make_order(by=zoe, team=None)),
    )
    wanted = [*chosen(answered, changed, hidden), bulk.Chosen(ids.new(), 1), *chosen(*waiting)]
    services.decide(pause_of(answered).pk, Answer("approve", Via.PAGE), by=ana)
    Pause.objects.filter(pk=wanted[1][0]).update(revision=2)
    results = bulk.decide(wanted, Answer("approve", Via.PAGE), by=ben)
    assert codes(results) == ["pause_closed", "revision_mismatch", "not_found", "not_found", "", ""]
    assert "Already approved by Ana Ruiz" in results[0].words
    assert pause_of(changed).status == pause_of(hidden).status == "open"


def test_what_wants_a_look_of_its_own_is_left_out_and_said_why(
    waiting, make_order, risky, order_that, ben
):
    """Also where somebody posts past the preview."""
    high = drive(make_order(risky("dangerous", risk="high")))
    reason = drive(make_order(risky("wordy", reason_required=["approve"])))
    data = drive(order_that(asks_for_a_name))
    results = bulk.decide(chosen(high, reason, data, *waiting), Answer("approve", Via.PAGE), by=ben)
    assert codes(results) == ["not_in_bulk"] * 3 + ["", ""]
    assert [result.words for result in results[:3]] == [
        "Its risk is high: look at it by itself.", "This answer needs a reason of its own.",
        "It asks for data."
    ]  # fmt: skip
    assert codes(bulk.decide(chosen(high, reason, data), Answer("cancel", Via.PAGE), by=ben)) == [
        "not_in_bulk",
        "",
        "",
    ]


def test_the_preview_is_by_workflow_and_risk(waiting, make_order, risky, ben):
    low, high = (
        drive(make_order(risky("easy", risk="low"))),
        drive(make_order(risky("dangerous", risk="high"))),
    )
    seen = bulk.preview(
        [pause_of(order).pk for order in (*waiting, low, high)] + [ids.new()], by=ben
    )
    assert [(part.template, part.risk, len(part.pauses)) for part in seen.parts] == [
        ("writing v1", "normal", 2),
        ("easy v1", "low", 1),
    ]
    assert [pause.pk for pause, _ in seen.left_out] == [pause_of(high).pk]
    assert (seen.count, seen.gone) == (3, 1)


def test_page_inbox_to_preview_to_results(waiting, make_order, risky, page, ben):
    """Without JavaScript; seeing it changes nothing (F1)."""
    high = drive(make_order(risky("dangerous", risk="high")))
    inbox = page.get("/").content.decode()
    pauses = [pause_of(order) for order in (*waiting, high)]
    for pause in pauses:
        assert f'form="several" name="pause" value="{pause.shown_id}"' in inbox
    asked = page.get(
        reverse("hitl:bulk"), {"pause": [pause.shown_id for pause in pauses]}
    ).content.decode()
    assert (
        "Approve 2" in asked
        and "Its risk is high" in asked
        and f'value="{pauses[2].shown_id}:1"' not in asked
    )
    for pause in pauses[:2]:  # what is decided stands in its row, or that there is more
        assert pause.summary and pause.summary in asked
        assert asked.count("more on its page") == sum(not pause.brief for pause in pauses[:2])
    assert Decision.objects.count() == 0
    services.decide(pauses[1].pk, Answer("cancel", Via.PAGE), by=ben)
    seen = [f"{pause.shown_id}:{pause.revision}" for pause in pauses[:2]]
    told = page.post(reverse("hitl:bulk"), {"pause": seen, "action": "approve"}).content.decode()
    assert "1 of 2 answered" in told and "Already cancelled by Ben" in told
    assert reverse("hitl:receipt", args=[Decision.objects.get(action="approve").pk]) in told


def test_one_question_alone_has_no_box(paused, page):
    assert 'name="pause"' not in page.get("/").content.decode()


def test_a_selection_that_is_none_decides_nothing(waiting, page, subtests):
    shown = pause_of(waiting[0]).shown_id
    for values in [[], ["pse_nonsense"], ["x:1"], ["{0}:x"], ["{0}:1", "{0}:1"], ["{0}:1"] * 101]:
        with subtests.test(ascii(values)[:60]):
            response = page.post(
                reverse("hitl:bulk"),
                {"pause": [value.format(shown) for value in values], "action": "approve"},
                follow=True,
            )
            assert (
                response.redirect_chain[0][0] == "/"
                and "Nothing was decided" in response.content.decode()
            )
            assert Decision.objects.count() == 0


def test_only_plain_answers_are_given_so(waiting, page, ben):
    with pytest.raises(bulk.BulkInvalid):
        bulk.decide(chosen(*waiting), Answer("revise", Via.PAGE), by=ben)


def test_a_program_gets_a_result_for_each(waiting, make_order, risky, api, ana, zoe):
    high = drive(make_order(risky("dangerous", risk="high")))
    pause_of_first = pause_of(waiting[0])
    pauses = [{"pause_id": pause_of(order).shown_id, "revision": 1} for order in (*waiting, high)]
    told = (
        api(ana)
        .post("/api/v1/pauses/bulk", {"decision": "approve", "pauses": pauses}, format="json")
        .json()
    )
    assert (told["decided"], [one["code"] for one in told["results"]]) == (
        2,
        ["", "", "not_in_bulk"],
    )
    assert told["results"][0]["decision_id"] == Decision.objects.get(pause=pause_of_first).shown_id
    blind = (
        api(zoe)
        .post("/api/v1/pauses/bulk", {"decision": "approve", "pauses": pauses}, format="json")
        .json()
    )
    assert [one["code"] for one in blind["results"]] == ["not_found"] * 3
    for bad in (
        {"decision": "revise", "pauses": pauses},
        {"decision": "approve", "pauses": [{"pause_id": "x", "revision": 1}]},
    ):
        assert api(ana).post("/api/v1/pauses/bulk", bad, format="json").status_code == 400
    for none in (
        [],
        [{"revision": 1}],
        [{"pause_id": pauses[0]["pause_id"]}],
        [{**pauses[0], "id": pauses[1]["pause_id"]}],
    ):
        body = {"decision": "approve", "pauses": none}
        told = api(ana).post("/api/v1/pauses/bulk", body, format="json")
        assert (told.status_code, told.json()["code"]) == (422, "bulk_invalid"), none


@pytest.mark.parametrize("route", ["one", "several"])
def test_what_was_looked_at_is_named_alike_for_one_answer_and_for_several(
    route, paused, api, ana, subtests
):
    """Issue 30: what a program had read of a question, one route took and the other refused."""
    client, pause = api(ana), pause_of(paused)
    read = client.get(f"/api/v1/pauses/{pause.shown_id}").json()

    def answer(**given: Any) -> str:
        if route == "one":
            path, body = f"pauses/{pause.shown_id}/decisions", {"decision": "approve", **given}
        else:
            path, body = "pauses/bulk", {"decision": "approve", "pauses": [given]}
        told = client.post(f"/api/v1/{path}", body, format="json").json()
        return str(told["results"][0]["code"] if "results" in told else told.get("code", ""))

    other: dict[str, Any] = {"revision": 7, "content_digest": "0" * 64}
    for *names, last in (("id", "revision"), ("id", "content_digest"), ("id", *other)):
        with subtests.test(last, names=names), undone():
            seen = {name: read[name] for name in (*names, last)}
            assert answer(**{**seen, last: other[last]}) == "revision_mismatch"
            assert answer(**seen, pause_id=read["id"]) == ""
            assert Decision.objects.get().pause == pause


def test_an_answer_that_names_another_question_than_its_address_decides_nothing(waiting, api, ana):
    """The document promised 409, and the route did not look."""
    one, other = map(pause_of, waiting)
    for name in ("id", "pause_id"):
        body = {"decision": "approve", name: other.shown_id}
        told = api(ana).post(f"/api/v1/pauses/{one.shown_id}/decisions", body, format="json")
        assert (told.status_code, told.json()["code"]) == (409, "revision_mismatch")
    assert not Decision.objects.exists()
