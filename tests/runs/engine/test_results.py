"""What a step answers is checked and parsed once, before anything of it is written."""

from __future__ import annotations

import pytest

from runs.engine.advance import advance
from runs.limits import SCHEMA_BYTES
from runs.workflows import schemas, tool_calls
from runs.workflows.base import Ask, Call, Outside, Report
from tests.conftest import fresh, pause_of
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db

NOBODY = Outside(to=["nobody at example"])
TOO_LONG = Call(id="call-1", tool="t" * (SCHEMA_BYTES + 1))


def asking(**more):
    answers = {"answer": "finish"} if "calls" in more else {"approve": "finish"}
    return lambda state, context: Ask(
        question="Well?", answers=answers, report=Report(content="x"), **more
    )


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("question", "code"),
    [
        (asking(outside=NOBODY), "outside_invalid"),
        (asking(outside=Outside(to=["ana@example.com"], answers=["maybe"])), "outside_invalid"),
        (asking(calls=[TOO_LONG]), schemas.SchemaRefused.code),
    ],
    ids=["no-address", "no-answer", "no-form"],
)
def test_a_question_that_cannot_be_asked_fails_its_step_in_words(order_that, question, code):
    """It was found out while the pause was written, where nobody caught it: the task broke,
    and the run came back as lost until it was an incident.
    """
    order = order_that(question)
    assert advance(order.latest_run.pk, budget=60) == []
    run = fresh(order).latest_run
    assert (run.status, run.failure_code) == ("failed", code)
    assert run.error


@pytest.mark.one_database
def test_the_schema_and_the_calls_of_a_question_are_parsed_once(order_that, monkeypatch):
    """The engine parsed both when it checked the answer, and both again when it wrote the pause."""
    parsed: list[str] = []
    for module, name in ((schemas, "check_inputs"), (tool_calls, "kept")):
        monkeypatch.setattr(module, name, noting(parsed, getattr(module, name)))
    asked = {"type": "object", "properties": {"supplier": {"type": "string"}}}
    about_calls = order_that(asking(calls=[Call(id="call-1", tool="send")]))
    advance(about_calls.latest_run.pk, budget=60)
    assert [call["id"] for call in pause_of(about_calls).calls] == ["call-1"]
    assert parsed == ["kept", "check_inputs"]
    parsed.clear()
    about_data = order_that(asking(required_inputs=asked))
    parsed.clear()  # the template is checked too
    advance(about_data.latest_run.pk, budget=60)
    assert pause_of(about_data).required_inputs == asked
    assert parsed == ["check_inputs"]


def noting(parsed, function):
    def noted(*arguments):
        parsed.append(function.__name__)
        return function(*arguments)

    return noted
