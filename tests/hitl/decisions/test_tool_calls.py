"""Tool approval through every door: a question about several calls, decided one by one in one
answer.
"""

from __future__ import annotations

import pytest

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.forms.tool_calls import CallRow
from hitl.ledger import evidence
from hitl.models import Decision, Via
from runs import services as runs
from runs.models import Pause
from runs.services import InputInvalid
from runs.services.forks import NothingToFork
from runs.threads import turns as turns
from runs.workflows import tool_calls
from runs.workflows.base import Ask, Done, Report
from runs.workflows.tool_calls import Call
from runs.workflows.wait_for_input import ask_about_calls
from tests.conftest import drive, fresh, pause_of, state_at_head
from tests.doors.html import fold, join
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db

WANTED = [
    Call(
        id="mail",
        tool="send_mail",
        arguments={"to": "ana@example.org", "subject": "Hi"},
        editable=["/subject"],
        preview="Mails *Ana*.",
    ),
    Call(id="drop", tool="drop_table", arguments={"name": "orders", "cascade": True}, risk="high"),
    Call(id="list", tool="list_files", arguments={}),
]
MADE: list[tuple[str, dict[str, object]]] = []


HARMLESS = [WANTED[0], WANTED[2]]


def act(state, context, wanted=WANTED):
    if asked := ask_about_calls(state, context, calls=wanted):
        return asked
    for call in tool_calls.approved(context, context.step, wanted):
        context.once(call.id, lambda call=call: MADE.append((call.id, dict(call.arguments))))
    return Done(update={"refused": tool_calls.rejected(context, context.step)})


@pytest.fixture
def waiting(order_that):
    MADE.clear()
    return drive(order_that(act))


ANSWER = {
    "calls": {
        "mail": {"decision": "edit", "arguments": {"to": "ana@example.org", "subject": "Hello"}},
        "drop": {"decision": "reject", "reason": "not on a Friday"},
        "list": {"decision": "approve"},
    }
}


def test_each_call_is_decided_by_itself_and_the_rejected_one_is_never_made(waiting, ana, api):
    """S2-26, F5: over REST; the event before anything is called names the calls."""
    pause = pause_of(waiting)
    assert (pause.kind, pause.phase, pause.answers_without_input) == (
        "tools",
        "awaiting_tool_approval",
        ["approve"],
    )
    assert MADE == []
    shown = api(ana).get(f"/api/v1/pauses/{pause.shown_id}").json()
    assert (
        shown["kind"],
        [call["id"] for call in shown["calls"]],
        shown["calls"][0]["editable"],
    ) == (
        "tools",
        ["mail", "drop", "list"],
        ["/subject"],
    )
    event = waiting.thread.events.get(kind="await_human_input").data
    assert [call["tool"] for call in event["calls"]] == ["send_mail", "drop_table", "list_files"]
    body = {"decision": "answer", "revision": 1, "input": ANSWER}
    assert (
        api(ana).post(f"/api/v1/pauses/{pause.shown_id}/decisions", body, format="json").status_code
        == 201
    )
    order = drive(waiting)
    assert (order.status, MADE) == (
        "completed",
        [("mail", {"to": "ana@example.org", "subject": "Hello"}), ("list", {})],
    )
    assert state_of(order)["refused"] == {"drop": "not on a Friday"}
    decision = Decision.objects.get()
    assert (decision.payload, decision.intact) == (ANSWER, True)


def test_approving_all_makes_each_as_it_was_shown(order_that, ana):
    MADE.clear()
    order = drive(order_that(lambda state, context: act(state, context, HARMLESS)))
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    assert drive(order).status == "completed"
    assert [name for name, _ in MADE] == ["mail", "list"]
    assert MADE[0][1]["subject"] == "Hi"


def test_a_call_of_high_risk_is_never_approved_along_with_others(waiting, ana, page):
    """Bulk has brakes: each is decided by itself, at every door."""
    with pytest.raises(services.AnswerInvalid, match="not an answer here"):
        services.decide(pause_of(waiting).pk, Answer("approve", Via.REST), by=ana)
    assert "Approve all" not in page.get(f"/work-orders/{waiting.shown_id}/").content.decode()
    assert MADE == []


def test_an_answer_that_does_not_decide_each_as_it_may_leaves_the_question_open(waiting, ana):
    """S3-33: 422 with the place; counted, and asked again in words."""
    some = {name: ANSWER["calls"][name] for name in ("drop", "list")}
    unasked = {**ANSWER["calls"], "drop": {"decision": "reject"}}
    for attempts, (calls, path) in enumerate(
        [(some, "input.calls.mail"), (unasked, "input.calls.drop.reason")], 1
    ):
        given = Answer("answer", Via.REST, payload={"calls": calls})
        with pytest.raises(services.AnswerInvalid) as refused:
            services.decide(pause_of(waiting).pk, given, by=ana)
        assert path in refused.value.errors
        pause = pause_of(waiting)
        assert (pause.attempts, bool(pause.refined)) == (attempts, True)
    assert not Decision.objects.exists()


def test_the_digest_covers_the_calls(order_that):
    """F16: other arguments are other content."""
    first = pause_of(
        drive(order_that(lambda state, context: ask_about_calls({}, context, calls=WANTED[:1])))
    )
    other = Call(
        id="mail",
        tool="send_mail",
        arguments={"to": "eve@example.org", "subject": "Hi"},
        editable=["/subject"],
        preview="Mails *Ana*.",
    )
    second = pause_of(
        drive(order_that(lambda state, context: ask_about_calls({}, context, calls=[other])))
    )
    assert first.content == second.content
    assert first.content_digest != second.content_digest


def test_the_receipt_shows_the_calls_that_were_decided_on(waiting, ana, page):
    """P11: what the reviewer saw of each is kept with the decision."""
    services.decide(pause_of(waiting).pk, Answer("answer", Via.PAGE, payload=ANSWER), by=ana)
    decision = Decision.objects.get()
    kept = evidence.load(decision)
    assert [(call["tool"], call["arguments"]) for call in kept["calls"]] == [
        (call.tool, dict(call.arguments)) for call in WANTED
    ]
    assert kept["kind"] == "tools"
    shown = page.get(f"/decisions/{decision.shown_id}/").content.decode()
    assert "drop_table" in shown
    assert "cascade: True" in shown


def test_a_step_that_asks_again_gets_nothing_from_the_answer_before(order_that, ana):
    """F17: what was decided is of the calls that were asked about, in the loop that asked."""
    made: list[int] = []

    def twice(state, context):
        wanted = [Call(id="c", tool="t", arguments={"loop": 1 if not state.get("looped") else 2})]
        if asked := ask_about_calls(
            state, context, calls=wanted, update={"looped": context.loop_num > 2}
        ):
            return asked
        made.extend(
            call.arguments["loop"] for call in tool_calls.approved(context, context.step, wanted)
        )
        return (
            Done()
            if state.get("looped")
            else Ask(
                question="More?",
                answers={"approve": context.step},
                report=Report(content=""),
                update={"looped": True},
            )
        )

    order = drive(order_that(twice))
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    services.decide(pause_of(drive(order)).pk, Answer("approve", Via.PAGE), by=ana)
    order = drive(order)
    assert (made, pause_of(order).kind) == ([1], "tools")
    payload = {"calls": {"c": {"decision": "reject", "reason": "no"}}}
    services.decide(pause_of(order).pk, Answer("answer", Via.PAGE, payload=payload), by=ana)
    assert (drive(order).status, made) == ("completed", [1])


def test_nobody_hands_in_an_approval(waiting, ana, order_that):
    """F6: not as input, state, fork, or another question's answer."""
    forged = {
        tool_calls.DECISIONS: {
            "execute": {
                "drop": {"decision": "approve", "tool": "drop_table", "arguments": {}, "reason": ""}
            }
        }
    }
    thread = turns.open_thread(by=ana)
    with pytest.raises(InputInvalid, match="alone"):
        turns.invoke(thread.pk, turns.Turn(template="writing", input=forged), by=ana)
    run = turns.invoke(thread.pk, turns.Turn(template="writing", state={**forged, "x": 1}), by=ana)
    # a whole state that was read elsewhere is taken without it
    assert state_at_head(run.thread_id) == {"x": 1}
    pause = pause_of(waiting)
    with pytest.raises(services.AnswerInvalid, match="alone"):
        services.decide(pause.pk, Answer("answer", Via.REST, payload=ANSWER, update=forged), by=ana)
    services.decide(pause.pk, Answer("cancel", Via.PAGE), by=ana)
    with pytest.raises(NothingToFork, match="alone"):
        runs.fork(pause.checkpoint_id, by=ana, reason="why not", state=forged)
    other = order_that(
        lambda state, context: Ask(
            question="?",
            answers={"answer": ""},
            report=Report(content=""),
            required_inputs={"type": "object"},
        )
    )
    with pytest.raises(services.AnswerInvalid, match="alone"):
        services.decide(
            pause_of(drive(other)).pk, Answer("answer", Via.REST, payload=forged), by=ana
        )


@pytest.mark.parametrize(
    "wanted",
    [
        [Call(id="a", tool="t"), Call(id="a", tool="t")],
        [Call(id="a", tool="t", arguments={"password": "x"})],
        [Call(id="token", tool="t")],
    ],
)
def test_calls_that_cannot_be_kept_fail_their_step_in_words(order_that, wanted):
    """F5, F14."""
    order = drive(order_that(lambda state, context: ask_about_calls(state, context, calls=wanted)))
    assert (order.status, order.latest_run.failure_code) == ("failed", "calls_refused")
    assert not Pause.objects.exists()


def test_the_card_has_a_choice_per_call_and_keeps_what_was_typed(waiting, ana, page):
    """S2-26: radios, a reason, fields for what may be changed; without JavaScript."""
    pause = pause_of(waiting)
    text = page.get(f"/work-orders/{waiting.shown_id}/").content.decode()
    assert text.count('type="radio" name="call.') == 3 + 2 + 2
    assert "Mails <em>Ana</em>." in text
    assert "high risk" in text
    assert "Tool approval" in text
    typed = {
        "action": "answer",
        "revision": 1,
        "call.0.decision": "edit",
        "call.0.edit.0": "Hello",
        "call.1.decision": "reject",
    }
    answered = page.post(f"/pauses/{pause.shown_id}/decide", typed)
    text = fold(answered.content.decode())
    assert answered.status_code == 422
    assert "Say why this call is rejected." not in text  # first every call needs a choice
    assert 'value="edit" checked' in text
    assert "Hello</textarea>" in text
    typed |= {"call.2.decision": "approve"}
    answered = page.post(f"/pauses/{pause.shown_id}/decide", typed)
    assert "Say why this call is rejected." in answered.content.decode()
    answered = page.post(
        f"/pauses/{pause.shown_id}/decide", typed | {"call.1.reason": "not on a Friday"}
    )
    assert answered.status_code == 302
    assert Decision.objects.get().payload == ANSWER
    assert fresh(waiting).status == "pending"


def test_the_second_look_repeats_each_call_with_its_arguments_and_what_was_changed(waiting, page):
    """Issue 36: it named the tools alone."""
    typed = {
        "action": "answer",
        "call.0.decision": "edit",
        "call.0.edit.0": "Hello",
        "call.1.decision": "approve",
        "call.2.decision": "approve",
    }
    answered = page.post(f"/pauses/{pause_of(waiting).shown_id}/decide", typed)
    shown = join(answered.content.decode())
    assert answered.status_code == 200 and "<code>drop_table</code>" in shown
    assert "<dt>name</dt><dd>orders</dd>" in shown and "<dt>cascade</dt><dd>true</dd>" in shown
    assert "<dt>subject</dt><dd><del>Hi</del><ins>Hello</ins></dd>" in shown
    assert "<dt>to</dt><dd>ana@example.org</dd>" in shown


def test_whom_and_how_much_come_first_and_stand_there_of_any_number_of_arguments():
    many = {f"note{number}": "x" for number in range(200)}
    call = {"arguments": {"subject": "Hi", "payment": {"iban": "DE1", "amount": 5}}, "editable": []}
    row = CallRow(call=call, name="call.0")
    assert row.shown == [
        ("payment.iban", "DE1", True),
        ("payment.amount", "5", True),
        ("subject", "Hi", False),
    ]
    row = CallRow(call={"arguments": {**many, "to": "ana"}, "editable": []}, name="call.0")
    assert (row.shown, row.fields) == ([("to", "ana", True)], [])


def test_an_edit_that_was_typed_beside_approve_is_not_dropped_silently(waiting, page):
    pause = pause_of(waiting)
    typed = {
        "action": "answer",
        "call.0.decision": "approve",
        "call.0.edit.0": "Hello",
        "call.1.decision": "approve",
        "call.2.decision": "approve",
    }
    answered = page.post(f"/pauses/{pause.shown_id}/decide", typed)
    assert answered.status_code == 422
    assert "keeps its arguments" in answered.content.decode()


ASKED = [
    Call(id="mail", tool="send_mail", arguments={"to": "ana"}, answerable=True, risk="high"),
    Call(id="list", tool="list_files", arguments={}),
]


@pytest.fixture
def answerable(order_that):
    MADE.clear()
    return drive(order_that(lambda state, context: act(state, context, ASKED)))


def test_a_result_of_ones_own_comes_with_respond_alone_and_in_words(answerable, ana, api, subtests):
    """422 with the place over REST; no word is dropped silently."""
    address, client = f"/api/v1/pauses/{pause_of(answerable).shown_id}/decisions", api(ana)
    approve, said = {"decision": "approve"}, {"result": "It was sent."}
    for mail, listing, place in [
        ({"decision": "respond"}, approve, "mail.result"),
        ({"decision": "respond", "result": " "}, approve, "mail.result"),
        ({"decision": "respond", "result": "x" * (tool_calls.RESULT + 1)}, approve, "mail.result"),
        (approve | said, approve, "mail.result"),
        ({"decision": "reject", "reason": "no"} | said, approve, "mail.result"),
        ({"decision": "edit", "arguments": {"to": "x"}}, approve, "mail.decision"),
        (approve, {"decision": "respond"} | said, "list.decision"),  # it cannot be answered
    ]:
        with subtests.test(ascii((mail, listing))[:60]):
            calls = {"mail": mail, "list": listing}
            body = {"decision": "answer", "revision": 1, "input": {"calls": calls}}
            refused = client.post(address, body, format="json")
            assert refused.status_code == 422
            assert f"input.calls.{place}" in refused.json()["errors"]
    assert not Decision.objects.exists()


def test_the_page_takes_a_result_in_the_tools_place_and_the_receipt_says_whose_it_is(
    answerable, ana, page
):
    """Of high risk nothing is done, so nobody is asked twice."""
    pause = pause_of(answerable)
    text = page.get(f"/work-orders/{answerable.shown_id}/").content.decode()
    assert text.count('value="respond"') == text.count('name="call.0.result"') == 1
    typed = {"action": "answer", "revision": 1, "call.0.decision": "respond"}
    typed["call.1.decision"] = "approve"
    refused = page.post(f"/pauses/{pause.shown_id}/decide", typed)
    assert refused.status_code == 422 and "Say what the call" in refused.content.decode()
    typed["call.0.result"] = "Sent by hand."
    assert page.post(f"/pauses/{pause.shown_id}/decide", typed).status_code == 302
    assert drive(answerable).status == "completed" and MADE == [("list", {})]
    decision = Decision.objects.get()
    assert decision.payload["calls"]["mail"] == {"decision": "respond", "result": "Sent by hand."}
    receipt = page.get(f"/decisions/{decision.shown_id}/").content.decode()
    assert f"Answered by {decision.who}" in receipt and "Sent by hand." in receipt
