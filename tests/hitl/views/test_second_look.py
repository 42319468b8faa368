"""Nothing of high risk is decided by one press, and no word that was typed is dropped without one.

Without JavaScript; with it: stories.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Decision, Via
from runs.models import Pause
from runs.workflows.base import Ask, Done, Report
from runs.workflows.tool_calls import Call
from runs.workflows.wait_for_input import ask_about_calls
from tests.conftest import drive, pause_of
from tests.doors.thread_page import say as say
from tests.doors.thread_page import waiting as waiting
from tests.worlds.ruled_order import browser, rest
from tests.worlds.ruled_order import ruled as ruled
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.talking_threads import thread as thread

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
SAFE, GRAVE = (
    Call(id="list", tool="list_files"),
    Call(id="drop", tool="drop_table", arguments={"name": "orders"}, risk="high"),
)
SOFT = Call(id="mail", tool="send_mail", arguments={"subject": "Hi"}, editable=["/subject"])
DATA = {
    "type": "object",
    "properties": {"vat_id": {"type": "string", "title": "VAT number"}},
    "required": ["vat_id"],
}


def post(person, pause, **fields):
    return browser(person).post(f"/pauses/{pause.shown_id}/decide", {"revision": 1, **fields})


def asked(response):
    """The page that asks again."""
    text = response.content.decode()
    assert response.status_code == 200
    assert "data-sure" in text
    assert not Decision.objects.exists()
    return text


# High risk


def test_a_question_of_high_risk_says_so_and_is_approved_in_two_steps(ruled, ana):
    """Before: nothing on the card said so, and one press decided."""
    order = ruled({"risk": "high"})
    pause = pause_of(order)
    assert (
        '<span class="risk high">High risk</span>'
        in browser(ana).get(f"/work-orders/{order.shown_id}/").content.decode()
    )
    for action in ("approve", "skip"):
        assert "High risk: are you sure?" in asked(post(ana, pause, action=action))
    assert "runs next" in asked(post(ana, pause, action="approve", sure="no"))
    back = post(ana, pause, action="approve", change="", wish="Not yet sent")
    assert "Not yet sent" in back.content.decode() and not Decision.objects.exists()
    assert post(ana, pause, action="approve", sure="yes").status_code == 302
    assert Decision.objects.get().action == "approve"


def test_what_would_be_refused_is_refused_before_anybody_is_asked_whether_they_are_sure(
    ruled, ana, subtests
):
    """The page judges by the rules that decide; before, it knew some of them itself."""
    pause = pause_of(ruled({"risk": "high"}))
    cases: list[tuple[dict[str, Any], int]] = [
        ({"revision": 7}, 409),
        ({"content_digest": "0" * 64}, 409),
        ({"action": "nonsense"}, 422),
        ({"stage": "nonsense"}, 422),
        ({"feedback": "one \0"}, 400),
        ({"edited_content": "Another plan."}, 422),
        ({"feedback": "x" * 20_001}, 400),
    ]
    for wrong, status in cases:
        with subtests.test(ascii(wrong)[:60]):
            given = post(ana, pause, **({"action": "approve", "wish": "left behind"} | wrong))
            assert given.status_code == status
            assert "data-sure" not in given.content.decode()


def test_to_judge_an_answer_takes_nothing(ruled, ana):
    pause = pause_of(ruled({"risk": "high"}))
    judged = services.judge(pause.pk, Answer("approve", Via.PAGE, revision=1), by=ana)
    assert (judged.seat, judged.answer.action) == (ana, "approve")
    pause.refresh_from_db()
    assert (pause.status, pause.attempts, Decision.objects.count()) == ("open", 0, 0)


@pytest.mark.parametrize("action", ["revise", "cancel"])
def test_what_lets_no_run_go_on_takes_one_step(ruled, ana, action):
    assert (
        post(ana, pause_of(ruled({"risk": "high"})), action=action, feedback="No.").status_code
        == 302
    )


def test_programs_and_commands_are_asked_nothing_twice(ruled, ana):
    """Their answer is one call, as the API says."""
    pause = pause_of(ruled({"risk": "high"}))
    assert (
        rest(ana)
        .post(f"/api/v1/pauses/{pause.shown_id}/decisions", {"decision": "approve"}, format="json")
        .status_code
        == 201
    )


def test_who_may_not_answer_and_what_is_refused_is_not_asked_for_twice(ruled, ana, ben):
    """The second look is at an answer that would count."""
    pause = pause_of(
        ruled({"risk": "high", "reviewers": {"users": ["ben"]}, "reason_required": ["approve"]})
    )
    assert post(ana, pause, action="approve", feedback="It is fine.").status_code == 403
    assert post(ben, pause, action="approve").status_code == 422
    assert post(ben, pause, action="approve", feedback="It is fine.", revision=2).status_code == 409
    assert "are you sure" in asked(post(ben, pause, action="approve", feedback="It is fine."))
    services.decide(pause.pk, Answer("cancel", Via.REST), by=ben)
    late = post(ben, pause, action="approve", feedback="It is fine.")
    assert late.status_code == 409
    assert "It is fine." in late.content.decode()


def test_calls_of_high_risk_are_named_and_asked_for_twice_unless_all_are_rejected(order_that, ana):
    order = drive(
        order_that(
            lambda state, context: ask_about_calls(state, context, calls=[SAFE, GRAVE]) or Done()
        )
    )
    pause = pause_of(order)
    assert pause.risk == "high"
    both = {"action": "answer", "call.0.decision": "approve", "call.1.decision": "approve"}
    text = asked(post(ana, pause, **both))
    assert (
        "list_files is called as it stands." in text
        and "drop_table (high risk) is called as it stands." in text
    )
    assert (
        post(ana, pause, **both | {"call.1.decision": "reject", "call.1.reason": "No."}).status_code
        == 302
    )


def test_a_message_that_approves_what_is_of_high_risk_is_asked_for_twice(waiting, page):
    """The words APPROVE on a thread are an answer as a button is."""
    Pause.objects.update(review={"risk": "high"})
    url = f"/threads/{waiting.shown_id}/say"
    pause = Pause.objects.get()
    word = "APPROVE" if "approve" in pause.answers else "Lisbon"
    text = asked(page.post(url, {"text": word}))
    assert f'value="{word}"' in text and url in text
    assert word in page.post(url, {"text": word, "change": ""}).content.decode()
    assert not Decision.objects.exists()
    assert page.post(url, {"text": word, "sure": "yes"}).status_code == 302
    assert Decision.objects.get().pause == pause


# Words that an answer would leave behind


def test_feedback_for_a_revision_is_not_dropped_by_another_answer(ruled, ana):
    """Before: the two stood in forms of their own, so the server never saw what was dropped."""
    pause = pause_of(ruled({}))
    assert "Shorter, please." in asked(post(ana, pause, action="approve", wish="Shorter, please."))
    assert (
        post(ana, pause, action="approve", wish="Shorter, please.", sure="yes").status_code == 302
    )
    assert Decision.objects.get().feedback == ""


def test_data_is_not_dropped_by_an_answer_that_takes_none(order_that, ana):
    """Before: what was filled in went with the button that takes no data."""

    def refusable(state, context):
        answers = {"approve": context.step, "reject": context.step}
        more: dict[str, Any] = {
            "required_inputs": DATA,
            "answers_without_input": ["reject"],
            "labels": {"reject": "Reject"},
        }
        return Ask(
            question="Which?", answers=answers, report=Report(content=""), phase="asking", **more
        )

    order = drive(order_that(refusable))
    pause = pause_of(order)
    text = asked(post(ana, pause, action="reject", **{"input.vat_id": "half typ"}))
    assert "VAT number" in text and "half typ" in text
    assert (
        post(ana, pause, action="reject", **{"input.vat_id": "half typ"}, sure="yes").status_code
        == 302
    )


def test_arguments_that_were_edited_are_not_dropped(order_that, ana):
    """Before: Approve all took each call as it stood, and a rejected call its edit along."""
    order = drive(
        order_that(
            lambda state, context: ask_about_calls(state, context, calls=[SOFT, SAFE]) or Done()
        )
    )
    pause = pause_of(order)
    typed = {"call.0.edit.0": "Hello", "call.0.decision": "edit", "call.1.decision": "approve"}
    assert "Hello" in asked(post(ana, pause, action="approve", **typed))
    rejected = {**typed, "call.0.decision": "reject", "call.0.reason": "No."}
    assert "Hello" in asked(post(ana, pause, action="answer", **rejected))
    assert post(ana, pause, action="answer", **typed).status_code == 302
    assert Decision.objects.get().payload["calls"]["mail"]["arguments"] == {"subject": "Hello"}


def test_of_many_arguments_what_was_changed_is_repeated_first(order_that, ana):
    """Before: a hundred were repeated, and the one that was changed may have been another."""
    many = {f"a{number:03}": number for number in range(150)} | {"amount": 70, "zebra": 1}
    call = Call(id="pay", tool="pay", arguments=many, editable=["/zebra"], risk="high")
    order = drive(
        order_that(lambda state, context: ask_about_calls(state, context, calls=[call]) or Done())
    )
    typed = {"call.0.edit.0": "2", "call.0.decision": "edit"}
    again = asked(post(ana, pause_of(order), action="answer", **typed))
    rows = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", again, re.DOTALL)
    said = [(name, " ".join(value.split())) for name, value in rows]
    assert said[:2] == [("zebra", "<del>1</del> <ins> 2</ins>"), ("amount", "70")]
    assert len(said) == 100 and "52 more arguments, unchanged" in again


# Words that came too late


@pytest.mark.parametrize("end", ["approve", "cancel", "revise"])
def test_words_that_came_too_late_are_shown_as_unsent(ruled, ana, ben, end):
    """What was typed with a late answer was gone."""
    order = ruled({"edits": True})
    pause = pause_of(order)
    services.decide(pause.pk, Answer(end, Via.REST, feedback="x"), by=ben)
    drive(order)
    late = post(ana, pause, action="revise", wish="Shorter, please.", edited_content="Half of it.")
    text = late.content.decode()
    assert late.status_code == 409
    unsent = text[text.index("data-unsent") :].partition("</section>")[0]
    assert (
        "Feedback for the revision" in unsent
        and "Shorter, please." in unsent
        and "Half of it." in unsent
    )
    assert text.count("Shorter, please.") == 1, "on no other question's card"


def test_data_that_came_too_late_is_shown_as_unsent(order_that, ana, ben):
    order = drive(order_that(lambda state, context: Ask(
        question="Which?", answers={"answer": "finish"}, required_inputs=DATA,
        report=Report(content="?"), phase="asking")))  # fmt: skip
    pause = pause_of(order)
    services.decide(pause.pk, Answer("cancel", Via.REST), by=ben)
    text = post(ana, pause, action="answer", **{"input.vat_id": "DE123"}).content.decode()
    assert "VAT number" in text and "DE123" in text


def test_a_refused_form_has_the_words_again(ruled, ana):
    """422: in the fields, each with its error; nothing is unsent."""
    pause = pause_of(ruled({"edits": True, "reason_required": ["approve"]}))
    response = post(ana, pause, action="approve", edited_content="Half of it.", feedback=" ")
    text = response.content.decode()
    assert response.status_code == 422
    assert (
        "Half of it.</textarea>" in text
        and 'id="reason_error"' in text
        and "data-words" not in text
    )
    assert text.count("autofocus") == 1


def test_the_reason_of_a_cancel_that_was_refused_is_shown(ruled, ana):
    order = ruled({"reviewers": {"users": ["ben"]}})
    response = browser(ana).post(
        f"/work-orders/{order.shown_id}/cancel", {"feedback": "No longer needed."}
    )
    assert (response.status_code, "No longer needed." in response.content.decode()) in {
        (403, True),
        (302, False),
    }


def test_arguments_stand_one_by_one_and_edits_of_a_call_are_counted_and_reset(order_that, ana):
    """PEERS 9, 10."""
    mail = Call(
        id="mail",
        tool="send_mail",
        arguments={"subject": "Hi", "to": ["a@x.org", "b@x.org"], "options": {"urgent": False}},
        editable=["/subject"],
    )
    order = order_that(
        lambda state, context: ask_about_calls(state, context, calls=[mail, SAFE]) or Done()
    )
    pause = pause_of(drive(order))
    typed = {"call.0.decision": "edit", "call.0.edit.0": "Hello", "call.1.decision": "approve"}
    text = post(ana, pause, **typed, change="").content.decode()
    for name, value in (("to 2", "b@x.org"), ("options.urgent", "false"), ("subject", "Hi")):
        assert f"<dt>{name}</dt><dd>{value}</dd>" in text
    assert re.search(r"with 1 edit<", text)
    back = post(ana, pause, **typed, change="reset:call.0").content.decode()
    assert "Hello" not in back
    assert not re.search(r"with \d edit", back)
