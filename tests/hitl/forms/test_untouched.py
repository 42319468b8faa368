"""A question's form on its page: what a browser sends of it untouched is what the step knew."""

import pytest
from django.urls import reverse

from hitl.models import Decision
from runs.workflows.base import Ask, Report
from tests.conftest import drive, pause_of
from tests.hitl.forms.controls import Controls
from tests.worlds.scripted_step import order_that as order_that

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
KNOWN = {
    "ends": "9999-12-31T23:59:59Z",
    "starts": "2026-10-25T02:30:00+01:00",
    "lines": [" two\nlines", ""],
    "parts": 5.0,
    "urgent": None,
}
MOMENT = {"type": "string", "format": "date-time"}
ASKED = {
    "type": "object",
    "required": sorted(KNOWN),
    "properties": {
        "ends": MOMENT,
        "starts": MOMENT,
        "lines": {"type": "array", "items": {"type": "string"}},
        "parts": {"type": "integer"},
        "urgent": {"anyOf": [{"type": "boolean"}, {"type": "null"}], "default": None},
    },
}


def test_a_question_is_answered_as_it_was_known_where_nobody_touched_it(order_that, page, settings):
    """Tried after camunda#21346 and airflow#72375: a page that could not be opened, a wrong hour.

    The page of the last day there is, in a zone that is ahead, was a server error.
    """
    settings.TIME_ZONE = "Europe/Berlin"

    def ask(state, context):
        return Ask(
            question="When?",
            answers={"answer": "finish"},
            required_inputs=ASKED,
            known=KNOWN,
            phase="asking",
            report=Report(content="Terms."),
        )

    pause = pause_of(drive(order_that(ask)))
    shown = page.get(reverse("hitl:order", args=[pause.run.work_order_id]))
    assert shown.status_code == 200
    controls = Controls()
    controls.feed(shown.content.decode().split('id="answer"', 1)[1].split("</form>", 1)[0])
    sent = {name: text for name, text in controls.posted if name != "csrfmiddlewaretoken"}
    sent["action"] = "answer"
    assert page.post(reverse("hitl:decide", args=[pause.pk]), sent).status_code == 302
    assert Decision.objects.get().payload == KNOWN
