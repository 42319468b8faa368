"""The shell's doors: tokens and work orders by command.

A refusal is a sentence, never a traceback.
"""

from __future__ import annotations

from io import StringIO
from unittest.mock import patch

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from rest_framework.test import APIClient

from checkpoints import ids
from checkpoints.management.shown import PlainCommand
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import ApiToken, Decision, Via
from runs.models import WorkOrder
from runs.workflows.base import Ask, Report
from tests.conftest import drive, fresh, pause_of
from tests.databases.whole import rows
from tests.runs.engine.children.crews import ASKING, asked, sub, worked
from tests.runs.engine.children.crews import crew as crew
from tests.worlds.repositories import make_repository
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.steps import on_code

pytestmark = pytest.mark.django_db


def run(*words):
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def workorder(*words, user="ana"):
    return run("workorder", "--user", user, *words)


def test_the_last_word_of_api_token_is_a_token_that_works(ana):
    secret = run("api_token", "ana").split()[-1]
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    assert client.get("/api/v1/work-orders").status_code == 200


def test_a_token_has_the_scope_and_the_days_that_were_asked_for(ana):
    run("api_token", "ana", "--scope", "read", "--days", "7", "--name", "nightly")
    token = ApiToken.objects.get()
    assert (token.scope, token.name) == ("read", "nightly")
    assert token.expires_at is not None
    assert round((token.expires_at - token.created_at).total_seconds() / 86_400) == 7


@pytest.mark.parametrize(
    ("words", "days"),
    [([], 90), (["--never"], None), (["--days", "0"], None), (["--scope", "ask"], 90)],
)
def test_a_token_of_the_command_line_ends_unless_it_is_to_be_without_end(ana, words, days):
    """It was without end unless somebody thought of its end."""
    run("api_token", "ana", *words)
    token = ApiToken.objects.get()
    ends = token.expires_at
    assert (ends and round((ends - token.created_at).total_seconds() / 86_400)) == days


@pytest.mark.parametrize(
    "words",
    [
        ["nobody"],
        ["ana", "--days", "-1"],
        ["ana", "--days", "9999999"],
        ["ana", "--scope", "all"],
        ["ana", "--name", "x" * 81],
    ],
)
def test_a_token_that_cannot_be_made_is_refused_in_words(ana, words):
    with pytest.raises(CommandError):
        run("api_token", *words)
    assert not ApiToken.objects.exists()


def test_a_deactivated_person_gets_no_token(ana):
    ana.is_active = False
    ana.save()
    with pytest.raises(CommandError, match="'ana'"):
        run("api_token", "ana")
    assert not ApiToken.objects.exists()


def test_an_order_is_made_and_its_id_printed(templates, ana):
    shown = workorder(
        "create",
        "--template",
        "writing",
        "--title",
        "Letter",
        "--request",
        "Dear",
        "--input",
        '{"k": 1}',
    ).strip()
    order = WorkOrder.objects.get(pk=ids.parse("wo", shown))
    assert (order.title, order.request, order.input, order.created_by) == (
        "Letter",
        "Dear",
        {"k": 1},
        ana,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--template", "nothing"], "no template 'nothing'"),
        (["--template", "writing", "--input", "{"], "--input is no JSON"),
        (["--template", "writing", "--input", "[]"], "--input is a JSON object"),
        (["--template", "writing", "--input", '{"a": NaN}'], "input"),
        (["--template", "writing", "--input", "[" * 100_000], "--input is no JSON"),
        (["--template", "writing", "--title", "x" * 201], "title"),
        (["--template", "writing", "--request", "caf\udce9"], "request"),
        (["--template", "on-code"], "repository"),
        (["/nonexistent", "--template", "on-code"], "nonexistent"),
    ],
    ids=range(9),
)
def test_an_order_that_cannot_be_made_is_refused_in_words(templates, ana, words, said):
    on_code()
    with pytest.raises(CommandError, match=said):
        workorder("create", *words)
    assert not WorkOrder.objects.exists()


def test_an_order_that_nobody_here_can_do_is_refused_in_words(templates, ana, tmp_path):
    """The command alone printed a traceback; the page and REST said what to set."""
    project = make_repository(tmp_path / "project", {"README.md": "# Project\n"})
    with pytest.raises(CommandError, match="Nothing here can write code yet"):
        workorder("create", str(project), "--template", "quick-fix-workflow", "--request", "Greet.")
    assert not WorkOrder.objects.exists()


def test_an_order_is_shown_with_its_question(paused):
    text = workorder("show", paused.shown_id)
    assert "awaiting_plan_approval" in text
    assert "Waiting for Plan Approval (revision 1)" in text
    assert "# Plan 1" in text


def test_what_a_step_wrote_steers_no_terminal(order_that):
    """Before: a control sequence in what is asked could hide a part of it from who approves."""
    hidden = "Delete \x1b[2K\rnothing \u202etxt"
    report = Report(summary="Delete", content=hidden)
    order = order_that(
        lambda state, context: Ask(question="Now?", answers={"approve": "finish"}, report=report)
    )
    drive(order)
    shown = workorder("show", order.shown_id)
    assert "Delete ⟦U+001B⟧[2K⟦U+000D⟧nothing ⟦U+202E⟧txt" in shown
    command, told = PlainCommand(), StringIO()
    with patch.object(command, "handle", lambda **_: command.stderr.write("No \x1b[2Ksuch file")):
        call_command(command, stderr=told)
    assert told.getvalue() == "No ⟦U+001B⟧[2Ksuch file\n"


def test_an_order_is_approved_from_the_shell(paused, ben):
    """F4: through the same `decide`."""
    assert workorder("approve", paused.shown_id, user="ben").strip() == "Recorded; the run goes on."
    decision = Decision.objects.get()
    assert (decision.action, decision.via, decision.decided_by.username) == (
        "approve",
        "command",
        "ben",
    )
    assert drive(paused).phase == "awaiting_implementation_review"


def test_an_order_is_sent_back_from_the_shell(paused):
    workorder("revise", paused.shown_id, "Add tests", "--revision", "1")
    assert Decision.objects.get().feedback == "Add tests"
    assert "Add tests" in pause_of(drive(paused)).content


def test_an_order_is_cancelled_from_the_shell(paused):
    """S4-30."""
    assert workorder("cancel", paused.shown_id).strip() == "Cancelled."
    assert fresh(paused).latest_run.error == "Cancelled by user at planning phase"


def test_an_answer_that_cannot_be_taken_is_refused_in_words(paused):
    before = rows()
    for action, words, said in (
        ("approve", ["--revision", "2"], "at revision 1 by now"),
        ("revise", [" "], "needs feedback"),
        ("revise", ["caf\udce9"], "cannot be kept"),
    ):
        with pytest.raises(CommandError, match=said):
            workorder(action, paused.shown_id, *words)
    assert rows() == before


def test_a_stranger_gets_no_further_by_command(paused, zoe):
    """F4."""
    before = rows()
    for action in ("show", "approve", "cancel"):
        with pytest.raises(CommandError, match="There is no such work order"):
            workorder(action, paused.shown_id, user="zoe")
    assert rows() == before


def test_the_second_answer_is_told_who_won(paused, ana):
    """P1."""
    workorder("approve", paused.shown_id)
    drive(paused)
    workorder("cancel", paused.shown_id)
    for action in ("approve", "cancel"):
        with pytest.raises(
            CommandError, match=r"Already cancelled by Ana Ruiz|Cancelled already by Ana Ruiz"
        ):
            workorder(action, paused.shown_id)


def test_an_order_that_waits_for_nobody_takes_no_answer(make_order):
    with pytest.raises(CommandError, match="waits for nobody"):
        workorder("approve", make_order().shown_id)


def test_wrong_names_are_refused_in_words(paused):
    for user, order, said in (
        ("nobody", paused.shown_id, "no active user 'nobody'"),
        ("ana", "wo_1", "is no wo_ id"),
        ("ana", "wo_" + "0" * 26, "no such work order"),
    ):
        with pytest.raises(CommandError, match=said):
            workorder("show", order, user=user)


def test_a_damaged_order_is_refused_in_words(paused):
    """C24."""
    from tests.runs.accidents.losses import damage_head

    damage_head(paused)
    with pytest.raises(CommandError, match="does not match its digest"):
        workorder("approve", paused.shown_id)


def test_an_answer_to_a_question_that_is_no_longer_open_is_refused(paused, ana):
    """F3: the question is named, so the answer cannot land on the next one."""
    old = pause_of(paused)
    services.decide(old.pk, Answer("approve", Via.PAGE), by=ana)
    drive(paused)
    for action in ("approve", "cancel"):
        with pytest.raises(CommandError):
            call_command("workorder", action, paused.shown_id, "--pause", old.shown_id, user="ana")
    assert pause_of(paused).phase == "awaiting_implementation_review"


def test_with_several_questions_open_the_shell_says_so_and_takes_one_by_name(crew, ana):
    """S4-5, F3: child runs ask at the same time."""
    order = worked(crew([sub("one", **ASKING), sub("two", **ASKING)], parallel=True))
    before = rows()
    with pytest.raises(CommandError, match="Several questions are open here"):
        workorder("approve", order.shown_id)
    assert rows() == before
    workorder("approve", order.shown_id, "--pause", asked("two").shown_id)
    assert Decision.objects.get().pause.run.child_name == "two"


def test_the_orders_that_somebody_sees_are_listed_newest_first(paused, make_order, zoe):
    other = make_order(title="Another\u202e one")
    assert [line.split()[0] for line in workorder("list").splitlines()] == [
        other.shown_id,
        paused.shown_id,
    ]
    assert "paused     awaiting_plan_approval" in workorder("list") and "\u202e" not in workorder(
        "list"
    )
    assert workorder("list", "--limit", "1").splitlines()[1] == "… and more: --limit 5 shows more."
    assert workorder("list", user="zoe") == "No work orders.\n"
    with pytest.raises(CommandError, match="from 1 to 500"):
        workorder("list", "--limit", "0")


def test_who_comes_second_is_told_who_was_first_whatever_they_name(paused, ana, ben):
    """Of 241 who came second 15 heard "waits for nobody" or "is at revision 2", and not who had
    answered: where they named the question or its revision and the run had asked again, or had gone
    on.
    """
    first = pause_of(paused)
    services.decide(first.pk, Answer("revise", Via.PAGE, feedback="shorter"), by=ben)
    winner = "Already sent back for revision by Ben"
    for words in ([], ["--pause", first.shown_id]):
        with pytest.raises(CommandError, match=winner):
            workorder("approve", paused.shown_id, *words)
    drive(paused)
    for words in (["--pause", first.shown_id], ["--revision", "1"]):
        with pytest.raises(CommandError, match=f"{winner}.* at revision 2 by now"):
            workorder("approve", paused.shown_id, *words)
    services.decide(pause_of(paused).pk, Answer("approve", Via.PAGE), by=ben)
    with pytest.raises(CommandError, match=winner):
        workorder("approve", paused.shown_id, "--pause", first.shown_id)
    with pytest.raises(CommandError, match="Already approved by Ben"):
        workorder("approve", paused.shown_id)
    api = APIClient()
    api.credentials(HTTP_AUTHORIZATION=f"Bearer {ApiToken.make(ana, name='test')[1]}")
    told = api.post(
        f"/api/v1/work-orders/{paused.shown_id}/resume",
        {"decision": "approve", "pause_id": first.shown_id},
        format="json",
    )
    assert (told.status_code, told.json()["code"], told.json()["decided_by"]) == (
        409,
        "pause_closed",
        "ben",
    )


def test_who_answers_work_that_was_cancelled_at_work_is_told_who_cancelled_it(make_order, ben):
    order = make_order()
    services.cancel_order(order.pk, by=ben, via=Via.PAGE)
    with pytest.raises(CommandError, match="Cancelled already by ben"):
        workorder("approve", order.shown_id)
