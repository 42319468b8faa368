"""What the steps of a tidy-up understand is said by a pure function of the state."""

from __future__ import annotations

import pytest

from extensions.repo_tidy.feedback import ExecutionFeedback, PlanFeedback, vocabulary
from extensions.repo_tidy.scope import TidyScope

SCOPE = TidyScope(
    select=["F", "I"], paths=[], changes=[], target_version="py311", unsafe_fixes=False
)
FILES = ["src/a.py", "src/two words.py", "tests/b.py"]
RULE = {"code": "I001", "name": "unsorted imports", "count": 3, "fixable": 2, "examples": []}
PLAN = {
    "rules": [{**RULE, "files": FILES[:2]}, {**RULE, "code": "F401", "fixable": 0, "files": []}]
}
STATE = {"scope": SCOPE, "plan": PLAN, "vocabulary": vocabulary(["F401", "I001", "UP007"], FILES)}


@pytest.mark.parametrize(
    ("words", "applied", "not_understood"),
    [
        ("don't bother with import sorting", [], ["bother import sorting"]),
        ("skip I001; make it nice", ["left out I001"], ["make it nice"]),
        ("not in tests/", ["left out `tests`"], []),
    ],
)
def test_words_about_a_plan_are_read_as_the_step_reads_them(words, applied, not_understood):
    read = PlanFeedback().read(STATE, words)
    assert read is not None
    assert ([text.replace("**/", "") for text in read.applied], list(read.not_understood)) == (
        applied,
        not_understood,
    )


def test_before_there_is_a_plan_the_words_are_an_orders():
    state = {**STATE, "plan": None}
    assert PlanFeedback().read(state, "tidy up").not_understood == []
    assert PlanFeedback().read(state, "a login page").nothing


def test_what_was_done_takes_nothing_beyond_its_plan():
    read = ExecutionFeedback().read(STATE, "add UP007, skip I001")
    assert read.applied == ["left out I001"]
    assert read.not_understood == ["added UP007 (not part of the approved plan)"]


def test_each_suggestion_is_understood_as_it_is_sent():
    suggestions = PlanFeedback().suggestions(STATE)
    assert [one.words for one in suggestions] == [
        "skip I001",
        'skip "src/a.py"',
        'skip "src/two words.py"',
    ]
    whole = "; ".join(one.words for one in suggestions) + ";\nonly tests/"
    read = PlanFeedback().read(STATE, whole)
    assert read.not_understood == [] and len(read.applied) == 4


def test_orders_of_before_and_huge_repositories_say_nothing():
    assert vocabulary([], ["x.py"] * 30_000) is None
    assert PlanFeedback().read({**STATE, "vocabulary": None}, "green") is None
    assert PlanFeedback().read({}, "green") is None and PlanFeedback().suggestions({}) == []
