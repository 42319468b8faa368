"""What a message on a thread's page becomes: a turn, an answer, feedback, or a refusal that keeps
the words.
"""

from __future__ import annotations

import re

import pytest

from checkpoints.models import Checkpoint
from hitl.models import Decision
from runs import definitions
from runs.models import Pause
from runs.threads import turns as turns
from runs.threads.turns import Turn
from tests.databases.whole import rows
from tests.doors.html import join
from tests.doors.thread_page import say as say
from tests.doors.thread_page import url
from tests.doors.thread_page import waiting as waiting
from tests.hitl.views.order_pages import text
from tests.runs.engine.children.crews import work_off
from tests.worlds.scripted_step import order_that
from tests.worlds.steps import on_code
from tests.worlds.talking_threads import FAIL, RAN, thread

pytestmark = pytest.mark.django_db

__all__ = ["order_that", "thread"]


def test_the_word_approve_is_taken_as_approval(say, waiting):
    shown = text(say("APPROVE"))
    assert "Taken as approval." in shown
    assert Decision.objects.get().via == "page"
    assert RAN == ["step1", "step2", "step3"]


def test_the_word_reject_cancels(say, waiting):
    shown = text(say("REJECT"))
    assert "Taken as rejection: the run was cancelled." in shown
    assert "The run was cancelled" in shown
    assert "Cancelled by user" in shown


def test_other_words_are_feedback(say, waiting):
    shown = text(say("approve, but shorter", work=False))
    assert "Sent back with your feedback." in shown
    assert "Re-running step1 with feedback..." in shown
    work_off()
    assert Pause.objects.open().get().revision == 2


def test_words_answer_a_question_that_wants_an_answer(say):
    say("Hello", template="talk-asking")
    assert "Taken as your answer." in text(say("the red one"))


def test_a_failed_run_can_be_resumed(page, say, thread):
    FAIL.add("step2")
    shown = text(say("Hello", template="talk"))
    assert "The line went dead." in shown
    assert ">Resume</button>" in join(shown)
    FAIL.clear()
    response = page.post(url(thread, "resume"), follow=True)
    assert "The failed run continues from the failed step." in text(response)
    work_off()
    assert RAN == ["step1", "step2", "step2", "step3"]


def test_a_new_message_after_a_failure_begins_a_run_and_the_failed_one_may_be_resumed_instead(
    page, say, thread
):
    """S0-77."""
    FAIL.add("step2")
    say("Hello", template="talk")
    FAIL.clear()
    shown = text(say("Are you there?", work=False))
    assert "A new run began. You may resume the failed run instead." in shown
    assert "once the one at work has ended" in shown
    work_off()
    shown = text(page.get(url(thread)))
    assert "You may resume the failed run instead:" in shown
    [checkpoint] = re.findall(r'name="checkpoint" value="(ckpt_\w+)"', shown)
    RAN.clear()
    page.post(url(thread, "resume"), {"checkpoint": checkpoint})
    work_off()
    assert RAN == ["step2", "step3"]
    assert "You may resume" not in text(page.get(url(thread)))


def test_a_thread_takes_no_message_while_a_run_works_and_keeps_the_words(page, say, thread):
    say("Hello", template="talk", work=False)
    shown = text(page.get(url(thread)))
    assert "You can send a message once it asks something or has ended." in shown
    before = rows()
    response = say("Wait, there is more", work=False)
    assert response.status_code == 409
    assert "is pending on this thread" in text(response)
    assert "Wait, there is more" in text(response)
    assert rows() == before


def test_a_message_that_makes_no_sense_sends_nothing(page, thread, subtests):
    on_code()
    before = rows()
    for fields in [
        {"text": ""},
        {"text": "  "},
        {"text": "a\x00", "template": "talk"},
        {"text": "x" * 20_001, "template": "talk"},
        {"text": "Hello"},
        {"text": "Hello", "template": "on-code"},
        {"text": "Hello", "template": "nothing"},
    ]:
        with subtests.test(ascii(fields)[:60]):
            response = page.post(url(thread, "say"), fields)
            assert response.status_code == 422
            assert "Nothing was sent" in text(response)
    assert rows() == before


def test_an_input_that_does_not_fit_the_template_is_refused_in_words(page, say, thread):
    schema = {
        "type": "object",
        "properties": {"amount": {"type": "integer"}},
        "required": ["amount"],
    }
    definitions.edit_template("talk", input_schema=schema)
    response = say("Hello", template="talk")
    assert response.status_code == 422
    assert "Nothing was sent." in text(response)
    assert "amount" in text(response)
    assert "work order" not in text(response).split("data-problem")[1].split("</div>")[0]


def test_a_message_where_only_two_words_are_known_is_refused(say, thread, ana):
    turns.invoke(thread.pk, Turn(template="talk", input={}, interrupt_after=["step1"]), by=ana)
    work_off()
    response = say("go on")
    assert response.status_code == 422
    assert "Only APPROVE or REJECT can be answered here" in text(response)
    assert "Taken as approval." in text(say("APPROVE"))


def test_a_state_that_cannot_be_read_is_said_and_the_page_stays(page, say, thread):
    """C24."""
    say("Hello", template="talk")
    Checkpoint.objects.filter(thread=thread).update(digest="0" * 64)
    response = page.get(url(thread))
    assert response.status_code == 200
    assert "What was said cannot be shown" in text(response)
    assert say("Hello again").status_code == 409
