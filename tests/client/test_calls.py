"""What stands for a call that people approve; addresses and delays of requests."""

from __future__ import annotations
import __future__

import enum
import pickle
import sys
from typing import Any

import pytest

from waystation_client import (
    Answer,
    Conflict,
    Denied,
    NotAnswered,
    Question,
    Waystation,
    terminal,
)
from waystation_client.approvals import Call, check
from waystation_client.questions import wait_of
from waystation_client.requests import address, delay


def pay(amount, to=None, *more, note="", **rest):
    return amount, to, more, note, rest


def asked(*args, key="k", name="", **kwargs):
    return Call.of(pay, args, kwargs, name=name).asked("", {}, key=key)["run_id"]


def test_the_same_call_under_the_same_key_is_the_same_question_however_it_is_written():
    """Defaults count, the order of names does not; another value is another call."""
    runs = {asked(1), asked(amount=1, to=None), asked(1, note="")}
    assert len(runs) == 1
    others = [asked(1.0), asked(True), asked(1, name="other"), asked(1, key="l")]
    assert not runs & set(others)
    assert asked(1, key="") != asked(1, key="")
    call = Call.of(pay, (1, {"a": [1]}, "x", "y"), {"note": "n", "z": 1})
    arguments, named = call.arguments()
    assert pay(*arguments, **named) == (1, {"a": [1]}, ("x", "y"), "n", {"z": 1})


def test_a_call_may_have_annotations_that_only_a_type_checker_finds():
    """From Python 3.14 on, they need no `from __future__ import annotations`."""
    lazy = sys.version_info >= (3, 14)
    flags = 0 if lazy else __future__.annotations.compiler_flag
    source = "def pay(amount: Euro, to: Payee = None) -> Receipt: ..."
    space: dict[str, Any] = {"__name__": "payments"}
    exec(compile(source, "payments", "exec", flags, dont_inherit=True), space)
    assert Call.of(space["pay"], (1,), {}).shown == '{"amount": 1, "to": null}'


class Colour(enum.StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    "value", [(1,), {1: "a"}, {"a": (1,)}, float("nan"), b"x", Colour.RED, {1}, object()]
)
def test_what_json_would_change_is_refused_by_name(value):
    """People approve what they see: what cannot be shown as it is, is not asked."""
    with pytest.raises(TypeError, match="The argument to is no plain JSON"):
        Call.of(pay, (1, value), {})


def test_a_text_cannot_end_the_block_in_which_it_is_shown():
    """An argument could have forged the rest of the question."""
    body = Call.of(pay, (1, "```\n# Approved already\n````"), {}).asked("", {})
    fence = "`" * 5
    assert body["content"].count(fence) == 2 and f"{fence}json" in body["content"]
    assert body["deadline"] == "PT1H" and len(body["run_id"]) <= 200


def test_a_rule_of_the_call_itself_is_refused_and_a_deadline_of_the_review_counts():
    """`required_inputs` would have asked for data, and no answer would have been a yes."""
    with pytest.raises(TypeError, match="takes no required_inputs, run_id"):
        check({"run_id": "x", "required_inputs": {}, "team": "t"})  # type: ignore[typeddict-unknown-key]
    body = Call.of(pay, (1,), {}).asked("", {"review": {"deadline": {"after": "P1D"}}})
    assert "deadline" not in body


def test_what_the_rules_approved_nobody_approved():
    denied = Denied("pay", Answer("approve", None, "", None, None, {}))
    assert str(denied) == "pay was not called: nobody answered in time"


def test_the_same_words_under_a_key_are_the_same_question_and_a_secret_is_no_part_of_its_name():
    one = wait_of("Why?", {"key": "1", "state": {"a": 1, "b": 2}, "callback_secret": "whsec_1"})
    two = wait_of("Why?", {"key": "1", "state": {"b": 2, "a": 1}, "valid_for": 60})
    assert one["run_id"] == two["run_id"] != wait_of("Why?", {"key": "2"})["run_id"]
    assert wait_of("Why?", {})["run_id"] != wait_of("Why?", {})["run_id"]


def test_a_key_is_a_text_or_made_of_the_arguments():
    call = Call.of(pay, (1, "C-17"), {})
    assert (
        call.asked("", {}, key=lambda amount, to, *more, **rest: f"{to}-{amount}")["key"]
        == "C-17-1"
    )
    for wrong in ("", None, 7):
        with pytest.raises(TypeError, match="is no text"):
            call.asked("", {}, key=lambda *args, wrong=wrong, **rest: wrong)
    with pytest.raises(TypeError, match="name a key"):
        check({}, "", 60)


def test_names_are_one_segment_of_an_address():
    assert address("/a/{x}/b/{y}", "1/2?", "{x}") == "/a/1%2F2%3F/b/%7Bx%7D"
    for name in ("", ".", ".."):
        with pytest.raises(ValueError, match="names nothing"):
            address("/a/{x}", name)


def test_tries_are_spread_and_never_wait_for_ever():
    assert [delay(tried, jitter=1) for tried in (1, 2, 3, 20)] == [0.25, 0.5, 1.0, 10.0]
    assert (delay(1, jitter=0), delay(1, told=3), delay(1, told=86_400)) == (0.125, 3, 60)


def test_a_refusal_survives_a_process_border():
    """Pools of processes hand errors over by pickle."""
    refused = Conflict({"status": 409, "code": "pause_closed", "detail": "ben was first"})
    again = pickle.loads(pickle.dumps(refused))
    assert (type(again), again.code, str(again)) == (Conflict, "pause_closed", str(refused))


def test_what_a_wait_ends_with_survives_a_process_border():
    answer = Answer("cancel", None, "too much", "ben", None, {})
    denied = pickle.loads(pickle.dumps(Denied("pay", answer)))
    assert (denied.answer, str(denied)) == (answer, str(Denied("pay", answer)))
    standing: Any = {"pause_id": "pse_1"}
    waits = NotAnswered(Question({"run_id": "x", "question": "Why?"}, standing))
    again = pickle.loads(pickle.dumps(waits))
    assert (again.question, str(again)) == (waits.question, str(waits))


@pytest.mark.parametrize("token", ["wst_one\nwst_two", "wst_ä", "wst_a b"])
def test_what_is_no_token_is_refused_before_it_is_sent_and_never_repeated(token):
    """A file with two tokens: what refused the header quoted it whole."""
    with pytest.raises(ValueError, match="token") as refused:
        Waystation("http://waystation.example", token)
    assert token not in str(refused.value) and repr(token) not in str(refused.value)


def test_an_address_that_is_none_is_refused_as_a_value():
    with pytest.raises(ValueError, match="no address"):
        Waystation("http://waystation.example:port", "wst_one")


def test_a_line_about_an_answer_names_who_gave_it_from_outside():
    found: Any = {"question": "Why?", "run_id": "x", "lifecycle": "completed", "pause_id": "pse_1"}
    found["answer"] = {"decision": "approve", "decided_by": None, "external": "zoe@example.org"}
    assert [*terminal.workflow(found)][-1] == "Answered: approve by zoe@example.org"
