"""Pictures that the server draws: the same facts give the same picture, and words beside it."""

from __future__ import annotations

import datetime as dt
import uuid

import pytest
from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext

from checkpoints.models import EventKind
from hitl.operations import flow
from hitl.rendering.diagrams import path, times, workflow
from hitl.rendering.diagrams.path import Trace
from hitl.rendering.diagrams.times import Moment

START = dt.datetime(2026, 1, 5, 9, tzinfo=dt.UTC)


def at(seconds):
    return START + dt.timedelta(seconds=seconds)


def moment(seconds, kind, step="", loop=1):
    return Moment(at(seconds), str(kind), {"step": step, "loop_num": loop} if step else {})


APPROVED = [
    moment(2, EventKind.RUN_STARTED),
    moment(2, EventKind.STEP_STARTED, "plan"),
    moment(5, EventKind.STEP_COMPLETED, "plan"),
    moment(5, EventKind.RUN_PAUSED),
    moment(65, EventKind.RUN_RESUMED),
    moment(66, EventKind.STEP_STARTED, "work"),
]


def test_time_is_told_apart_by_who_had_the_work():
    """A run's time is at work, waiting for people, or waiting for its turn; no second is lost."""
    spans = times.spans(APPROVED, asked_at=at(0), now=at(76))
    assert [(span.what, span.step, span.length.total_seconds()) for span in spans] == [
        ("queue", "plan", 2),
        ("work", "plan", 3),
        ("people", "plan", 60),
        ("queue", "work", 1),
        ("work", "work", 10),
    ]
    assert spans[-1].open
    assert sum((span.length for span in spans), dt.timedelta(0)) == dt.timedelta(seconds=76)


def test_the_pause_before_another_try_and_a_timer_are_no_time_at_work():
    """Once they are over, the run waits for a worker."""
    again = Moment(
        at(70), str(EventKind.LOG), {"step": "work", "code": "tries_again", "seconds": 20}
    )
    sleeps = Moment(
        at(95), str(EventKind.LOG), {"step": "work", "code": "sleeps", "until": at(200).isoformat()}
    )
    told = Moment(at(75), str(EventKind.LOG), {"step": "work", "message": "a line of a step's own"})
    moments = [
        *APPROVED,
        again,
        told,
        moment(93, EventKind.STEP_STARTED, "work"),
        moment(95, EventKind.STEP_COMPLETED, "work"),
        sleeps,
    ]
    spans = times.spans(moments, asked_at=at(0), now=at(150))
    assert [(span.what, span.length.total_seconds()) for span in spans[4:]] == [
        ("work", 4),
        ("retry", 20),
        ("queue", 3),
        ("work", 2),
        ("timer", 55),
    ]
    assert spans[-1].open
    late = times.spans(moments, asked_at=at(0), now=at(203))
    assert [(span.what, span.open) for span in late[-2:]] == [("timer", False), ("queue", True)]
    spent = {"work": 9, "people": 60, "children": 0, "timer": 105, "retry": 20, "queue": 9}
    assert times.seconds(late) == spent


def test_a_wait_for_an_event_is_no_time_of_people():
    asked = Moment(at(5), str(EventKind.AWAIT_HUMAN_INPUT), {"step": "plan", "kind": "external"})
    spans = times.spans([*APPROVED[:3], asked, *APPROVED[3:]], asked_at=at(0), now=at(76))
    assert times.total(spans, times.TIMER) == dt.timedelta(seconds=60)
    assert not times.total(spans, times.PEOPLE)


def test_a_run_that_waits_for_its_child_runs_is_neither_at_work_nor_in_a_queue():
    """From the step's end until the last of them ended; from then on it waits for a worker."""
    gathers = Moment(at(5), str(EventKind.LOG), {"step": "plan", "code": "waits_for_children"})
    asks = Moment(at(30), str(EventKind.LOG), {"child": "a", "message": "asks"})
    ended = Moment(at(65), str(EventKind.LOG), {"child": "a", "code": "children_ended"})
    moments = [*APPROVED[:3], gathers, asks, ended, moment(67, EventKind.STEP_COMPLETED, "plan")]
    spans = times.spans(moments, asked_at=at(0), now=at(70))
    assert [(span.what, span.step, span.length.total_seconds()) for span in spans] == [
        ("queue", "plan", 2),
        ("work", "plan", 3),
        ("children", "plan", 60),
        ("queue", "plan", 5),
    ]
    assert times.seconds(spans, "plan")["children"] == 60
    open_still = times.spans(moments[:5], asked_at=at(0), now=at(40))[-1]
    assert (open_still.what, open_still.open) == ("children", True)
    stray = times.spans([*APPROVED, ended], asked_at=at(0), now=at(70))
    assert [span.what for span in stray] == ["queue", "work", "people", "queue", "work"]


def test_time_after_an_end_counts_for_nobody_until_the_work_is_taken_up_again():
    failed = [*APPROVED, moment(70, EventKind.RUN_FAILED)]
    assert times.spans(failed, asked_at=at(0), now=at(9999))[-1].end == at(70)
    again = [
        *failed,
        moment(500, EventKind.RUN_STARTED),
        moment(501, EventKind.STEP_STARTED, "work"),
    ]
    spans = times.spans(again, asked_at=at(0), now=at(505))
    assert times.total(spans, times.WORK, "work") == dt.timedelta(seconds=8)
    assert times.total(spans, times.QUEUE, "work") == dt.timedelta(seconds=2)


def test_a_lost_worker_makes_no_second_bar_and_no_way():
    """The step begins again under the same number: it is the same time at work."""
    begun_again = [*APPROVED, moment(90, EventKind.STEP_STARTED, "work")]
    spans = times.spans(begun_again, asked_at=at(0), now=at(100))
    assert [span.step for span in spans if span.what == "work"] == ["plan", "work"]
    assert times.ways(begun_again) == [("plan", "work")]


def test_a_clock_that_was_behind_draws_nothing_backwards():
    spans = times.spans([moment(-5, EventKind.STEP_STARTED, "plan")], asked_at=at(0), now=at(-2))
    assert all(span.length >= dt.timedelta(0) for span in spans)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "under 0.1 s"),
        (1.25, "1.2 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (7205, "2 h"),
        (7500, "2 h 5 min"),
        (370_000, "4 d 6 h"),
    ],
)
def test_a_length_is_told_in_two_units_at_most(seconds, words):
    assert times.in_words(dt.timedelta(seconds=seconds)) == words


def test_a_german_page_has_commas_in_its_lengths_and_names_that_fit_before_a_bar():
    """Before: "unter 0,1 s" stood beside "0.2 s", and a name ran over the number behind it."""
    with translation.override("de"):
        assert times.in_words(dt.timedelta(seconds=0.25)) == "0,2 s"
    for language, _ in settings.LANGUAGES:
        with translation.override(language):
            names = [gettext(row[0]) for rows in (flow.AGES, flow.SPEEDS) for row in rows]
            assert max(map(len, names)) <= 20, names


def test_a_chart_has_a_row_for_each_line_within_its_width():
    chart = times.chart([("Plan", times.spans(APPROVED, asked_at=at(0), now=at(76)))])
    assert (chart.rows[0].work, chart.rows[0].people) == ("13 s", "1 min")
    assert all(bar.x + bar.width <= chart.width for bar in chart.rows[0].bars)
    assert times.chart([]) is None


def step(name, **more):
    return {
        "name": name,
        "function": f"example.{name}",
        "title": name.capitalize(),
        "pause_after": False,
        "pause_phase": "",
        "revise_to": name,
        "choices": [],
        **more,
    }


STEPS = [
    step("plan", pause_after=True, pause_phase="awaiting_plan_approval"),
    step(
        "work",
        pause_after=True,
        pause_phase="awaiting_look",
        revise_to="plan",
        choices=[{"name": "skip", "label": "Skip the check", "to": "ship"}],
    ),
    step("check", skip_when={"type": "object"}),
    step("ship", sub_steps=[step("pack"), step("send")]),
]


def test_a_template_is_drawn_with_its_pauses_its_ways_back_and_its_choices():
    picture = workflow.draw(STEPS)
    assert [(node.kind, node.title) for node in picture.nodes] == [
        ("step", "Plan"),
        ("pause", "Plan Approval"),
        ("step", "Work"),
        ("pause", "Answer"),
        ("step", "Check"),
        ("step", "Ship"),
        ("end", "End"),
    ]
    assert picture.nodes[5].note == "child runs: Pack, Send"
    drawn = [(arc.kind, arc.label, arc.left) for arc in picture.arcs if arc.kind != "next"]
    assert drawn == [
        ("revise", "Revise", True),
        ("skip", "passed over", False),
        ("choice", "Skip the check", False),
        ("revise", "Revise", True),
    ]
    assert picture.sentences[1] == (
        "Work. Then a person is asked: Answer. Revise leads to Plan. Skip the check leads to Ship."
    )
    assert workflow.draw(STEPS) == picture


def test_arrows_beside_each_other_do_not_lie_on_each_other():
    """Two ways back over the same boxes get a lane each; one below them takes the first again."""
    arcs = [arc for arc in workflow.draw(STEPS).arcs if arc.kind == "revise"]
    assert arcs[0].x != arcs[1].x
    apart = workflow.draw([step("a", pause_after=True), step("b", pause_after=True)])
    assert len({arc.x for arc in apart.arcs if arc.kind == "revise"}) == 1


def test_a_run_is_drawn_with_where_it_stands_and_the_ways_that_only_its_steps_knew():
    progress = [{"state": state} for state in ("done", "done", "now", "todo", "todo", "todo")]
    standing = workflow.standing_of(STEPS, progress, {"plan": "3 s at work"}, [("work", "plan")])
    picture = workflow.draw(STEPS, standing)
    assert [node.state for node in picture.nodes] == ["done", "done", "now", *["todo"] * 3, ""]
    assert [arc.left for arc in picture.arcs if arc.kind == "taken"] == [True]
    assert picture.sentences[0].startswith("Plan, done, 3 s at work. Then a person is asked")
    assert picture.detours == ["The run went from Work to Plan."]


def traced(*rows):
    """Checkpoints by letters: `(key, parent, step, loop, asks)`."""
    keys = {name: uuid.UUID(int=number) for number, (name, *_) in enumerate(rows, 1)}
    return keys, [
        Trace(keys[name], keys.get(parent), step, loop, asks)
        for name, parent, step, loop, asks in rows
    ]


def test_a_path_counts_loops_on_the_line_and_tells_what_lies_on_other_branches():
    keys, traces = traced(
        ("a", None, "", 0, False),
        ("b", "a", "plan", 1, True),
        ("c", "b", "work", 1, False),
        ("d", "c", "work", 2, True),
        ("answer", "b", "plan", 1, False),
        ("e", "answer", "plan", 2, True),
        ("f", "e", "ship", 1, False),
    )
    there = path.path_of(STEPS, traces, keys["f"], at="", waiting=False)
    assert [(step.title, len(step.line), len(step.aside)) for step in there.steps] == [
        ("Plan", 3, 0),
        ("Work", 0, 2),
        ("Ship", 1, 0),
    ]
    assert there.standing.notes["plan"] == "done 2 times"
    assert there.standing.notes["work"] == "2 times on other branches"
    assert there.standing.taken == [("plan", "ship")]
    assert there.standing.steps == {"plan": "done", "ship": "done"}
    waits = path.path_of(STEPS, traces[:4], keys["d"], at="work", waiting=True)
    assert waits.standing.pauses == {"plan": "done", "work": "now"}
    assert "The run went from Plan to Ship." in workflow.draw(STEPS, there.standing).detours
