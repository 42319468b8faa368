"""An order by repo-tidy whose words it cannot serve waits for others, through the engine and in
both templates.
"""

from __future__ import annotations

import pytest

from hitl.decisions import services as people
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import services
from tests.conftest import drive, fresh, pause_of
from tests.worlds.histories.whole_story import broken
from tests.worlds.repositories import UNTIDY, make_repository

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("templates")]


@pytest.mark.parametrize(
    ("template", "then"), [("repo-tidy", "awaiting_plan_approval"), ("repo-tidy-quick", "")]
)
def test_an_order_that_repo_tidy_cannot_serve_pauses_and_goes_on_with_words_that_it_understands(
    tmp_path, ana, api, template, then
):
    """Before: "Add auth" was linted and delivered as done."""
    folder = make_repository(tmp_path / "origin", UNTIDY)
    order = drive(services.submit(template, by=ana, repository_url=str(folder), request="Add auth"))
    pause = pause_of(order)
    assert (order.status, order.phase) == ("paused", "request_not_understood")
    state = api(ana).get(f"/api/v1/work-orders/{order.shown_id}/pause-state").json()
    assert "Nothing has been planned or changed." in state["pause_content"]
    refused = api(ana).post(
        f"/api/v1/work-orders/{order.shown_id}/resume", {"decision": "approve"}, format="json"
    )
    assert 400 <= refused.status_code < 500
    with pytest.raises(people.AnswerInvalid, match="“make it safe”"):
        people.decide(pause.pk, Answer("revise", Via.PAGE, feedback="make it safe"), by=ana)
    people.decide(pause.pk, Answer("revise", Via.PAGE, feedback="only F401 in src/"), by=ana)
    order = drive(fresh(order))
    if then:
        assert order.phase == then
        plan = pause_of(order)
        assert "**Understood of the request:** only F401; only `src`." in plan.content
        for action in ("approve", "skip_review"):
            people.decide(pause_of(order).pk, Answer(action, Via.PAGE), by=ana)
            order = drive(fresh(order))
    assert (order.status, order.outputs["git_commit_count"]) == ("completed", 1)
    assert broken() == {}
