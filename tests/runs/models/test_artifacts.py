"""What steps kept for people: as long as it is needed, in a thread's document, sealed, and gone
with its thread.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone
from jsonschema import Draft202012Validator

from checkpoints import store
from checkpoints.export.schema import document_schema
from checkpoints.export.thread_document import ImportRefused
from checkpoints.models import Blob, Chore
from checkpoints.retention import housekeeping
from checkpoints.state import codec
from hitl.threads import erasure
from hitl.threads import export as whole
from runs import retention
from runs import services as runs
from runs.models import Artifact, Run
from runs.states import RunStatus
from runs.workflows.base import Ask, Go, Report
from tests.conftest import drive, pause_of
from tests.databases.encryption_keys import NEW, dump, keys
from tests.databases.whole import rows
from tests.runs.engine.children.crews import ASKING, crew, sub, work_off
from tests.worlds.histories.documents import alike
from tests.worlds.histories.exported import bring_in, holds, read
from tests.worlds.scripted_step import order_that as order_that

__all__ = ["crew"]
pytestmark = pytest.mark.django_db

DAY = dt.timedelta(days=1)
SAID = "All that the agent printed"


def keeps(state, context):
    context.keep("output", SAID)
    return Go(to=None)


def asks(state, context):
    context.keep("output", SAID)
    return Ask(question="Well?", answers={"approve": "finish"}, report=Report(content="x"))


def age(settings, *, days=2.0):
    """Everything was kept some days ago, and a day is how long things are kept."""
    settings.WAYSTATION_KEEP_DAYS = 1
    then = timezone.now() - days * DAY
    Artifact.objects.update(created_at=then)
    Blob.objects.update(touched_at=then)
    Chore.objects.update(busy_until=then)


def prune(**more):
    return retention.prune(now=timezone.now(), **more)


@pytest.fixture
def kept(order_that):
    """The artifact of an order that is done."""
    order = drive(order_that(keeps))
    assert order.status == "completed"
    return Artifact.objects.get(thread=order.thread_id)


# retention


def test_an_old_text_goes_and_its_line_says_so(kept, settings, api, client, ana):
    """The list, the page and the API say what was dropped and when; a blob that nothing else names
    is freed.
    """
    order = kept.run.work_order
    age(settings)
    dry, done = prune(dry_run=True), prune()
    assert (
        (dry.rows["artifacts"], dry.bytes["artifacts"])
        == (done.rows["artifacts"], done.bytes["artifacts"])
        == (1, len(SAID))
    )
    assert dry.rows["blobs"] == done.rows["blobs"] >= 1
    assert not Blob.objects.filter(pk=kept.digest).exists()
    listed = api(ana).get(f"/api/v1/work-orders/{order.shown_id}/artifacts").data["results"]
    assert (
        listed == api(ana).get(f"/api/v1/threads/{order.thread.shown_id}/artifacts").data["results"]
    )
    assert (listed[0]["digest"], listed[0]["size"]) == ("", len(SAID)) and listed[0]["dropped_at"]
    answer = api(ana).get(f"/api/v1/artifacts/{kept.shown_id}")
    assert (answer.status_code, answer.data["code"]) == (410, "artifact_dropped")
    client.force_login(ana)
    page = client.get(f"/work-orders/{order.shown_id}/").content.decode()
    assert f"/artifacts/{kept.shown_id}" not in page and "dropped on" in page
    gone = client.get(f"/artifacts/{kept.shown_id}")
    assert gone.status_code == 410 and b"not kept any more" in gone.content
    assert prune().rows["artifacts"] == 0 and holds() == []


def test_a_young_text_stays_and_so_does_all_where_nothing_is_dropped(kept, settings):
    age(settings, days=0.5)
    assert prune().rows["artifacts"] == 0
    age(settings, days=500)
    settings.WAYSTATION_KEEP_DAYS = 0
    assert prune().rows["artifacts"] == 0
    assert store.get_blob(kept.digest).decode() == SAID


def test_what_a_waiting_run_was_told_stays(order_that, settings):
    """A paused run's is evidence for who will answer."""
    order = drive(order_that(asks))
    age(settings)
    assert prune().rows["artifacts"] == 0
    assert pause_of(order) and store.get_blob(Artifact.objects.get().digest).decode() == SAID


def test_a_child_runs_texts_stay_while_a_run_above_it_waits(crew, settings, ana):
    """They are on the page of the order that is still to be answered."""
    order = crew([sub("a"), sub("b", **ASKING)], parallel=True)
    work_off()
    child = Run.objects.get(child_name="a")
    assert child.status == RunStatus.COMPLETED
    with transaction.atomic():
        digest = store.put_blob(SAID.encode())
    Artifact.objects.create(
        thread=child.thread,
        run=child,
        step="s",
        loop_num=1,
        name="output",
        digest=digest,
        size=len(SAID),
    )
    age(settings)
    assert prune().rows["artifacts"] == 0
    runs.cancel(order.pk, by=ana)
    age(settings)
    assert prune().rows["artifacts"] == 1


def test_a_text_that_something_else_names_too_loses_one_of_its_names(order_that, settings):
    old, young = (Artifact.objects.get(thread=drive(order_that(keeps)).thread_id) for _ in range(2))
    age(settings)
    Artifact.objects.filter(pk=young.pk).update(created_at=timezone.now())
    assert old.digest == young.digest and prune().rows["artifacts"] == 1
    assert store.get_blob(young.digest).decode() == SAID


def test_a_death_between_dropping_and_freeing_leaves_the_rest_to_the_next_round(
    kept, settings, monkeypatch
):
    class Killed(BaseException):
        pass

    def die(held):
        raise Killed

    age(settings)
    with monkeypatch.context() as patched:
        patched.setattr(housekeeping, "_begin_marking", die)
        with pytest.raises(Killed):
            prune()
    kept.refresh_from_db()
    assert kept.dropped_at and kept.digest == "" and Blob.objects.filter(size=len(SAID)).exists()
    age(settings)
    assert prune().rows["blobs"] >= 1
    assert not Blob.objects.filter(size=len(SAID)).exists() and holds() == []


def test_a_death_within_dropping_drops_nothing(kept, settings, monkeypatch):
    def die(*args, **kwargs):
        raise KeyboardInterrupt

    age(settings)
    monkeypatch.setattr("checkpoints.retention.rules.weigh", die)
    with pytest.raises(KeyboardInterrupt):
        prune()
    kept.refresh_from_db()
    assert kept.dropped_at is None and store.get_blob(kept.digest).decode() == SAID


def test_the_database_refuses_a_line_that_says_both_or_neither(kept):
    for harm in (
        {"digest": ""},
        {"dropped_at": "2026-01-01T00:00:00Z"},
        {"run": None},
        {"imported_run": "0198aaaa-0000-7000-8000-000000000000"},
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            Artifact.objects.filter(pk=kept.pk).update(**harm)


# documents


def document_of(artifact) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(codec.encode(whole.export(artifact.thread_id)))
    Draft202012Validator(document_schema()).validate(document)
    return document


def test_artifacts_go_with_their_thread_and_come_out_again(kept, zoe, client):
    """With their texts, times and runs; a dropped one as what it is.

    Shown to who imports them, and to nobody else.
    """
    Artifact.objects.create(
        thread=kept.thread,
        run=kept.run,
        step="s",
        loop_num=2,
        name="prompt",
        digest="",
        size=7,
        dropped_at=timezone.now(),
    )
    document = document_of(kept)
    assert [(one["name"], one["digest"]) for one in document["artifacts"]] == [
        ("output", kept.digest),
        ("prompt", ""),
    ]
    thread = bring_in(document, zoe)
    there = Artifact.objects.filter(thread=thread).order_by("pk")
    assert (there[0].run, there[0].created_at) == (Run.objects.get(thread=thread), kept.created_at)
    assert alike(document_of(there[0])) == alike(document)
    client.force_login(zoe)
    assert (
        f"/artifacts/{there[0].shown_id}"
        in client.get(f"/threads/{thread.shown_id}/").content.decode()
    )
    assert client.get(f"/artifacts/{there[0].shown_id}").content.decode() == SAID
    assert client.get(f"/artifacts/{kept.shown_id}").status_code == 404
    assert holds() == []


def test_those_of_runs_that_are_only_history_come_along_age_and_go(kept, zoe, settings, api, ana):
    """A template that is not known here makes no run; what it kept is there all the same, and
    erased with its thread.
    """
    document = document_of(kept)
    document["runs"][0] |= {"definition": "0" * 64, "template_slug": "nowhere"}
    thread = bring_in(document, zoe)
    there = Artifact.objects.get(thread=thread)
    assert there.run is None and there.imported_run
    again = document_of(there)
    assert again["artifacts"][0]["run_id"] == again["runs"][0]["id"]
    listed = api(zoe).get(f"/api/v1/threads/{thread.shown_id}/artifacts").data["results"]
    assert listed[0]["run_id"] == again["runs"][0]["id"]
    assert api(ana).get(f"/api/v1/threads/{thread.shown_id}/artifacts").status_code == 404
    age(settings)
    assert prune().rows["artifacts"] == 2
    erasure.erase(thread.pk, by="op", reason="asked")
    assert not Artifact.objects.filter(thread=thread).exists()


def no_blob(document):
    del document["blobs"][document["artifacts"][0]["digest"]]


def twice(document):
    document["artifacts"] *= 2


def two_of_one_execution(document):
    other = document["artifacts"][0]
    document["artifacts"].append(
        {**other, "id": other["id"][:-1] + ("0" if other["id"][-1] != "0" else "1")}
    )


def both(document):
    document["artifacts"][0]["dropped_at"] = timezone.now().isoformat()


def a_nul(document):
    document["artifacts"][0]["name"] = "a\x00b"


REFUSALS = {
    no_blob: "blob_missing",
    twice: "duplicate_id",
    two_of_one_execution: "duplicate_id",
    both: "document_invalid",
    a_nul: "document_invalid",
}


def test_nonsense_among_artifacts_is_refused_and_leaves_nothing(kept, zoe):
    before, refusals = rows(), {}
    for harm in REFUSALS:
        document = document_of(kept)
        harm(document)
        try:
            whole.load(read(document), owner=zoe)
        except ImportRefused as refused:
            refusals[harm] = refused.code
    assert refusals == REFUSALS and rows() == before


def test_a_dump_shows_no_text_where_there_is_a_key_and_a_document_does(order_that, zoe):
    with keys(NEW):
        artifact = Artifact.objects.get(thread=drive(order_that(keeps)).thread_id)
        assert SAID not in dump()
        thread = bring_in(document_of(artifact), zoe)
        assert SAID not in dump()
        assert store.get_blob(Artifact.objects.get(thread=thread).digest).decode() == SAID


def test_an_erasure_takes_the_text_along(kept):
    Blob.objects.update(touched_at=timezone.now() - DAY)
    erasure.erase(kept.thread_id, by="op", reason="asked")
    assert not Artifact.objects.exists() and not Blob.objects.filter(pk=kept.digest).exists()
