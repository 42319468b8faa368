from io import StringIO

import pytest
from django.core.management.base import CommandError

from extensions.repo_tidy import steps
from runs.git.samples import FolderInUse, make_sample
from runs.git.sources import check_source
from runs.management.commands.sample_repository import Command
from tests.worlds.repositories import Desk, git


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return make_sample(tmp_path_factory.mktemp("samples") / "deep" / "sample")


def test_it_is_a_repository_with_source_tests_and_licence(sample):
    files = git(sample, "ls-files").splitlines()
    assert {"LICENSE", "README.md"} <= set(files)
    assert 20 <= sum(file.endswith(".py") for file in files) <= 200
    assert any(file.startswith("tests/") for file in files)
    assert not any("__pycache__" in file for file in files)
    assert git(sample, "status", "--porcelain") == ""
    assert git(sample, "rev-list", "--count", "HEAD") == "1"
    assert check_source(str(sample), folders=[sample.parent], schemes=[], hosts=[]) == str(sample)


def test_made_twice_it_is_the_same_commit(sample, tmp_path):
    again = make_sample(tmp_path)
    assert git(again, "rev-parse", "HEAD") == git(sample, "rev-parse", "HEAD")


def test_made_again_in_place_it_is_left_alone(sample):
    before = (sample / "README.md").stat().st_mtime_ns
    assert make_sample(sample) == sample
    assert (sample / "README.md").stat().st_mtime_ns == before


def test_a_folder_with_something_else_is_refused_untouched(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FolderInUse, match="not empty"):
        make_sample(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(FolderInUse):
        make_sample(tmp_path / "mine.txt")


def test_there_is_work_to_do_in_it_and_the_readmes_own_example_of_feedback_works(sample, tmp_path):
    """Before: "only F401 in src/" gave "nothing to do", without a word on where the plan's 28
    findings were gone.
    """
    desk = Desk(tmp_path, sample)
    desk.take(steps.plan)
    assert desk.state["plan"]["fixes"] > 100
    assert len([rule for rule in desk.state["plan"]["rules"] if rule["fixable"]]) >= 5
    before = next(rule for rule in desk.state["plan"]["rules"] if rule["code"] == "F401")
    text = desk.take(steps.plan, "only F401 in src/").report.content
    [rule] = desk.state["plan"]["rules"]
    assert (rule["code"], rule["files"]) == ("F401", ["src/sample/report.py"])
    assert 0 < rule["fixable"] < before["fixable"]
    assert text.startswith(f"# Plan: {rule['fixable']} fixes in 1 file\n")
    assert "**Your feedback was applied:** only F401; only `src`." in text
    assert (
        f"F401: {before['fixable'] - rule['fixable']} fixes of the earlier plan are not in this one"
        in text
    )
    desk.take(steps.plan, "also I001")
    assert max(len(rule["files"]) for rule in desk.state["plan"]["rules"]) > 20
    desk.take(steps.execute)
    desk.take(steps.review)
    assert desk.state["review"]["passed"], desk.state["review"]


def test_the_command_prints_the_path_and_refuses_in_words(sample, tmp_path):
    said = StringIO()
    Command(stdout=said).handle(directory=sample)
    assert said.getvalue() == f"{sample}\n"
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(CommandError, match="not empty"):
        Command(stdout=said).handle(directory=tmp_path)
