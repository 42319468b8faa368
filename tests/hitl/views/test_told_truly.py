"""What was done, and where work stands, is told as it is: commits, deadlines, phases, ends, and a
page whose parts agree.
"""

from __future__ import annotations

import datetime as dt
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.template import Context as TemplateContext
from django.template import Template
from django.utils import timezone

from checkpoints.models import Event
from hitl.decisions import services, undo
from hitl.decisions.deadlines import changes
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import definitions
from runs.engine.advance import advance
from runs.models import Pause
from runs.phases import words
from runs.workflows.base import Ask, Context, Go, Outcome, Report, State
from runs.workflows.registry import step
from tests.conftest import drive, fresh, pause_of
from tests.databases.whole import file_database as file_database
from tests.doors.html import join
from tests.worlds.deadlines import asked as asked
from tests.worlds.deadlines import fire
from tests.worlds.repositories import make_repository
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db


@step("told_test.commit")
def commit(state: State, context: Context) -> Outcome:
    """Commit one file more, as steps of others do, which tell no numbers."""
    workspace = context.workspace
    workspace.restore()
    (workspace.path / f"{context.step}.txt").write_text("new\n")
    workspace.commit(f"Add {context.step}.txt", [f"{context.step}.txt"])
    return Go(commit=workspace.snapshot())


@step("told_test.look")
def look(state: State, context: Context) -> Outcome:
    return Go(report=Report(content="Looked."))


def status_of(html: str) -> tuple[str, str]:
    """The status and the phase beside it, at the top of a page."""
    found = re.search(
        (
            r'<p class="state">\s*<span class="status [a-z]*">([^<]*)</span>\s*(?:<span '
            r'class="phase">([^<]*)</span>)?'
        ),
        html,
    )
    assert found, html
    return found[1], found[2] or ""


def progress_of(html: str) -> list[tuple[str, str]]:
    """The steps at the top of a page, each with what a screen reader says of it."""
    listed = html.partition('<ol class="steps"')[2].partition("</ol>")[0]
    return re.findall(r'<span>([^<]*)</span><span class="sr">, ([^<]*)</span>', listed)


def timeline_of(html: str) -> list[str]:
    """The lines of the timeline in words, newest first, without how long ago each was."""
    listed = html.partition('<ol class="timeline"')[2].partition("</ol>")[0]
    listed = re.sub(r'<small class="ago">.*?</small>', "", listed)
    return [
        " ".join(re.sub(r"<[^>]*>", " ", line.partition("<div>")[2]).split())
        for line in listed.split("</li>")
    ]


def text(response: Any) -> str:
    return str(response.content.decode())


def url(order: Any) -> str:
    return f"/work-orders/{order.shown_id}/"


@pytest.mark.parametrize(("made", "said"), [(2, "2 commits on"), (0, "holds no commits")])
def test_commits_are_counted_though_no_step_delivers(
    make_order, page, api, ana, tmp_path, made, said
):
    """S4-62: with three steps and no `deliver` it was 0."""
    for slug in ("commit", "look"):
        definitions.edit_step_template(
            f"told-{slug}", title=slug.capitalize(), function=f"told_test.{slug}", config={}
        )
    working = "told-commit" if made else "told-look"
    steps = [
        {"step_type": kind, "name": name, "step_template_slug": slug}
        for kind, name, slug in (
            ("execute", "one", working),
            ("execute", "two", working),
            ("review", "three", "told-look"),
        )
    ]
    definitions.edit_template("told", steps=steps, title="Told", needs_repository=True)
    origin = make_repository(tmp_path / "origin", {"a.py": "a = 1\n"})
    order = drive(make_order("told", repository_url=str(origin)))
    assert order.status == "completed", order.latest_run.error
    assert api(ana).get(f"/api/v1/work-orders/{order.shown_id}").json()["git_commit_count"] == made
    shown = text(page.get(url(order)))
    assert "All steps are done." in shown
    if made:
        assert f"{said} <code>{order.branch}</code>" in shown
    else:
        # no step opened the repository: nothing is known, so nothing is claimed
        assert said not in shown


def test_a_number_that_a_step_told_stands_where_no_commit_was_made(make_order):
    assert drive(make_order("writing-quick")).outputs == {"git_commit_count": 2}


@pytest.mark.parametrize(
    "rules", [{"after": "PT4H"}, {"after": "PT2H", "calendar": "business", "zone": "UTC"}]
)
def test_the_next_deadline_of_a_workflow_is_that_of_its_open_question(asked, api, ben, rules):
    """S3-9: it told the old time after an extension."""
    order = asked(deadline=rules)
    pause = pause_of(order)
    assert pause.deadline_at is not None
    where = f"/api/v1/workflows/{order.latest_run.shown_id}"
    assert api(ben).get(where).json()["next_deadline"] == pause.deadline_at.isoformat()
    later = pause.deadline_at + dt.timedelta(minutes=30)
    changes.extend(pause.pk, by=ben, until=later, reason="Easter")
    assert api(ben).get(where).json()["next_deadline"] == later.isoformat()
    services.decide(pause.pk, Answer("approve", Via.PAGE), by=ben)
    assert api(ben).get(where).json()["next_deadline"] is None


def test_phases_are_words(asked, page):
    """A phase that no table knew stood raw on pages: "Awaiting_text"."""
    assert [words(phase) for phase in ("awaiting_text", "needs_bookkeeper_decision",
        "awaiting_plan_approval", "suspended", "", "__")] == [
        "Awaiting text", "Needs a bookkeeper's decision", "Awaiting plan approval", "Suspended", "",
        "",
    ]  # fmt: skip
    order = asked(step={"pause_phase": "awaiting_text"})
    assert status_of(text(page.get(url(order)))) == ("Paused", "Awaiting text")
    for address in (url(order), "/work-orders/", "/"):
        assert "Awaiting_text" not in text(page.get(address))


def test_what_ended_says_how_and_where(asked, make_order, page, ana):
    """ "Expired at executing phase" was said of work that nobody executed any more."""
    late = asked(deadline={"after": "PT1H"})
    fire(pause_of(late).pk, now=timezone.now() + dt.timedelta(hours=2))
    shown = text(page.get(url(late)))
    assert status_of(shown) == ("Expired", "Expired at Plan Approval")
    assert "Expired at Plan Approval: nobody answered in time" in shown
    assert progress_of(shown)[:3] == [
        ("Plan", "done"),
        ("Plan Approval", "stopped here"),
        ("Finish", "to come"),
    ]
    gone = asked()
    services.decide(pause_of(gone).pk, Answer("cancel", Via.PAGE), by=ana)
    assert status_of(text(page.get(url(gone)))) == ("Cancelled", "Cancelled at Plan Approval")
    broken = drive(make_order("writing-fail"))
    assert status_of(text(page.get(url(broken)))) == ("Failed", "Stopped at Fail")
    listed = text(page.get("/work-orders/"))
    for words_ in ("Expired at Plan Approval", "Cancelled at Plan Approval", "Stopped at Fail"):
        assert words_ in listed
    assert "Executing" not in listed.partition('class="rows')[2]  # above it stand filters


def test_a_question_that_a_step_asks_in_its_midst_is_the_steps_own(order_that, page):
    """The pause after the step was marked."""

    def midway(state: State, context: Context) -> Outcome:
        return Ask(
            question="Which?",
            answers={"answer": context.step},
            phase="which",
            report=Report(content="Here"),
        )

    order = drive(
        order_that(midway, pause_after=True, pause_phase="awaiting_implementation_review")
    )
    assert progress_of(text(page.get(url(order))))[1:3] == [
        ("Anything", "waiting for a person"),
        ("Implementation Review", "to come"),
    ]


def test_what_may_be_undone_is_not_at_work(asked, page, ana):
    """The next step was told to be at work while nothing ran."""
    order = asked(undo=60)
    decision = services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    shown = text(page.get(url(order)))
    assert progress_of(shown)[1:3] == [("Plan Approval", "done"), ("Finish", "next")]
    undo.undo(decision.pk, by=ana, via=Via.PAGE)
    log = Event.objects.filter(thread=order.thread, kind="log").order_by("seq")
    lines = [event.data for event in log]
    assert (lines[-1]["message"], lines[-1]["by"]) == (
        "The answer was taken back before the run went on with it",
        ana.get_full_name() or "ana",
    )


def test_the_timeline_names_answers_as_their_buttons_do(order_that, page, ana):
    """It said “answered “answer””."""

    def gate(state: State, context: Context) -> Outcome:
        if "vat_id" in state:
            return Go()
        return Ask(
            question="Which supplier?", answers={"answer": context.step},
            labels={"answer": "Send the data"}, phase="missing",
            report=Report(content="Here"),
            required_inputs={"type": "object", "properties": {"vat_id": {"type": "string",
            "minLength": 5}}, "required": ["vat_id"]},
        )  # fmt: skip

    order = drive(order_that(gate))
    pause = pause_of(order)
    with pytest.raises(services.AnswerInvalid):
        services.decide(pause.pk, Answer("answer", Via.PAGE, payload={"vat_id": "x"}), by=ana)
    told = timeline_of(text(page.get(url(order))))
    assert told[0].startswith("An answer did not fit; the question stays open revision 1 Vat id:")
    assert [line for line in told if line.startswith("Which supplier?")] == [
        "Which supplier? revision 1"
    ]
    services.decide(pause.pk, Answer("answer", Via.PAGE, payload={"vat_id": "DE136695976"}), by=ana)
    assert any(
        "answered “Send the data”" in line for line in timeline_of(text(page.get(url(order))))
    )


def test_the_form_of_an_order_names_what_its_title_is_made_of(page, templates):
    shown = text(page.get("/work-orders/new?template=writing-quick"))
    assert (
        "Left empty, it is named after the template." in shown
        and 'name="repository_url"' not in shown
    )


def test_an_orders_page_calls_its_input_as_the_form_did(make_order, page):
    """It showed the keys as programs have them, sorted: "push", "target_version"."""
    schema = {
        "type": "object",
        "properties": {
            "zone": {"type": "string", "title": "Time zone"},
            "as_is": {"type": "boolean"},
        },
    }
    steps = [{"step_type": "deliver", "name": "finish", "step_template_slug": "test-finish"}]
    definitions.edit_template(
        "labelled", steps=steps, title="Labelled", needs_repository=False, input_schema=schema
    )
    order = make_order("labelled", input={"as_is": True, "zone": "UTC"})
    shown = join(text(page.get(url(order))))
    assert re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", shown.partition("<h2>Input</h2>")[2])[
        :2
    ] == [
        ("Time zone", "UTC"),
        ("As is", "yes"),
    ]


def test_only_what_was_sent_back_is_said_to_be(order_that, page, ana):

    def twice(state: State, context: Context) -> Outcome:
        return Ask(
            question="Which?",
            answers={"answer": context.step},
            phase="which",
            report=Report(content="Here"),
        )

    order = drive(order_that(twice))
    services.decide(pause_of(order).pk, Answer("answer", Via.PAGE), by=ana)
    shown = text(page.get(url(drive(order))))
    assert "Revision <b>2</b>" in shown and "sent back" not in shown


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_a_page_tells_one_moment(paused, page, ana, monkeypatch):
    """It said "Running" above an open card: the run had paused between two of its reads."""
    services.decide(pause_of(paused).pk, Answer("revise", Via.PAGE, feedback="shorter"), by=ana)
    read = services.open_pauses

    def by_a_worker() -> None:
        try:
            while advance(paused.latest_run_id, budget=60):
                pass
        finally:
            connection.close()

    def after_the_run_paused(order: Any) -> list[Pause]:
        with ThreadPoolExecutor(1) as worker:
            worker.submit(by_a_worker).result()
        assert fresh_status(paused) == "paused"
        return read(order)

    monkeypatch.setattr(services, "open_pauses", after_the_run_paused)
    shown = text(page.get(url(paused)))
    monkeypatch.undo()
    assert status_of(shown)[0] == "Pending"
    assert "data-pause=" not in shown and "Working on your revision…" in shown
    shown = text(page.get(url(paused)))
    assert status_of(shown)[0] == "Paused" and "data-pause=" in shown


def fresh_status(order: Any) -> str:
    """As another connection sees it."""
    with ThreadPoolExecutor(1) as other:

        def status() -> str:
            try:
                return fresh(order).status
            finally:
                connection.close()

        return other.submit(status).result()


AT = dt.datetime(2026, 7, 7, 22, 30, 5, tzinfo=dt.UTC)


def test_dates_have_one_style(settings):
    """Three stood beside each other."""
    with timezone.override("Europe/Berlin"):
        drawn = Template(
            '{% moment at %}|{% moment at "exact" %}|{% moment at "day" %}|{% clock at %}|'
            '{% moment at "told" %}|{{ at|told }}|{{ at }}|{% moment none %}'
        ).render(TemplateContext({"at": AT, "none": None}))
        assert re.sub(r"<[^>]*>", "", drawn).split("|") == [
            "8 Jul 2026, 00:30", "8 Jul 2026, 00:30:05", "8 Jul 2026", "00:30:05",
            "8 Jul 2026, 00:30:05 CEST", "8 Jul 2026, 00:30 CEST",
            "8 Jul 2026, 00:30:05", "",
        ]  # fmt: skip
        assert (
            drawn.count('datetime="2026-07-08T00:30:05+02:00" title="8 Jul 2026, 00:30:05 CEST"')
            == 5
        )
        for text_ in ("<b>", "2026-13-01", ""):
            assert "<b>" not in Template("{% moment at %}").render(TemplateContext({"at": text_}))


def test_no_page_writes_a_date_its_own_way():
    """Only machines read `date:'c'`."""
    folder = Path(__file__).resolve().parents[3] / "templates"
    own = {
        str(one.relative_to(folder)): found
        for one in folder.rglob("*.*")
        if (
            found := [
                form
                for form in re.findall(r"\|date:[\"']([^\"']*)", one.read_text())
                if form != "c"
            ]
        )
    }
    # a list of choices holds text alone
    assert own == {"forensics/_pick_two.html": ["j M Y, H:i:s"]}


def test_a_page_says_its_time_zone_once(page, paused):
    shown = text(page.get(url(paused)))
    assert shown.count("data-zone") == 1 and "<span data-zone>UTC</span>" in shown
    assert re.search(r'data-at="">\d+ [A-Z][a-z]{2} \d{4}, \d\d:\d\d</time>', shown)
