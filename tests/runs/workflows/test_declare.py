"""`workflow(…)` and `use(…)`: what an author declares, as dictionaries, and what is refused."""

from __future__ import annotations

import datetime as dt
import enum
import subprocess
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from checkpoints.state.reducers import REDUCERS
from runs.workflows import (
    Context,
    Done,
    Go,
    Outcome,
    Review,
    StepFailed,
    WorkflowInvalid,
    read,
    registry,
    schema_of,
    step,
    use,
    workflow,
)
from runs.workflows.declare import Reducer
from runs.workflows.schemas import SchemaRefused, validate_resume_payload

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / "tests/.artifacts/mypy"
"""Not that of `make check`, whose options are others: what either finds there it reads anew."""


class Reason(enum.Enum):
    BROKEN = "broken"
    LATE = "late"


class Address(BaseModel):
    """Where it is sent."""

    street: str
    town: str | None = None


class Refund(BaseModel):
    order_id: str = Field(title="Order", description="As on the receipt.")
    amount: Decimal = Field(gt=0, decimal_places=2)
    on: dt.date | None = None
    reason: Reason = Reason.BROKEN
    back_to: Address | None = None
    lines: list[Address] = []
    kind: typing.Literal["part", "whole"] = "whole"


class Line(typing.TypedDict):
    amount: Decimal


class Sheet(typing.TypedDict, total=False):
    number: typing.Required[int]
    lines: list[Line]
    note: str | None


@dataclass
class Note:
    text: str
    loud: bool = False


class Node(BaseModel):
    inner: list[Node] = []


class Keyed(BaseModel):
    plain: int
    pin: SecretStr


class Calls(BaseModel):
    plain: int
    back: Callable[[int], int]


class Outer(BaseModel):
    inner: Keyed


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    day: dt.date


class Range(BaseModel):
    low: int
    high: int

    @model_validator(mode="after")
    def in_order(self) -> Range:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


@pytest.fixture(autouse=True)
def steps_of_these_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_STEPS", dict(registry._STEPS))
    monkeypatch.setattr(registry, "_TRAITS", dict(registry._TRAITS))


def check(state: Sheet, context: Context) -> Outcome:
    return Go()


def pay(state: dict[str, Any], context: Context) -> Done:
    return Done()


@pytest.fixture
def steps() -> tuple[Any, Any]:
    return step("refund.check")(check), step("refund.pay")(pay)


def test_one_declaration_is_the_dictionaries_of_before(steps):
    """An author wrote two dictionaries of strings apart from the steps, and a wrong key was told
    only when templates were loaded.
    """
    check, pay = steps
    review = Review(quorum=2, reviewers={"groups": ["heads"]}, deadline={"after": "P2D"})
    refund = workflow(
        "refund",
        title="Refund",
        input=Refund,
        reducers={"notes": "append"},
        steps=[
            use(check, pause_after=True, review=review, retry={"attempts": 3}),
            use(pay, name="pay-out", title="Pay", config={"bank": "x"}, queue="agents"),
        ],
    )
    assert refund.step_templates == {
        "refund-check": {"title": "Check", "function": "refund.check"},
        "refund-pay-out": {"title": "Pay", "function": "refund.pay", "config": {"bank": "x"}},
    }
    assert refund.template == {
        "title": "Refund",
        "description": "",
        "needs_repository": False,
        "input_schema": schema_of(Refund),
        "reducers": {"notes": "append"},
        "steps": [
            {
                "name": "check",
                "step_type": "check",
                "step_template_slug": "refund-check",
                "pause_after": True,
                "pause_phase": "awaiting_check_approval",
                "review": review,
                "retry": {"attempts": 3},
            },
            {
                "name": "pay-out",
                "step_type": "pay-out",
                "step_template_slug": "refund-pay-out",
                "queue": "agents",
            },
        ],
    }
    assert refund.place.startswith(f"{__file__}, line ")


def test_sub_steps_are_step_templates_before_their_own(steps):
    check, pay = steps
    both = use(
        "flow.sub_steps", name="both", sub_steps=[check, use(pay)], config={"parallel": True}
    )
    made = workflow("refund", title="Refund", steps=[both])
    assert list(made.step_templates) == ["refund-both-check", "refund-both-pay", "refund-both"]
    inner = [one["step_template_slug"] for one in made.step_templates["refund-both"]["sub_steps"]]
    assert inner == ["refund-both-check", "refund-both-pay"]


def test_a_model_is_a_schema_that_forms_can_show_and_comes_back_as_an_instance():
    """pydantic's own schema of an amount cannot be used here: its pattern looks ahead."""
    schema = schema_of(Refund)
    parts = schema["properties"]
    assert schema["required"] == ["order_id", "amount"]
    assert parts["amount"] == {"type": "number", "exclusiveMinimum": 0.0, "multipleOf": 0.01}
    assert parts["on"] == {"type": ["string", "null"], "format": "date"}
    assert parts["order_id"]["title"] == "Order" and "title" not in parts["back_to"]
    assert parts["back_to"]["type"] == ["object", "null"]
    assert parts["kind"] == {"type": "string", "enum": ["part", "whole"], "default": "whole"}
    given = {"order_id": "A1", "amount": 12.1, "back_to": {"street": "Hill 1"}}
    assert validate_resume_payload(schema, given) == {}
    assert list(validate_resume_payload(schema, {**given, "amount": 0.001})) == ["amount"]
    refund = read(Refund, {**given, "revision_feedback": "", "on": "2026-03-31"})
    assert (refund.amount, refund.on) == (Decimal("12.1"), dt.date(2026, 3, 31))
    assert refund.back_to == Address(street="Hill 1")
    assert read(Strict, {"day": "2026-03-31", "more": 1}).day == dt.date(2026, 3, 31)


def test_typed_dicts_and_dataclasses_do_as_well():
    """The standard library's TypedDict is none for pydantic before Python 3.12."""
    schema = schema_of(Sheet)
    assert schema["required"] == ["number"] and schema["x-order"] == ["number", "lines", "note"]
    assert schema["properties"]["lines"]["items"]["required"] == ["amount"]
    assert read(Sheet, {"number": 1, "lines": [{"amount": 2.5}], "other": 1}) == {
        "number": 1,
        "lines": [{"amount": Decimal("2.5")}],
    }
    assert read(Note, {"text": "a"}) == Note("a")
    assert (
        schema_of({"type": "object", "properties": {"a": {"type": "string"}}})["type"] == "object"
    )


def test_values_that_do_not_fit_are_told_by_field_and_never_quoted():
    with pytest.raises(StepFailed, match=r"do not fit Refund: order_id: .*; amount: ") as refused:
        read(Refund, {"order_id": ["4111 1111"], "amount": "much"})
    assert refused.value.code == "not_as_declared"
    assert "4111" not in str(refused.value) and "much" not in str(refused.value)
    with pytest.raises(StepFailed, match="Range: Value error, low is above high"):
        read(Range, {"low": 2, "high": 1})


@pytest.mark.parametrize(
    ("shape", "field"),
    [(Node, "inner.items"), (Keyed, "pin"), (Calls, "back"), (Outer, "inner.pin"), (int, "")],
)
def test_what_no_form_can_hold_is_refused_with_the_fields_name(shape, field):
    with pytest.raises(SchemaRefused) as refused:
        schema_of(shape)
    assert refused.value.field == field


def test_what_a_workflow_says_of_changed_code_is_for_steps_that_say_nothing_themselves():
    check_ = step("refund.check", on_change="continue")(check)
    pay_ = step("refund.pay")(pay)
    both = use("flow.sub_steps", name="both", sub_steps=[check_, pay_], on_change="continue")
    refund = workflow(
        "refund",
        title="Refund",
        steps=[check_, pay_, use(check_, name="c"), both],
        on_change="hold",
    )
    said = [step.get("on_change") for step in refund.template["steps"]]
    assert said == ["continue", "hold", "continue", "continue"]
    inner = refund.step_templates["refund-both"]["sub_steps"]
    assert [step["on_change"] for step in inner] == ["continue", "hold"]
    with pytest.raises(ValueError, match='no on_change "halt"'):
        step("refund.other", on_change="halt")(pay)  # type: ignore[arg-type]


def test_mistakes_are_refused_with_file_line_and_what_to_do(steps):
    """A misspelt key was told without the line on which it stood."""
    check, pay = steps
    wrong: Any = SimpleNamespace(use=use, workflow=workflow)  # mypy refuses these as well
    cases = [
        (lambda: wrong.use(check, retires=3), 'no keyword "retires". Did you mean retry'),
        (
            lambda: wrong.use(check, review={"quorm": 2}),
            'review.*no key "quorm". Did you mean quorum',
        ),
        (
            lambda: wrong.use(check, review={"quorum": 3, "reviewers": {"users": ["a"]}}),
            "Only 1 may",
        ),
        (lambda: wrong.use(check, review={"deadline": {"after": "soon"}}), "review.deadline.after"),
        (lambda: wrong.use(check, review=[]), "review"),
        (lambda: wrong.use(test_typed_dicts_and_dataclasses_do_as_well), 'Put @step\\("'),
        (lambda: wrong.use(check, required_inputs=Keyed), "required_inputs=Keyed, field pin"),
        (lambda: wrong.use(check, skip_when={"$id": "x"}), "skip_when"),
        (
            lambda: wrong.workflow("a", title="A", steps=[check, check]),
            "another step 'check' at .*line",
        ),
        (
            lambda: wrong.workflow("a", title="A", steps=[use(check, revise_to="pya"), pay]),
            "mean pay",
        ),
        (lambda: wrong.use(check, on_change="holt"), 'no on_change "holt". Did you mean hold'),
        (lambda: wrong.workflow("a", title="A", steps=[check], on_change="go"), "no on_change"),
        (lambda: wrong.workflow("a", title="A", steps=[]), "has no steps"),
        (lambda: wrong.workflow("a b", title="A", steps=[check]), "is no slug"),
        (lambda: wrong.workflow("a" * 78, title="A", steps=[check]), "too long"),
        (
            lambda: wrong.workflow("a", title="A", steps=[check], reducers={"x": "apend"}),
            "Did you mean",
        ),
        (lambda: wrong.workflow("a", title="A", steps=[check], input=int), "input=int"),
        (lambda: wrong.workflow("a", title="A", step=[check], steps=[check]), "Did you mean steps"),
        (lambda: wrong.use(check, choices=[{"name": "approve", "label": "", "to": "check"}]), None),
    ]
    for attempt, words in cases:
        if words is None:
            with pytest.raises(WorkflowInvalid, match="approve is an answer already"):
                wrong.workflow("a", title="A", steps=[attempt()])
            continue
        line = attempt.__code__.co_firstlineno
        with pytest.raises(WorkflowInvalid, match=words) as refused:
            attempt()
        assert refused.value.place == f"{__file__}, line {line}"


def test_two_steps_of_one_name_are_told_with_both_places(steps):
    with pytest.raises(ValueError, match=r"line \d+ and .*test_declare.py, line \d+. Give one"):
        step("refund.check")(pay)


def test_the_names_of_reducers_are_those_that_there_are():
    assert set(typing.get_args(Reducer)) == set(REDUCERS)


AUTHOR = """
from decimal import Decimal
from typing import TypedDict
from pydantic import BaseModel
from runs.workflows import Context, Done, Go, Outcome, read, step, use, workflow

class Order(BaseModel):
    amount: Decimal

class Kept(TypedDict, total=False):
    total: int

@step("a.one")
def one(state: Kept, context: Context) -> Outcome:
    order = read(Order, context.order.input)
    reveal_type(order.amount)
    reveal_type(read(Kept, state))
    return Go(update={"total": state["total"] + 1})

@step("a.two")
def two(state: Kept, context: Context) -> Done:
    return Done()

a = workflow("a", title="A", input=Order, steps=[use(one, review={"quorum": 2}), two])
use(one, retires=3)
use(one, review={"quorm": 2})
workflow("a", title="A", steps=[one], reducers={"x": "apend"})
"""


def test_an_authors_mypy_sees_types_and_mistakes(tmp_path):
    """No Any where a model is given, and a misspelt keyword is none before anything runs."""
    (tmp_path / "author.py").write_text(AUTHOR)
    passed_over = tmp_path / "mypy.ini"  # four hundred modules, of which an author sees no type
    passed_over.write_text("[mypy]\n[mypy-holidays.*,markdown_it.*]\nfollow_imports = skip\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", str(passed_over),
         str(tmp_path / "author.py"), "--cache-dir", str(CACHE), "--follow-imports=silent"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = [line.partition(": ")[2] for line in done.stdout.splitlines()[:-1]]
    assert [line for line in told if line.startswith("note")] == [
        'note: Revealed type is "decimal.Decimal"',
        "note: Revealed type is \"TypedDict(author.Kept, {'total'?: int})\"",
    ]
    errors = [line for line in told if line.startswith("error")]
    assert len(errors) == 3, done.stdout
    assert ["retires" in errors[0], "review" in errors[1], "apend" in errors[2]] == [True] * 3
