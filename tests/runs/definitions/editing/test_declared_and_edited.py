"""A declared workflow that a person edited, and the validators of its author's types."""

from __future__ import annotations

import sys

import pytest

from hitl.decisions import services
from hitl.decisions.answers import Answer
from hitl.decisions.errors import AnswerInvalid
from hitl.models import Via
from runs import definitions
from runs.definitions import shipped
from runs.models import StepTemplate, Template, WorkOrder
from runs.schedules import keeping
from runs.services import InputInvalid, submit
from runs.workflows import registry
from tests.conftest import drive, pause_of
from tests.doors.rest import ORDERS, problem
from tests.worlds.people import give

AT = "/api/v1/templates"
AUTHOR = """
from pydantic import BaseModel, field_validator, model_validator
from runs.workflows import Done, Go, read, step, use, wait_for_input, workflow

class Wordless(ValueError):
    def __str__(self):
        raise RuntimeError("secret words")

class Limits(BaseModel):
    most: int = {most}

    @field_validator("most")
    @classmethod
    def even(cls, value):
        if value == 9:
            raise SystemExit
        if value % 2:
            raise ValueError("must be even")
        return value

class Trip(BaseModel):
    first: int
    last: int

    @field_validator("first")
    @classmethod
    def known(cls, value):
        if value == 13:
            raise KeyError("secret words")
        if value == 15:
            raise SystemExit("secret words")
        if value == 17:
            return cls.known(value)
        if value == 19:
            raise Wordless
        if value < 0:
            raise ValueError("days before today cannot be booked")
        return value

    @model_validator(mode="after")
    def in_order(self):
        if self.last < self.first:
            raise ValueError("the last day comes before the first")
        return self

class Passenger(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def whole(cls, value):
        if " " not in value:
            raise ValueError("give first name and surname")
        return value

class Seat(BaseModel):
    row: int

    @field_validator("row")
    @classmethod
    def there(cls, value):
        if value > 30:
            raise ValueError("there are 30 rows")
        return value

@step("trip.plan", config=Limits)
def plan(state, context):
    return Go(update={{"planned": read(Trip, context.order.input).first}})

@step("trip.seat", asks=True)
def seat(state, context):
    return wait_for_input(state, context, required_inputs=Seat, blocking_reason="seat",
                          question="Which row?") or Done()

trip = workflow("trip", title="{title}", input=Trip, steps=[
    use(plan, config={config}, pause_after=True, required_inputs=Passenger), seat])
"""
USUAL = {"title": "Trip", "most": "4", "config": "{}"}


@pytest.fixture
def author(templates, tmp_path, monkeypatch, settings):
    """Deploys a version of the author's module, as a start of the product would find it."""
    monkeypatch.syspath_prepend(tmp_path)
    settings.WAYSTATION_WORKFLOWS = ["trip_flows"]
    steps, traits = dict(registry._STEPS), dict(registry._TRAITS)

    def deploy(**given):
        monkeypatch.setattr(registry, "_STEPS", dict(steps))
        monkeypatch.setattr(registry, "_TRAITS", dict(traits))
        monkeypatch.delitem(sys.modules, "trip_flows", raising=False)
        (tmp_path / "trip_flows.py").write_text(AUTHOR.format(**{**USUAL, **given}))
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        shipped.load()

    yield deploy
    sys.modules.pop("trip_flows", None)


def ordered(ana, **given):
    return submit("trip", by=ana, input={"first": 1, "last": 2, **given})


def test_the_authors_own_validators_refuse_an_order_and_name_the_field(author, ana_api, ana):
    """They ran in the first step, hours after the order perhaps, and failed the run."""
    author()
    wrong = {"template": "trip", "input": {"first": -1, "last": 2}}
    refused = problem(ana_api.post(ORDERS, wrong, format="json"), 422, "input_invalid")
    assert refused["errors"] == {"first": ["Days before today cannot be booked."]}
    wrong["input"] = {"first": 3, "last": 2}
    refused = problem(ana_api.post(ORDERS, wrong, format="json"), 422, "input_invalid")
    assert refused["errors"] == {"input": ["The last day comes before the first."]}
    assert not WorkOrder.objects.exists()
    assert ordered(ana).input == {"first": 1, "last": 2}


@pytest.mark.parametrize(
    ("day", "kind"), [(13, "KeyError"), (15, "SystemExit"), (17, "RecursionError"), (19, "")]
)
def test_a_validator_that_breaks_is_told_without_what_it_says(author, ana, day, kind):
    """P12: it runs in web servers, which `sys.exit()` would have ended."""
    author()
    with pytest.raises(InputInvalid) as refused:
        ordered(ana, first=day, last=day)
    assert f"broke with {kind}" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert ordered(ana).input == {"first": 1, "last": 2}


def test_the_page_shows_what_a_validator_says(author, ana, client):
    author()
    client.force_login(ana)
    page = client.post(
        "/work-orders/new", {"template": "trip", "input.first": "-1", "input.last": "2"}
    )
    assert page.status_code == 422
    assert "Days before today cannot be booked." in page.content.decode()
    assert not WorkOrder.objects.exists()


def test_a_schedule_is_refused_what_its_orders_would_be(author, ana):
    author()
    give(ana, "add_schedule")
    with pytest.raises(InputInvalid, match="before today"):
        keeping.make(
            ana, name="x", template="trip", cron="0 9 * * *", input={"first": -1, "last": 2}
        )


def test_a_schema_that_a_person_changed_is_not_held_to_the_type(author, ana):
    author()
    definitions.edit_template("trip", by=ana, input_schema={"type": "object"})
    assert submit("trip", by=ana, input={"first": -1}).input == {"first": -1}


def test_the_same_holds_of_data_that_is_asked_for(author, ana):
    """Once of what the workflow declares, once of what a step asks by itself."""
    author()
    order = ordered(ana)
    drive(order)
    pause = pause_of(order)
    with pytest.raises(AnswerInvalid) as refused:
        services.decide(pause.pk, Answer("approve", Via.PAGE, payload={"name": "Ada"}), by=ana)
    assert refused.value.errors == {"input.name": ["Give first name and surname."]}
    services.decide(pause.pk, Answer("approve", Via.PAGE, payload={"name": "Ada L"}), by=ana)
    drive(order)
    pause = pause_of(order)
    with pytest.raises(AnswerInvalid) as refused:
        services.decide(pause.pk, Answer("answer", Via.REST, payload={"row": 31}), by=ana)
    assert refused.value.errors == {"input.row": ["There are 30 rows."]}
    services.decide(pause.pk, Answer("answer", Via.REST, payload={"row": 30}), by=ana)


def test_a_configuration_is_held_to_its_type(author, ana):
    author()
    with pytest.raises(definitions.TemplateInvalid) as refused:
        definitions.edit_step_template(
            "trip-plan", title="Plan", function="trip.plan", config={"most": 3}
        )
    assert refused.value.errors == {"config.most": ["Must be even."]}
    with pytest.raises(definitions.TemplateInvalid, match="broke with SystemExit"):
        definitions.edit_step_template(
            "trip-plan", title="Plan", function="trip.plan", config={"most": 9}
        )


def test_a_check_of_a_configuration_that_breaks_is_told_as_one(author, monkeypatch):
    """P12: the page answered that something went wrong on the server."""
    author()

    def check(config):
        raise SystemExit

    monkeypatch.setitem(registry._TRAITS, "trip.plan", registry.Traits(check=check))
    with pytest.raises(definitions.TemplateInvalid, match="broke with SystemExit"):
        definitions.edit_step_template("trip-plan", title="Plan", function="trip.plan", config={})


def test_an_edited_step_template_stays_and_says_that_the_codes_waits(author, ana_api, ana):
    author()
    definitions.edit_step_template(
        "trip-plan", title="My plan", function="trip.plan", config={"most": 6}
    )
    assert ana_api.get(f"{AT}/steps/trip-plan").json()["newer_in_code"] == ""
    author(config='{"most": 8}')
    shown = ana_api.get(f"{AT}/steps/trip-plan").json()
    assert (shown["title"], shown["config"]) == ("My plan", {"most": 6})
    assert "trip_flows.py, line" in shown["newer_in_code"]
    found = ana_api.get(f"{AT}/steps/trip-plan/differences?new=code").json()
    assert found["new"] is None
    assert {change["path"] for change in found["fields_changed"]} == {"/title", "/config/most"}
    assert ana_api.put(f"{AT}/steps/trip-plan/take-over", {"version": 2}).status_code == 403
    give(ana, "add_steptemplate")
    late = ana_api.put(f"{AT}/steps/trip-plan/take-over", {"version": 1}, format="json")
    problem(late, 409, "template_saved_meanwhile")
    taken = ana_api.put(f"{AT}/steps/trip-plan/take-over", {"version": 2}, format="json").json()
    assert (taken["version"], taken["config"], taken["newer_in_code"]) == (3, {"most": 8}, "")
    again = ana_api.put(f"{AT}/steps/trip-plan/take-over", {"version": 3}, format="json")
    problem(again, 409, "nothing_newer")
    assert StepTemplate.objects.filter(slug="trip-plan").count() == 3


def test_an_edited_template_is_compared_with_the_codes_and_taken_over(author, ana_api, ana):
    author()
    definitions.edit_template("trip", by=ana, title="Mine")
    author(title="Journey")
    found = ana_api.get(f"{AT}/workflows/trip/differences?new=code").json()
    assert [change["path"] for change in found["fields_changed"]] == ["/title"]
    give(ana, "add_template")
    taken = ana_api.put(f"{AT}/workflows/trip/take-over", {"version": 2}, format="json").json()
    assert (taken["title"], taken["newer_in_code"]) == ("Journey", "")
    assert [row.declared != "" for row in Template.objects.filter(slug="trip").order_by("pk")] == [
        True,
        False,
        True,
    ]
