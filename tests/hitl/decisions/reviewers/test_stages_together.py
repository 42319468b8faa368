"""Data that several stages bring: each part is judged by itself, the whole with the last part."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import pytest
from pydantic import AfterValidator, BaseModel, ValidationInfo, field_validator, model_validator

from hitl.decisions import answers, services
from hitl.decisions.services import Answer
from hitl.models import Decision, Via, Vote
from hitl.testing import play
from runs.definitions import loading
from runs.models import Pause
from runs.workflows import Done, Go, Report, Review, ReviewStage, schema_of, step, use, workflow
from runs.workflows.base.typed import faults_of_parts
from runs.workflows.reviews.review import Actors
from tests.conftest import drive, pause_of, state_at_head
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.doors.rest import problem
from tests.worlds.histories.whole_story import broken
from tests.worlds.mailing import relay
from tests.worlds.outsiders import SUPPLIER, link_to
from tests.worlds.outsiders import browser as outside
from tests.worlds.people import person
from tests.worlds.ruled_order import browser, rest
from tests.worlds.ruled_order import ruled as ruled

pytestmark = pytest.mark.django_db


def even(number: int) -> int:
    if number % 2:
        raise ValueError("the amount is odd")
    return number


class Terms(BaseModel):
    clause: str
    most: int

    @model_validator(mode="after")
    def priced(self):
        if self.clause == "7b" and not self.most:
            raise ValueError("clause 7b needs a price")
        return self


class Budget(BaseModel):
    amount: Annotated[int, AfterValidator(even)]


class Asked(BaseModel):
    legal: Terms
    finance: Budget | None = None

    @field_validator("finance")
    @classmethod
    def within(cls, value: Budget | None, info: ValidationInfo):
        if value is not None and value.amount > info.data["legal"].most:
            raise ValueError("more than the contract allows")
        return value

    @model_validator(mode="after")
    def paid(self):
        if self.legal.most and not self.finance:
            raise ValueError("a price needs a budget")
        return self


STAGES = {
    "stages": [
        {"name": "legal", "reviewers": {"users": ["lea"]}},
        {"name": "finance", "reviewers": {"users": ["fin"]}},
        {"name": "cfo", "reviewers": {"users": ["carl"]}, "after": ["legal", "finance"]},
    ]
}
TERMS = {"legal": {"clause": "7b", "most": 10}}


@pytest.fixture
def people(db):
    return {name: person(name) for name in ("lea", "fin", "carl")}


@pytest.fixture
def pause(ruled, people, monkeypatch):
    monkeypatch.setattr(loading, "asked_type", lambda *args: Asked)
    return pause_of(ruled(STAGES, required_inputs=schema_of(Asked)))


def approve(pause, by, payload=None):
    return services.decide(pause.pk, Answer("approve", Via.REST, payload=payload), by=by)


def errors_of(pause, by, payload=None):
    with pytest.raises(services.AnswerInvalid) as refused:
        approve(pause, by, payload)
    assert refused.value.code == "input_invalid"
    return refused.value.errors


def test_a_part_is_judged_by_itself_before_the_others_are_there(pause, people):
    errors = errors_of(pause, people["lea"], {"legal": {"clause": "7b", "most": 0}})
    assert errors == {"input.legal": ["Clause 7b needs a price."]}
    errors = errors_of(pause, people["fin"], {"finance": {"amount": 99}})
    assert errors == {"input.finance.amount": ["The amount is odd."]}
    assert not Vote.objects.exists()
    assert Pause.objects.get().attempts == 2


@pytest.mark.both_databases
@pytest.mark.parametrize("first", ["legal", "finance"])
def test_the_whole_is_judged_with_the_last_part_and_nothing_is_lost(pause, people, first):
    parts = {"legal": ("lea", TERMS), "finance": ("fin", {"finance": {"amount": 12}})}
    [last] = set(parts) - {first}
    by, payload = parts[first]
    assert isinstance(approve(pause, people[by], payload), Vote)
    by, payload = parts[last]
    errors = errors_of(pause, people[by], payload)
    assert errors == {"input.finance": ["More than the contract allows."]}
    assert [vote.stage for vote in Vote.objects.all()] == [first]
    mended = {
        "legal": {"legal": {"clause": "7b", "most": 12}},
        "finance": {"finance": {"amount": 10}},
    }
    assert isinstance(approve(pause, people[by], mended[last]), Vote)
    assert isinstance(approve(pause, people["carl"]), Decision)
    assert broken() == {}


def test_a_last_stage_that_brings_nothing_is_judged_with_the_whole_too(pause, people):
    approve(pause, people["lea"], TERMS)
    assert errors_of(pause, people["fin"]) == {"input": ["A price needs a budget."]}
    assert Vote.objects.count() == 1


def test_a_part_that_came_while_another_was_judged_is_judged_with_it(pause, people, monkeypatch):
    """Both begin before the other has voted: whichever is recorded last is judged with both."""
    judged = answers.check_payload

    def slow(*args, **more):
        judged(*args, **more)
        monkeypatch.setattr(answers, "check_payload", judged)
        approve(pause, people["fin"], {"finance": {"amount": 12}})

    monkeypatch.setattr(answers, "check_payload", slow)
    errors = errors_of(pause, people["lea"], TERMS)
    assert errors == {"input.finance": ["More than the contract allows."]}
    assert [vote.stage for vote in Vote.objects.all()] == ["finance"]
    approve(pause, people["lea"], {"legal": {"clause": "8", "most": 12}})
    assert approve(pause, people["carl"]).payload["finance"] == {"amount": 12}
    assert broken() == {}


def test_a_fault_of_the_whole_is_named_at_each_door(pause, people):
    """F4: REST names the field, the page shows it there and keeps what was typed."""
    approve(pause, people["lea"], TERMS)
    fin = people["fin"]
    url = f"/api/v1/pauses/{pause.shown_id}/decisions"
    body = {"decision": "approve", "input": {"finance": {"amount": 12}}}
    refused = problem(rest(fin).post(url, body, format="json"), 422, "input_invalid")
    assert refused["errors"] == {"input.finance": ["More than the contract allows."]}
    sent = {"action": "approve", "revision": "1", "input.finance.amount": "12"}
    page = browser(fin).post(f"/pauses/{pause.shown_id}/decide", sent)
    assert page.status_code == 422
    shown = page.content.decode()
    assert "More than the contract allows." in shown
    assert 'value="12"' in shown
    done = browser(fin).post(
        f"/pauses/{pause.shown_id}/decide", {**sent, "input.finance.amount": "8"}
    )
    assert done.status_code == 302
    assert Vote.objects.count() == 2


def test_who_answers_from_outside_hears_of_the_whole_too(ruled, people, monkeypatch, settings):
    monkeypatch.setattr(loading, "asked_type", lambda *args: Asked)
    rules = {"stages": [STAGES["stages"][0], {"name": "finance", "external": [SUPPLIER]}]}
    pause = pause_of(ruled(rules, required_inputs=schema_of(Asked)))
    approve(pause, people["lea"], TERMS)
    relay()
    page = link_to()
    sent = {"action": "approve", "revision": "1", "me": "yes", "input.finance.amount": "12"}
    refused = outside().post(page, sent)
    assert refused.status_code == 422
    assert "More than the contract allows." in refused.content.decode()
    assert outside().post(page, {**sent, "input.finance.amount": "2"}).status_code == 200
    assert Decision.objects.get().payload["finance"] == {"amount": 2}


@pytest.mark.both_databases
def test_two_last_parts_at_once_never_make_a_whole_that_does_not_fit(
    transactional_db, file_database, ruled, people, monkeypatch
):
    """P1, F8: with real threads and connections."""
    monkeypatch.setattr(loading, "asked_type", lambda *args: Asked)
    pause = pause_of(ruled(STAGES, required_inputs=schema_of(Asked)))
    results = at_once(
        partial(approve, pause, people["lea"], TERMS),
        partial(approve, pause, people["fin"], {"finance": {"amount": 12}}),
    )
    assert sorted(type(result).__name__ for result in results) == ["AnswerInvalid", "Vote"]
    assert Vote.objects.count() == Pause.objects.get().approvals == 1
    assert broken() == {}


@pytest.mark.both_databases
def test_two_parts_at_once_that_fit_are_both_kept(
    transactional_db, file_database, ruled, people, monkeypatch
):
    monkeypatch.setattr(loading, "asked_type", lambda *args: Asked)
    order = ruled(STAGES, required_inputs=schema_of(Asked))
    pause = pause_of(order)
    results = at_once(
        partial(approve, pause, people["lea"], TERMS),
        partial(approve, pause, people["fin"], {"finance": {"amount": 8}}),
    )
    assert [type(result).__name__ for result in results] == ["Vote", "Vote"]
    approve(pause, people["carl"])
    drive(order)
    assert state_at_head(order.thread_id)["finance"] == {"amount": 8}
    assert broken() == {}


def test_a_part_whose_validator_breaks_is_told_by_its_type_alone():
    def broken_check(number: int) -> int:
        raise KeyError("4111 1111")

    class Half(BaseModel):
        amount: Annotated[int, AfterValidator(broken_check)]

    class Both(BaseModel):
        half: Half

    [(place, [text])] = faults_of_parts(Both, {"half": {"amount": 1}, "other": 2}).items()
    assert place == "half"
    assert "KeyError" in text
    assert "4111" not in text


@step("together.draft")
def draft(state, context):
    return Go(update={"text": "x"}, report=Report(content="x", material="x"))


@step("together.sign")
def sign(state, context):
    return Done(
        update={
            "signed": Asked(**{name: state[name] for name in ("legal", "finance")}).legal.clause
        }
    )


def test_a_declared_workflow_is_played_with_its_whole_type():
    review = Review(
        stages=[
            ReviewStage(name="legal", reviewers=Actors(users=["lea"])),
            ReviewStage(name="finance", reviewers=Actors(users=["fin"])),
        ]
    )
    asking = use(draft, pause_after=True, required_inputs=Asked, review=review)
    run = play(workflow("together", title="Together", steps=[asking, sign]))
    run.approve(by="lea", legal={"clause": "7b", "most": 10})
    with pytest.raises(services.AnswerInvalid, match="More than the contract allows"):
        run.approve(by="fin", finance={"amount": 12})
    run.approve(by="fin", finance={"amount": 10})
    assert run.done
    assert run.state["signed"] == "7b"
