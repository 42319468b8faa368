"""Repositories as they are found: broken files, old bytes, odd names, links, and nothing at all."""

import os

import pytest

from extensions.repo_tidy import steps
from runs.workflows.base import StepFailed
from tests.worlds.repositories import Desk, git, make_repository

UNUSED = "import os\n"


def tidy(tmp_path, files, before=None, **order):
    origin = make_repository(tmp_path / "origin", files)
    if before:
        before(origin)
        git(origin, "add", "-A")
        git(origin, "commit", "-q", "-m", "More")
    desk = Desk(tmp_path, origin, **order)
    for step in (steps.plan, steps.execute, steps.review):
        outcome = desk.take(step)
        if step is steps.plan:
            desk.text = outcome.report.content
        if step is steps.execute:
            desk.patch = outcome.report.patch
    assert desk.state["review"]["passed"], desk.state["review"]
    return desk


def test_an_empty_repository_fails_in_words(tmp_path):
    (tmp_path / "origin").mkdir()
    git(tmp_path / "origin", "init", "-q")
    with pytest.raises(StepFailed) as failed:
        Desk(tmp_path, tmp_path / "origin").attempt(steps.plan)
    assert failed.value.code == "empty_repository"


def test_a_repository_without_python_has_an_empty_plan(tmp_path):
    desk = tidy(tmp_path, {"README.md": "# Hi\n"})
    assert desk.text.startswith("# Plan: nothing to do\n\nThere are no Python files in scope.")
    assert desk.subjects() == []
    desk.take(steps.deliver)
    assert desk.state["git_commit_count"] == 0


def test_a_tidy_repository_has_an_empty_plan(tmp_path):
    desk = tidy(tmp_path, {"a.py": "x = 1\n"})
    assert desk.text.startswith(
        "# Plan: nothing to do\n\nruff has no fix to offer in the 1 Python file in scope."
    )


def test_files_that_do_not_parse_are_listed_and_left_alone(tmp_path):
    broken: dict[str, str | bytes] = {
        "bad.py": "import os\nimport abc\nx = (\n",
        "py2.py": "import os\nprint 'hello'\n",
        "nul.py": b"import os\nx = '\0'\n",
        "bytes.py": b"import os\nx = '\xff'\n",
        # it has a fix to offer to whoever reads it, which ruff cannot, and it said so in a warning
        "latin.py": b"# -*- coding: latin-1 -*-\nimport os\nx = '\xe9'\n",
    }
    desk = tidy(tmp_path, {"good.py": UNUSED, **broken})
    assert "Left alone: files that do not parse" in desk.text
    assert "`bad.py:" in desk.text
    assert "`py2.py:2 " in desk.text
    assert "`nul.py:0 holds NUL bytes" in desk.text
    assert "`latin.py:1 " in desk.text and "`bytes.py:1 " in desk.text
    assert "1 Python file checked" in desk.text and "5 more files could not be checked" in desk.text
    for name, content in broken.items():
        assert desk.read(name) == (content if isinstance(content, bytes) else content.encode())
    assert desk.read("good.py") == b""


def test_line_ends_marks_and_encodings_stay(tmp_path):
    files = {
        "crlf.py": b"import os\r\nimport sys\r\n\r\nprint(sys)\r\n",
        "bom.py": b"\xef\xbb\xbfimport os\nimport sys\n\nprint(sys)\n",
        "no_end.py": b"import os\nx = 1",
        "form_feed.py": b"import os\n\x0cx = 1\n",
    }

    def add_attributes(origin):
        # so that the commit keeps the bytes
        (origin / ".git" / "info" / "attributes").write_text("* -text\n")
        (origin / ".gitattributes").write_text("*.py text=auto eol=crlf binary\n")

    desk = tidy(tmp_path, files, add_attributes)
    assert "-import os" in desk.patch  # "binary" does not hide it from the reviewer
    assert desk.read("crlf.py") == b"import sys\r\n\r\nprint(sys)\r\n"
    assert desk.read("bom.py") == b"\xef\xbb\xbfimport sys\n\nprint(sys)\n"
    assert desk.read("no_end.py") == b"x = 1"
    assert b"\x0c" in desk.read("form_feed.py")


STRANGE = [
    "a b.py",
    "it's.py",
    'say "x".py',
    "new\nline.py",
    "-rf.py",
    "--fix.py",
    "[x]*.py",
    "`tick`.py",
    "pi|pe.py",
    "é/ü.py",
    "@file.py",
]


def test_strange_names_are_fixed_and_shown_in_one_piece(tmp_path):
    desk = tidy(tmp_path, dict.fromkeys(STRANGE, UNUSED))
    changed = git(desk.path, "show", "--format=", "--name-only", "-z", "HEAD").rstrip("\0")
    assert sorted(changed.split("\0")) == sorted(STRANGE)
    for name in STRANGE:
        assert desk.read(name) == b"", name
        assert name.replace("\n", "\\n") in desk.text
    assert all(
        line.count("|") in (0, 4, 6) for line in desk.text.splitlines() if line.startswith("|")
    )


def test_names_that_are_no_text_are_left_alone(tmp_path):
    def add(origin):
        with open(os.fsencode(origin) + b"/caf\xe9.py", "w") as file:
            file.write(UNUSED)

    desk = tidy(tmp_path, {"a.py": UNUSED}, add)
    with open(os.fsencode(desk.path) + b"/caf\xe9.py") as file:
        assert file.read() == UNUSED
    assert desk.state["plan"]["fixes"] == 1


def test_links_are_not_followed_out_of_the_tree(tmp_path):
    outside = tmp_path / "outside.py"
    outside.write_text(UNUSED)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.py").write_text(UNUSED)

    def link(origin):
        (origin / "link.py").symlink_to(outside)
        (origin / "inner.py").symlink_to("a.py")
        (origin / "away").symlink_to(tmp_path / "folder")

    desk = tidy(tmp_path, {"a.py": UNUSED}, link)
    assert outside.read_text() == (tmp_path / "folder" / "x.py").read_text() == UNUSED
    assert (desk.path / "inner.py").is_symlink()
    assert desk.state["plan"]["fixes"] == 1


def test_the_executable_bit_stays(tmp_path):
    desk = tidy(
        tmp_path,
        {"a.py": "#!/usr/bin/env python\nimport os\n"},
        lambda origin: (origin / "a.py").chmod(0o755),
    )
    assert git(desk.path, "ls-files", "--stage", "a.py").startswith("100755")


def test_ignored_but_tracked_files_and_stubs_are_fixed_and_other_peoples_packages_are_not(tmp_path):
    def force(origin):
        git(origin, "add", "-f", "gen/a.py")

    files = {
        ".gitignore": "gen/\n",
        "gen/a.py": UNUSED,
        "b.pyi": UNUSED,
        "venv/lib/x.py": UNUSED,
        "web/node_modules/y.py": UNUSED,
    }
    desk = tidy(tmp_path, files, force)
    assert desk.read("gen/a.py") == desk.read("b.pyi") == b""
    assert desk.read("venv/lib/x.py") == desk.read("web/node_modules/y.py") == UNUSED.encode()


def test_newer_syntax_than_ours_is_no_reason_to_put_a_fix_back(tmp_path):
    desk = tidy(
        tmp_path,
        {"a.py": "import os\n\ntype Pair[T] = tuple[T, T]\n"},
        input={"target_version": "py312"},
    )
    assert desk.read("a.py").lstrip() == b"type Pair[T] = tuple[T, T]\n"
