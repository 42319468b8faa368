"""What was done, and where work stands, is told as it is: commits, deadlines, phases, ends, and a page whose parts agree."""

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

from hitl import postponing, services
from hitl.models import Via
from runs import definitions
from runs.engine.advance import advance
from runs.models import Pause
from runs.phases import words
from runs.workflows.base import Context, Go, Outcome, Report, State, step
from tests.anything import order_that as order_that
from tests.conftest import drive, fresh, pause_of
from tests.databases import file_database as file_database
from tests.deadlines import asked as asked
from tests.deadlines import fire
from tests.runs.repositories import make_repository

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
    found = re.search(r'<p class="state">\s*<span class="status [a-z]*">([^<]*)</span>\s*(?:<span class="phase">([^<]*)</span>)?', html)
    assert found, html
    return found[1], found[2] or ""


def text(response: Any) -> str:
    return str(response.content.decode())


def url(order: Any) -> str:
    return f"/work-orders/{order.shown_id}/"


@pytest.mark.parametrize(("made", "said"), [(2, "2 commits on"), (0, "holds no commits")])
def test_commits_are_counted_though_no_step_delivers(make_order, page, api, ana, tmp_path, made, said):
    """S4-62: with three steps and no `deliver`, `git_commit_count` was 0 and the page said that nothing was left to commit."""
    for slug in ("commit", "look"):
        definitions.edit_step_template(f"told-{slug}", title=slug.capitalize(), function=f"told_test.{slug}", config={})
    working = "told-commit" if made else "told-look"
    steps = [
        {"step_type": kind, "name": name, "step_template_slug": slug}
        for kind, name, slug in (("execute", "one", working), ("execute", "two", working), ("review", "three", "told-look"))
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
        assert said not in shown  # no step opened the repository: nothing is known, so nothing is claimed


def test_a_number_that_a_step_told_stands_where_no_commit_was_made(make_order):
    assert drive(make_order("writing-quick")).outputs == {"git_commit_count": 2}


@pytest.mark.parametrize("rules", [{"after": "PT4H"}, {"after": "PT2H", "calendar": "business", "zone": "UTC"}])
def test_the_next_deadline_of_a_workflow_is_that_of_its_open_question(asked, api, ben, rules):
    """S3-9: `GET workflows/<id>` told the old time after an extension, and null under a calendar."""
    order = asked(deadline=rules)
    pause = pause_of(order)
    assert pause.deadline_at is not None
    where = f"/api/v1/workflows/{order.latest_run.shown_id}"
    assert api(ben).get(where).json()["next_deadline"] == pause.deadline_at.isoformat()
    later = pause.deadline_at + dt.timedelta(minutes=30)
    postponing.extend(pause.pk, by=ben, until=later, reason="Easter")
    assert api(ben).get(where).json()["next_deadline"] == later.isoformat()
    services.decide(pause.pk, action="approve", by=ben, via=Via.PAGE)
    assert api(ben).get(where).json()["next_deadline"] is None


def test_phases_are_words(asked, page):
    """A phase that no table knew stood raw on pages: "Awaiting_text"."""
    assert [words(phase) for phase in ("awaiting_text", "needs_bookkeeper_decision", "awaiting_plan_approval", "suspended", "", "__")] == [
        "Awaiting text", "Needs a bookkeeper's decision", "Awaiting plan approval", "Suspended", "", "",
    ]  # fmt: skip
    order = asked(step={"pause_phase": "awaiting_text"})
    assert status_of(text(page.get(url(order)))) == ("Paused", "Awaiting text")
    for address in (url(order), "/work-orders/", "/"):
        assert "Awaiting_text" not in text(page.get(address))


def test_what_ended_says_how_and_where(asked, make_order, page, ana):
    """Pages said "Expired at executing phase" and "Failed · Executing" of work that nobody executed any more."""
    late = asked(deadline={"after": "PT1H"})
    fire(pause_of(late).pk, now=timezone.now() + dt.timedelta(hours=2))
    shown = text(page.get(url(late)))
    assert status_of(shown) == ("Failed", "Expired at Plan")
    assert "Expired at Plan: nobody answered in time" in shown
    gone = asked()
    services.decide(pause_of(gone).pk, action="cancel", by=ana, via=Via.PAGE)
    assert status_of(text(page.get(url(gone)))) == ("Failed", "Cancelled at Plan")
    broken = drive(make_order("writing-fail"))
    assert status_of(text(page.get(url(broken)))) == ("Failed", "Stopped at Fail")
    listed = text(page.get("/work-orders/"))
    for words_ in ("Expired at Plan", "Cancelled at Plan", "Stopped at Fail"):
        assert words_ in listed
    assert "Executing" not in listed


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_a_page_tells_one_moment(paused, page, ana, monkeypatch):
    """After a revise without JavaScript the page said "Running" above an open card: the run had paused between two of its reads."""
    services.decide(pause_of(paused).pk, action="revise", by=ana, via=Via.PAGE, feedback="shorter")
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
    """Three stood beside each other: "7 Jul 2026, 22:30", "7 July 2026" and what Django or the browser made of it."""
    with timezone.override("Europe/Berlin"):
        drawn = Template(
            '{% moment at %}|{% moment at "exact" %}|{% moment at "day" %}|{% clock at %}|'
            '{% moment at "told" %}|{{ at|told }}|{{ at }}|{% moment none %}'
        ).render(TemplateContext({"at": AT, "none": None}))
        assert re.sub(r"<[^>]*>", "", drawn).split("|") == [
            "8 Jul 2026, 00:30", "8 Jul 2026, 00:30:05", "8 Jul 2026", "00:30:05", "8 Jul 2026, 00:30:05 CEST", "8 Jul 2026, 00:30 CEST",
            "8 Jul 2026, 00:30:05", "",
        ]  # fmt: skip
        assert drawn.count('datetime="2026-07-08T00:30:05+02:00" title="8 Jul 2026, 00:30:05 CEST"') == 5
        for text_ in ("<b>", "2026-13-01", ""):
            assert "<b>" not in Template("{% moment at %}").render(TemplateContext({"at": text_}))


def test_no_page_writes_a_date_its_own_way():
    """What a template needs of dates is a tag or a filter of `hitl.templatetags.hitl`; only machines read `date:'c'`."""
    folder = Path(__file__).resolve().parents[2] / "templates"
    own = {
        str(one.relative_to(folder)): found
        for one in folder.rglob("*.*")
        if (found := [form for form in re.findall(r"\|date:[\"']([^\"']*)", one.read_text()) if form != "c"])
    }
    assert own == {"forensics/_pick_two.html": ["j M Y, H:i:s"]}  # a list of choices holds text alone


def test_a_page_says_its_time_zone_once(page, paused):
    shown = text(page.get(url(paused)))
    assert shown.count("data-zone") == 1 and "<span data-zone>UTC</span>" in shown
    assert re.search(r'data-at="">\d+ [A-Z][a-z]{2} \d{4}, \d\d:\d\d</time>', shown)
