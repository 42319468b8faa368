import json
import os
import sys

import pytest
from jsonschema import Draft202012Validator

from extensions.repo_tidy import steps
from extensions.repo_tidy.tools import batches
from runs.workflows.base import Ask
from runs.workflows.registry import find
from tests.worlds.repositories import UNTIDY, Desk, codes, deliver_all, failure, make_repository


@pytest.fixture
def origin(tmp_path):
    return make_repository(tmp_path / "origin", UNTIDY)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A desk with its plan, and what that came to."""
    folder = tmp_path_factory.mktemp("planned")
    desk = Desk(folder, make_repository(folder / "origin", UNTIDY))
    return desk, desk.take(steps.plan)


@pytest.fixture
def desk(tmp_path, made):
    """A copy of it for each test."""
    return made[0].copied_to(tmp_path)


@pytest.fixture
def planned(made):
    return made[1]


def test_the_steps_are_registered_under_their_names():
    for name in ("plan", "execute", "review", "deliver"):
        assert find(f"repo_tidy.{name}") is getattr(steps, name)


def test_the_input_schema_is_one_and_takes_its_own_defaults():
    Draft202012Validator.check_schema(steps.INPUT_SCHEMA)
    defaults = {name: field["default"] for name, field in steps.INPUT_SCHEMA["properties"].items()}
    assert Draft202012Validator(steps.INPUT_SCHEMA).is_valid(defaults)
    assert not Draft202012Validator(steps.INPUT_SCHEMA).is_valid({"rules": "--fix"})


def test_a_plan_says_what_will_be_fixed_and_what_only_reported(desk, planned):
    # F401 counts the typing imports as well, which nobody needs once UP006 and UP045 are done
    assert codes(desk) == {
        "F401": 5,
        "I001": 1,
        "UP006": 1,
        "UP032": 1,
        "UP045": 1,
        "E711": 0,
        "E741": 0,
        "UP035": 0,
    }
    text = planned.report.content
    assert text.startswith("# Plan: 9 fixes in 3 files\n")
    assert "| E741 | ambiguous variable name | 1 | 0 | reported only, no automatic fix |" in text
    assert "| UP032 | f string | 1 | 1 | fixed in 1 file, one commit |" in text
    assert "`src/other.py` (UP032, I001)" in text
    assert "There is no check command" in text
    assert planned.report.facts["Fixes"] == 9
    assert planned.commit.sha == planned.commit.base == desk.state["plan"]["base"]


def test_the_same_commit_and_scope_give_the_same_bytes_and_leave_no_trace(
    desk, planned, tmp_path, origin
):
    again = Desk(tmp_path / "another", origin).take(steps.plan)
    assert again.report == planned.report
    assert json.dumps(again.update) == json.dumps(planned.update)
    with desk.workspace() as workspace:
        assert workspace.git("status", "--porcelain", "--ignored") == ""
        assert workspace.head() == workspace.base()


def test_feedback_narrows_the_plan_and_says_how_it_was_read(desk):
    outcome = desk.take(steps.plan, "skip F401, not in tests/; and make it shine")
    assert codes(desk) == {
        "I001": 1,
        "UP006": 1,
        "UP032": 1,
        "UP045": 1,
        "E711": 0,
        "E741": 0,
        "UP035": 0,
    }
    assert "left out F401; left out `**/tests`" in outcome.report.content
    assert "“make it shine”" in outcome.report.content
    desk.take(steps.plan, "only UP")
    assert set(codes(desk)) == {"UP006", "UP032", "UP045", "UP035"}
    desk.take(steps.plan, "also E711, include F401")
    assert codes(desk)["F401"] == 4  # tests/ is still out


def test_feedback_that_is_not_understood_is_said_first_and_leaves_the_plan(desk, planned):
    """A pause again, for the template asks after it.

    Before, it stood below the plan's title, or was told as applied.
    """
    for feedback in ("Add security", "make it faster"):
        after = desk.take(steps.plan, feedback)
        text = after.report.content
        assert text.startswith("# Not understood\n\n- “"), feedback
        assert "None of this was understood, so the plan below is as it was." in text, feedback
        assert text.endswith(planned.report.content), feedback
        assert after.report.material == planned.report.material, feedback
    # what is added though it is in is said to change nothing
    assert (
        "added `src`: the plan is the same without it."
        in desk.take(steps.plan, "add src/").report.content
    )
    desk.take(steps.plan, "skip E711")
    assert "the same without it" not in desk.take(steps.plan, "add E711").report.content


def test_fixes_that_go_with_those_of_other_rules_are_told(desk):
    """Before: "only F401 in tests/, src/app.py" showed fewer fixes than the plan had promised,
    without a word.
    """
    text = desk.take(steps.plan, "skip UP").report.content
    assert codes(desk)["F401"] == 3
    assert "F401: 2 fixes of the earlier plan are not in this one" not in text, (
        "its files are the same: the table says it"
    )
    desk.take(steps.plan, "only UP006 and UP045")
    assert "F401" not in codes(desk)


def test_an_order_whose_words_are_not_understood_asks_again_and_then_plans(tmp_path, origin):
    """S4: before, "Add auth" was taken as an order to lint.

    It asks in a template without pauses too.
    """
    desk = Desk(tmp_path, origin, request="Add auth")
    asked = desk.attempt(steps.plan)
    assert isinstance(asked, Ask)
    assert (set(asked.answers), asked.phase) == ({"revise"}, "request_not_understood")
    assert "- “Add auth”" in asked.report.content and "(E7, F, I, UP)" in asked.report.content
    desk.state.update(asked.update)
    desk.state["revision_feedback"] = "make it nice"
    assert isinstance(desk.attempt(steps.plan), Ask)
    text = desk.take(steps.plan, "fix F401 in src/, please").report.content
    assert codes(desk) == {"F401": 2}
    assert "**Understood of the request:** only F401; only `src`." in text


def test_what_is_understood_of_an_orders_words_is_said_with_what_is_not(tmp_path, origin):
    desk = Desk(tmp_path, origin, request="Tidy up tests/ and add auth")
    text = desk.take(steps.plan).report.content
    assert "**Understood of the request:** only `tests`." in text
    assert "## Not understood\n\n- “auth”" in text
    assert set(codes(desk)) == {"F401"}


def test_unsafe_fixes_are_only_in_when_asked_for(tmp_path, origin):
    desk = Desk(tmp_path, origin, input={"unsafe_fixes": True, "rules": "E711"})
    assert "**Unsafe fixes are in**" in desk.take(steps.plan).report.content
    assert codes(desk) == {"E711": 1}
    deliver_all(desk)
    assert b"a is None" in desk.read("src/app.py")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["false"], "**already fails** (exit code 1)"),
        (["no-such-program"], "could not be run"),
        (["sh", "-c", "echo 3 passed"], "3 passed"),
    ],
)
def test_the_repositorys_check_is_remembered_whatever_it_gives(tmp_path, origin, command, said):
    desk = Desk(tmp_path, origin, check_command=command)
    assert said in desk.take(steps.plan).report.content
    desk.take(steps.execute)
    desk.take(steps.review)
    assert desk.state["review"]["passed"]


@pytest.mark.parametrize(
    ("order", "code"),
    [
        ({"rules": "XYZ"}, "unknown_rule"),
        ({"rules": "F9999"}, "unknown_rule"),
        ({"rules": "F-1"}, "bad_rule"),
        ({"paths": "../x"}, "bad_path"),
        ({"paths": "nope"}, "no_such_path"),
    ],
)
def test_an_order_that_cannot_be_meant_fails_in_words(tmp_path, origin, order, code):
    failed = failure(Desk(tmp_path, origin, input=order).attempt, steps.plan)
    assert failed.code == code
    assert len(str(failed)) > 20


def test_rules_paths_and_version_of_the_order_are_kept_to(tmp_path, origin):
    desk = Desk(
        tmp_path, origin, input={"rules": "F, UP", "paths": "src", "target_version": "py38"}
    )
    text = desk.take(steps.plan).report.content
    assert codes(desk) == {"F401": 2, "UP032": 1}  # list[str] and X | None came later than 3.8
    assert "for Python 3.8" in text


def test_a_module_called_ruff_in_the_repository_is_not_run(tmp_path):
    trap = f"open({str(tmp_path / 'sprung')!r}, 'w')\n"
    origin = make_repository(
        tmp_path / "origin",
        {
            "ruff.py": trap,
            "ruff/__main__.py": trap,
            "sitecustomize.py": trap,
            "a.py": "import os\n",
        },
    )
    desk = Desk(tmp_path, origin)
    deliver_all(desk)
    assert desk.read("a.py") == b""
    assert not (tmp_path / "sprung").exists()


def test_a_plan_of_thousands_of_findings_stays_small(tmp_path):
    many = {
        f"package_{number % 20}/module_{number}.py": (
            "import os\nimport abc\nimport sys\nl = 1\nx = l == None\n"
        )
        for number in range(1000)
    }
    desk = Desk(tmp_path, make_repository(tmp_path / "origin", many))
    outcome = desk.take(steps.plan)
    assert sum(rule["count"] for rule in desk.state["plan"]["rules"]) >= 5000
    assert len(json.dumps(desk.state)) < 200_000
    assert len(outcome.report.content) < 20_000
    assert "… and 960 more" in outcome.report.content


def test_batches_keep_every_file_once_and_in_order():
    files = [f"{'x' * (number % 300)}/{number}.py" for number in range(3000)]
    made = list(batches(files))
    assert [file for batch in made for file in batch] == files
    assert max(sum(len(file) + 1 for file in batch) for batch in made) <= 100_000
    assert list(batches([])) == []


def test_steps_import_no_framework():
    frameworks = "{'django', 'celery', 'channels', 'rest_framework'}"
    code = (
        f"import sys; import extensions.repo_tidy.steps; sys.exit(bool({frameworks} & "
        "set(sys.modules)))"
    )
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0
