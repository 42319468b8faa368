import ast
import json
from pathlib import Path

import pytest

from extensions.repo_tidy import steps
from extensions.repo_tidy.tools import Ruff
from runs.workflows import patches
from runs.workflows.base import Approval, Stopped
from runs.workflows.patches import cut_patch
from tests.worlds.repositories import (
    UNTIDY,
    Desk,
    add_commit,
    bare_copy,
    deliver_all,
    failure,
    git,
    make_repository,
)


@pytest.fixture
def origin(tmp_path):
    return make_repository(tmp_path / "origin", UNTIDY)


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """A desk with its plan, of which each test gets a copy."""
    folder = tmp_path_factory.mktemp("planned")
    desk = Desk(folder, make_repository(folder / "origin", UNTIDY))
    desk.take(steps.plan)
    return desk


@pytest.fixture
def desk(tmp_path, planned):
    return planned.copied_to(tmp_path)


def test_execute_makes_one_commit_a_rule_and_review_proves_it(desk):
    done = desk.take(steps.execute)
    said = git(desk.path, "log", "-1", "--format=%an <%ae>|%B")
    assert said.startswith("Ada <ada@example.org>|Fix I001") and "wo_1" in said
    assert desk.subjects() == [
        "Fix I001: unsorted imports (1 finding in 1 file)",
        "Fix F401: unused import (5 findings in 2 files)",
        "Fix UP045: non pep604 annotation optional (1 finding in 1 file)",
        "Fix UP032: f string (1 finding in 1 file)",
        "Fix UP006: non pep585 annotation (1 finding in 1 file)",
    ]
    assert (
        desk.read("src/app.py").lstrip()
        == b"def names(a: list[str] | None) -> bool:\n    return a == None\n"
    )
    assert done.report.patch.startswith("diff --git a/src/app.py b/src/app.py")
    assert done.report.facts["Files"] == 3
    assert "diff --git a/src/other.py" in done.report.patch
    assert "- `src/other.py` +" not in done.report.content, "its patch names the files"
    proof = desk.take(steps.review)
    assert desk.state["review"]["passed"]
    assert proof.report.content.startswith("# ✓")
    assert proof.report.effects == []
    desk.take(steps.deliver)
    assert desk.state["git_commit_count"] == 5
    assert desk.state["branch"] == "waystation/wo_1"
    assert desk.state["head"] == git(desk.path, "rev-parse", "HEAD")
    assert not desk.state["pushed"]
    assert git(Path(desk.order.repository_url), "branch", "--list", "waystation/*") == ""
    json.dumps(desk.state)


def test_execute_twice_is_execute_once(desk):
    desk.attempt(steps.execute)
    first = desk.subjects(), git(desk.path, "rev-parse", "HEAD^{tree}")
    desk.take(steps.execute)
    desk.take(steps.execute)
    assert (desk.subjects(), git(desk.path, "rev-parse", "HEAD^{tree}")) == first


def test_a_worker_that_dies_in_the_middle_leaves_no_doubled_commit(desk):
    """One after the other at the work of one order, each a little later."""
    desk.attempt(steps.execute)
    whole = desk.subjects(), git(desk.path, "rev-parse", "HEAD^{tree}")

    def dying(after):
        left = iter(range(after))

        def check():
            if next(left, None) is None:
                raise Stopped("killed")

        return check

    for after in (1, 3, 6, 9):
        with pytest.raises(Stopped):
            desk.attempt(steps.execute, check=dying(after))
        (desk.path / "src" / "app.py").write_text("half a wri")
    desk.take(steps.execute)
    assert (desk.subjects(), git(desk.path, "rev-parse", "HEAD^{tree}")) == whole


def test_execute_on_another_machine_gives_the_same(desk, tmp_path):
    desk.take(steps.execute)
    tree = git(desk.path, "rev-parse", "HEAD^{tree}")
    desk.path = tmp_path / "host2" / "wo_1"
    desk.take(steps.review)
    assert desk.state["review"]["passed"]
    assert git(desk.path, "rev-parse", "HEAD^{tree}") == tree
    desk.take(steps.execute)
    assert git(desk.path, "rev-parse", "HEAD^{tree}") == tree
    assert desk.state["review"] is None, "a new execution forgets the old proof"
    desk.take(steps.deliver)


def test_feedback_on_the_execution_can_only_narrow(desk):
    desk.take(steps.execute)
    outcome = desk.take(steps.execute, "skip I001, not src/other.py; also add SIM and please hurry")
    assert [line.split(":")[0] for line in desk.subjects()] == [
        "Fix F401",
        "Fix UP045",
        "Fix UP006",
    ]
    text = outcome.report.content
    assert "“added SIM”: not part of the approved plan" in text
    assert "hurry" in text
    assert "UP032 in 1 file: taken out by feedback" in text
    desk.take(steps.execute, "no UP")
    assert [line.split(":")[0] for line in desk.subjects()] == ["Fix F401"]
    desk.take(steps.execute, "only E711")
    assert [line.split(":")[0] for line in desk.subjects()] == ["Fix F401"]


def test_a_wish_back_inside_the_approved_plan_is_granted_and_what_is_narrowed_is_proved(desk):
    desk.take(steps.execute, "skip I001")
    assert not desk.subjects()[0].startswith("Fix I001")
    desk.take(steps.execute, "include I001 again, skip F401 in tests/")
    assert desk.subjects()[0].startswith("Fix I001")
    desk.take(steps.review)
    assert desk.state["review"]["passed"]
    assert desk.read("tests/test_app.py").startswith(b"import re\n")


def test_nothing_outside_the_plan_is_ever_kept(desk, monkeypatch):
    """The guard itself: here ruff is led to a file that was not approved."""
    real = Ruff.fix
    monkeypatch.setattr(
        Ruff,
        "fix",
        lambda ruff, code, files: real(ruff, code, [*files, "docs/conf.py", "tests/test_app.py"]),
    )
    desk.state["plan"]["rules"] = [
        rule | {"files": ["src/app.py"]}
        for rule in desk.state["plan"]["rules"]
        if rule["code"] == "F401"
    ]
    failed = failure(desk.attempt, steps.execute)
    assert failed.code == "outside_plan"
    assert git(desk.path, "status", "--porcelain") == ""
    assert desk.subjects() == []


def test_a_fix_that_breaks_a_file_is_put_back_and_said(desk, monkeypatch):
    real = Ruff.fix

    def fix_and_break(ruff, code, files):
        real(ruff, code, files)
        if code == "I001":
            with (desk.path / "src" / "other.py").open("a") as file:
                file.write("(\n")

    monkeypatch.setattr(Ruff, "fix", fix_and_break)
    outcome = desk.take(steps.execute)
    assert "I001 in `src/other.py`: put back" in outcome.report.content
    ast.parse(desk.read("src/other.py"))
    monkeypatch.undo()
    desk.take(steps.review)
    assert [row["passed"] for row in desk.state["review"]["rows"]] == [
        False,
        True,
        True,
        True,
        True,
    ]


def test_a_failed_proof_is_a_report_and_is_not_delivered_unless_a_person_says_so(tmp_path, origin):
    desk = Desk(
        tmp_path,
        origin,
        check_command=["sh", "-c", "! grep -q 'import sys' src/app.py || exit 0; exit 7"],
    )
    desk.take(steps.plan)
    assert "passes" in desk.take(steps.plan).report.content
    desk.take(steps.execute)
    proof = desk.take(steps.review)
    assert proof.report.content.startswith("# ✗")
    assert (
        "| ✗ | The repository's check gives what it gave | exit code 7; before: exit code 0 |"
        in proof.report.content
    )
    failed = failure(desk.attempt, steps.deliver)
    assert failed.code == "review_failed"
    assert "exit code 7" in str(failed)
    desk.state["decided"] = {"review": "approve"}  # a state is anybody's to write: it says nothing
    assert failure(desk.attempt, steps.deliver).code == "review_failed"
    desk.approvals["repo_tidy.review"] = Approval(
        action="approve", decision_id="dec_1", revision=1, material=""
    )
    desk.take(steps.deliver)


def test_a_check_that_writes_files_does_not_change_the_result(tmp_path, origin):
    desk = Desk(
        tmp_path,
        origin,
        check_command=["sh", "-c", "echo x >> src/app.py; touch junk; rm README.md"],
    )
    deliver_all(desk)
    assert git(desk.path, "diff", "--name-only", desk.state["plan"]["base"], "HEAD").split() == [
        "src/app.py",
        "src/other.py",
        "tests/test_app.py",
    ]


def test_a_bare_origin_gets_the_branch_when_pushing_was_asked_for(tmp_path, origin):
    bare = bare_copy(origin, tmp_path / "bare.git")
    desk = Desk(tmp_path, bare, input={"push": True})
    desk.take(steps.plan)
    desk.take(steps.execute)
    assert desk.take(steps.review).report.effects == [
        (
            f"Pushes waystation/wo_1 to {bare}. To undo that: delete the branch there; no other "
            "branch is touched."
        )
    ]
    desk.attempt(steps.deliver)
    desk.take(steps.deliver)
    assert git(bare, "rev-parse", "waystation/wo_1") == desk.state["head"]
    assert desk.state["pushed"]


def test_a_rejected_push_fails_with_its_code(tmp_path, origin):
    git(origin, "checkout", "-q", "-b", "waystation/wo_1")
    desk = Desk(tmp_path, origin, input={"push": True})
    for step in (steps.plan, steps.execute, steps.review):
        desk.take(step)
    add_commit(origin, {"z.py": ""})
    assert failure(desk.attempt, steps.deliver).code == "push_rejected"


def test_where_the_patch_is_cut_the_result_names_the_files(desk, monkeypatch):
    """Else they would stand there twice."""
    monkeypatch.setattr(patches, "LONGEST_PATCH", 400)
    done = desk.take(steps.execute)
    assert "The patch is cut here" in done.report.patch
    assert "- `src/other.py` +" in done.report.content


def test_a_long_patch_is_cut_between_files_and_says_so():
    file = "diff --git a/x b/x\n" + "+line\n" * 50_000
    cut = cut_patch(file * 5)
    assert len(cut) < 1_000_200
    assert cut.count("diff --git") == 3
    assert "2 files are missing" in cut
    assert cut_patch(file) == file
