"""Files that steps make: people save them, later steps read them, and no crash doubles one."""

from __future__ import annotations

import pytest
from django.urls import reverse

from hitl.testing import survives_every_crash
from runs.models import Artifact
from runs.workflows import Done, File, Go, StepFailed, read, step, workflow
from runs.workflows.base.files import LONGEST, told
from tests.conftest import drive
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

PDF = b"%PDF-1.7 the offer"
READ: list[bytes] = []


@pytest.mark.django_db
def test_a_file_that_a_step_makes_is_kept_for_people_and_for_later_steps(
    order_that, page, api, ana
):
    def makes(state, context):
        context.artifact("offer.pdf", b"a draft")
        return Done(update={"offer": context.artifact("offer.pdf", PDF)})

    order = drive(order_that(makes))
    assert order.status == "completed"
    held = state_of(order)["offer"]
    assert read(File, held) == File("offer.pdf", len(PDF), held["sha256"])
    [row] = Artifact.objects.all()
    assert (row.filename, row.media, row.size, row.step) == (
        "offer.pdf",
        "application/pdf",
        len(PDF),
        "execute",
    )
    got = api(ana).get(f"/api/v1/artifacts/{row.shown_id}/content")
    assert (got.content, got["Content-Disposition"]) == (PDF, 'attachment; filename="offer.pdf"')
    shown = page.get(reverse("hitl:order", args=[order.shown_id])).content.decode()
    assert "→ offer.pdf</a>" in shown and shown.count("offer.pdf") == 1


@pytest.mark.django_db
def test_what_a_person_hands_in_under_the_same_name_stays(order_that, settings):
    settings.WAYSTATION_ARTIFACTS_BYTES = len(PDF) + 3

    def makes(state, context):
        kept = {"run_id": order.latest_run_id, "thread_id": order.thread_id, "step": "execute"}
        Artifact.objects.create(
            **kept, loop_num=1, name="offer", media="text/plain", digest="0" * 64, size=99
        )
        context.artifact("offer", PDF)
        context.artifact("other", b"1234")
        raise AssertionError("what a run keeps has a bound")

    order = order_that(makes)
    run = drive(order).latest_run
    assert (run.status, run.failure_code) == ("failed", "artifacts_too_large")
    names = Artifact.objects.order_by("name").values_list("name", flat=True)
    assert list(names) == ["offer", "→ offer"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("", PDF), (" ", PDF), (" a", PDF), ("a/b", PDF), ("a\nb", PDF), ("a" * (LONGEST + 1), PDF),
        ("a", b""), ("a", bytes(5_000_001)),
    ],
    ids=lambda given: str(given[:20]),
)  # fmt: skip
def test_what_cannot_be_a_file_is_refused_in_words(name, content):
    with pytest.raises(StepFailed) as refused:
        told(name, content)
    assert refused.value.code == "file_refused"


@step("made.write")
def write(state, context):
    return Go(update={"report": context.artifact("report.txt", b"12 rows")})


@step("made.send")
def send(state, context):
    content = context.content_of(state["report"])
    context.once("send", lambda: READ.append(content))
    return Done()


def test_no_crash_loses_or_doubles_it():
    made = workflow("made", title="Make a file", steps=[write, send])
    survived = survives_every_crash(made, fresh=READ.clear)
    assert survived.crashes > 3 and set(READ) == {b"12 rows"}
