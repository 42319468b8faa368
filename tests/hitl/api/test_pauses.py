"""Questions and answers for machines: what a pause looks like, who won, and what nonsense gets."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from django.utils import timezone

from checkpoints.events import log
from checkpoints.models import EventKind
from hitl.api.pauses.fields import DecisionIn
from hitl.decisions import claims
from hitl.models import Decision
from runs.models import Pause
from tests.conftest import drive, fresh, pause_of
from tests.databases.whole import rows
from tests.doors.rest import ORDERS, problem
from tests.doors.rest import ana_api as ana_api

pytestmark = pytest.mark.django_db


@pytest.fixture
def ben_api(ben, api):
    return api(ben)


@pytest.fixture
def url(paused):
    return f"{ORDERS}/{paused.shown_id}"


@pytest.fixture
def unchanged(paused, ana_api):
    """Nothing in the whole database may change during the test."""
    before = rows()
    yield
    assert rows() == before


def resume(client, url, **answer):
    return client.post(f"{url}/resume", answer, format="json")


def test_a_pause_that_is_open_has_no_answer_yet(ana_api, url, paused):
    """S4-13, S4-33, S4-20: all fields of the document are asked for by its checklist."""
    state = ana_api.get(f"{url}/pause-state").json()
    assert state["id"] == pause_of(paused).shown_id
    assert [
        state[name] for name in ("resume_timestamp", "user_decision", "user_feedback", "decided_by")
    ] == [None] * 4
    assert (state["status"], state["state"], state["revision"]) == ("active", "open", 1)
    assert state["created_at"] == state["pause_timestamp"]


def test_a_pause_says_when_it_last_changed(ana_api, paused, ana):
    """S4-13: `updated_at` was when it was opened, whatever became of it, until it was closed."""
    address = f"/api/v1/pauses/{pause_of(paused).shown_id}"
    times = [ana_api.get(address).json()["updated_at"]]
    for path, body in (("claim", {}), ("release", {}), ("decisions", {"decision": "approve"})):
        assert ana_api.post(f"{address}/{path}", body, format="json").status_code < 300
        times.append(ana_api.get(address).json()["updated_at"])
    assert sorted(set(times)) == times


def test_after_the_last_round_revise_is_no_answer_any_more(ana_api, url, paused):
    """F28."""
    for number in (1, 2, 3):
        resume(ana_api, url, decision="revise", feedback=str(number))
        drive(paused)
    assert ana_api.get(f"{url}/pause-state").json()["answers"] == ["approve", "cancel"]
    problem(resume(ana_api, url, decision="revise", feedback="4"), 422, "revisions_exhausted")


def test_a_patch_under_review_comes_with_the_pause(ana_api, url, paused):
    resume(ana_api, url, decision="approve")
    drive(paused)
    assert ana_api.get(f"{url}/pause-state").json()["patch"].startswith("diff --git a/x b/x")


def test_an_unchanged_pause_state_costs_no_body(ana_api, url):
    """S4-67, C2: what is asked where there is no socket."""
    etag = ana_api.get(f"{url}/pause-state")["ETag"]
    again = ana_api.get(f"{url}/pause-state", headers={"if-none-match": etag})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", etag)
    assert "no-cache" in again["Cache-Control"]
    assert "private" in again["Cache-Control"]


def test_whatever_happens_on_the_order_changes_its_etag(ana_api, url, paused):
    """S4-67, S4-33."""
    etag = ana_api.get(f"{url}/pause-state")["ETag"]
    log.append(paused.thread_id, None, [(EventKind.LOG, {"message": "x"})])
    changed = ana_api.get(f"{url}/pause-state", headers={"if-none-match": etag})
    assert changed.status_code == 200
    assert changed["ETag"] != etag
    resume(ana_api, url, decision="approve")
    assert (
        ana_api.get(f"{url}/pause-state", headers={"if-none-match": changed["ETag"]}).json() is None
    )


@pytest.mark.one_database
def test_a_claim_that_lapses_is_news_though_nothing_is_written(ana_api, ben, url, paused):
    """S4-67: who polled was told for ever that somebody else has it."""
    claims.claim(pause_of(paused).pk, by=ben)
    held = ana_api.get(f"{url}/pause-state")
    assert "approve" not in held.json()["review"]["may_answer"]
    Pause.objects.update(claimed_until=timezone.now() - dt.timedelta(seconds=1))
    free = ana_api.get(f"{url}/pause-state", headers={"if-none-match": held["ETag"]})
    assert free.status_code == 200
    assert "approve" in free.json()["review"]["may_answer"]


def test_the_etag_tells_a_stranger_nothing(url, ana_api, zoe, api):
    etag = ana_api.get(f"{url}/pause-state")["ETag"]
    problem(api(zoe).get(f"{url}/pause-state", headers={"if-none-match": etag}), 404, "not_found")


@pytest.mark.parametrize("decision", ["approve", "cancel"])
def test_an_answer_gets_success(ana_api, url, decision):
    """S4-32, and what was recorded: whoever answered had to ask again for the decision's id."""
    response = resume(ana_api, url, decision=decision)
    assert (response.status_code, response.json()["success"]) == (200, True)
    told = response.json()["decision"]
    assert (told["id"], told["action"], told["decided_by"]) == (
        Decision.objects.get().shown_id,
        decision,
        "ana",
    )


@pytest.mark.one_database
def test_null_is_as_left_out_wherever_an_answer_may_leave_something_out(ana_api, url):
    """S4-32: `feedback: str | None`, as the document types it, was 400."""
    optional = [name for name, field in DecisionIn().fields.items() if not field.required]
    answer = resume(ana_api, url, decision="approve", **dict.fromkeys(optional))
    assert (answer.status_code, "feedback" in optional) == (200, True), answer.json()
    assert answer.json()["decision"]["feedback"] == ""


def test_the_second_answer_is_told_who_was_first(ana_api, ben_api, url):
    """P1, F0, F8; which answers it may be: `matrix/races`."""
    resume(ana_api, url, decision="approve")
    before = rows()
    lost = problem(resume(ben_api, url, decision="cancel", feedback="x"), 409, "pause_closed")
    assert (lost["decided_by"], lost["decision"]) == ("ana", "approve")
    assert lost["decided_at"] == Decision.objects.get().decided_at.isoformat()
    assert lost["detail"].startswith("Already approved by Ana Ruiz at")
    assert rows() == before


def test_an_answer_to_another_revision_gets_the_new_content(ana_api, ben_api, url, paused):
    """F16, C8."""
    resume(ana_api, url, decision="revise", feedback="Add tests")
    drive(paused)
    before = rows()
    stale = problem(resume(ben_api, url, decision="approve", revision=1), 409, "revision_mismatch")
    assert (stale["revision"], stale["pause_id"]) == (2, pause_of(paused).shown_id)
    assert "Add tests" in stale["pause_content"]
    assert rows() == before


def test_an_answer_to_other_content_is_not_given_to_this_one(ana_api, url, paused):
    """P6: the digest of what was seen counts here too; it was passed over without a word."""
    before = rows()
    problem(
        resume(ana_api, url, decision="approve", content_digest="0" * 64), 409, "revision_mismatch"
    )
    assert rows() == before
    seen = pause_of(paused).content_digest
    assert resume(ana_api, url, decision="approve", content_digest=seen).status_code == 200


def test_an_answer_to_another_question_is_not_given_to_this_one(ana_api, url, paused):
    """F3."""
    first = pause_of(paused).shown_id
    resume(ana_api, url, decision="approve", pause_id=first)
    drive(paused)
    problem(resume(ana_api, url, decision="approve", pause_id=first), 409, "revision_mismatch")
    assert fresh(paused).phase == "awaiting_implementation_review"


@pytest.mark.usefixtures("unchanged")
def test_an_answer_that_cannot_be_taken_says_what_is_missing(ana_api, url, subtests):
    """C8, F20: the question stays open."""
    answers: list[tuple[dict[str, Any], str, str]] = [
        ({"decision": "revise"}, "feedback_required", "feedback"),
        ({"decision": "revise", "feedback": "  \n"}, "feedback_required", "feedback"),
        ({"decision": "revise", "feedback": None}, "feedback_required", "feedback"),
        ({"decision": "maybe"}, "unknown_answer", "decision"),
        ({"decision": "APPROVE"}, "unknown_answer", "decision"),
        ({"decision": "skip_review"}, "unknown_answer", "decision"),
    ]
    for answer, code, field in answers:
        with subtests.test(ascii(answer)[:60]):
            assert problem(resume(ana_api, url, **answer), 422, code)["errors"][field]


NO_JSON = [
    "",
    "{",
    "null",
    "[]",
    "5",
    '"approve"',
    "{}",
    '["approve"]',
    "[" * 100_000,
    '{"a":' * 50_000,
    '{"decision": "\xff"'.encode("latin-1"),
]
NO_DECISION: list[object] = [None, "", ["approve"], {"a": 1}, "approve\x00", "\ud800", "x" * 65]
NO_FEEDBACK: list[object] = [["x"], "a\x00", "\udfff", "x" * 20_001]
NO_REVISION: list[object] = [0, -1, "x", 1.5, 10**2000, []]
NO_PAUSE: list[object] = [{}, "x" * 41, "a\x00"]
NONSENSE = [
    *NO_JSON,
    *(json.dumps({"decision": decision}) for decision in NO_DECISION),
    *(json.dumps({"decision": "revise", "feedback": feedback}) for feedback in NO_FEEDBACK),
    *(json.dumps({"decision": "approve", "revision": revision}) for revision in NO_REVISION),
    *(json.dumps({"decision": "approve", "pause_id": pause_id}) for pause_id in NO_PAUSE),
]


@pytest.mark.usefixtures("unchanged")
def test_nonsense_is_refused_and_the_question_stays_open(ana_api, paused, subtests):
    for body in NONSENSE:
        for place in ["resume", "decisions"]:
            with subtests.test(ascii((body, place))[:60]):
                paths = {
                    "resume": f"{ORDERS}/{paused.shown_id}/resume",
                    "decisions": f"/api/v1/pauses/{pause_of(paused).shown_id}/decisions",
                }
                response = ana_api.post(paths[place], body, content_type="application/json")
                problem(response, 400, response.json()["code"])


def test_feedback_comes_back_to_the_letter(ana_api, url, paused):
    """F28: what was said is what is kept and shown."""
    pause = pause_of(paused)
    odd = "\U0001f9d0 é\u202e <script>alert(1)</script> {{ revision_feedback }} '; DROP TABLE"
    odd = odd.ljust(20_000, "x")
    assert resume(ana_api, url, decision="revise", feedback=odd).status_code == 200
    assert ana_api.get(f"/api/v1/pauses/{pause.shown_id}").json()["user_feedback"] == odd


def test_open_questions_are_listed_and_answered_ones_only_on_request(ana_api, url, paused):
    """F9."""
    pause = pause_of(paused)
    assert [found["id"] for found in ana_api.get("/api/v1/pauses?open=1").json()["results"]] == [
        pause.shown_id
    ]
    resume(ana_api, url, decision="approve")
    assert ana_api.get("/api/v1/pauses?open=1").json()["results"] == []
    [found] = ana_api.get("/api/v1/pauses").json()["results"]
    assert (found["user_decision"], found["answers"]) == ("approve", [])


def test_questions_that_changed_are_read_alone(ana_api, paused, make_order, api, zoe):
    """Those that one does not see are left out without a word."""
    first, second = pause_of(paused).shown_id, pause_of(drive(make_order())).shown_id

    def asked(by, *named):
        return by.get("/api/v1/pauses", {"open": 1, "ids": ",".join(named)})

    assert [found["id"] for found in asked(ana_api, first).json()["results"]] == [first]
    assert len(asked(ana_api, first, second).json()["results"]) == 2
    assert asked(api(zoe), first, second).json()["results"] == []
    for nonsense in ([first + "x"], ["pse_x"], [first, ""], [first] * 51):
        problem(asked(ana_api, *nonsense), 400, "invalid")


def test_an_answer_to_a_damaged_order_is_a_problem_and_no_crash(ana_api, url, paused):
    """C24: said in words, nothing lost, the question stays open."""
    from tests.runs.accidents.losses import damage_head

    damage_head(paused)
    before = rows()
    problem(resume(ana_api, url, decision="approve"), 409, "checkpoint_damaged")
    assert rows() == before
    assert ana_api.get(f"{url}/pause-state").json()["status"] == "active"
