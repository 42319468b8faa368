"""A patch is shown line by line as git reads it, and whole where it is not one that git writes."""

from __future__ import annotations

import difflib
import html
import re
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from checkpoints import store
from checkpoints.text import invisible
from hitl.decisions import revisions
from hitl.rendering import word_diff
from hitl.rendering.patches import reading as patches
from runs.models import Pause
from runs.workflows.base import Ask, Report
from tests.conftest import drive, pause_of
from tests.worlds.scripted_step import order_that as order_that

ENDS = ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\r"]
"""What `str.splitlines` takes for the end of a line, and git does not."""
SIGNS = {"add": "+", "del": "-", "same": " "}


def rebuilt(reading):
    """The lines of the patch from what is shown of it."""
    if reading.problem:
        return reading.raw
    return [f"{SIGNS.get(kind, '')}{text}" for file in reading.files for kind, text in file.lines]


@pytest.mark.parametrize("end", ENDS)
def test_no_character_but_a_line_feed_ends_a_line(end):
    """A line with one of these hid the rest of its hunk."""
    crafted = f"+harmless{end}diff --git a/README b/README"
    patch = (
        "diff --git a/pay.py b/pay.py\n--- a/pay.py\n+++ b/pay.py\n@@ -1 +1,2 @@\n keep\n"
        f"{crafted}\n"
    )
    reading = patches.parse(patch)
    assert [file.path for file in reading.files] == ["pay.py"]
    assert not reading.problem
    assert rebuilt(reading) == patch[:-1].split("\n")


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b\n+c\n", "Line 5: this line belongs to no hunk"),
        (
            "diff --git a/x b/x\n@@ -1 +1,2 @@\n-a\n+b\n",
            "line counts don't match the hunk header",
        ),
        (
            "diff --git a/x b/x\n@@ -1,2 +1 @@\n-a\ndiff --git a/y b/y\n",
            "line counts don't match the hunk header",
        ),
        ("diff --git a/x b/x\n@@ -1 +1 @@\n-a\n-b\n", "line counts don't match the hunk header"),
        ("diff --git a/x b/x\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "names another file"),
        ("rm -rf /\ndiff --git a/x b/x\n", "stands before the first file"),
        ("diff --git a/x b/x\nrun this\n@@ -1 +1 @@\n-a\n+b\n", "belongs to no hunk"),
    ],
)
def test_where_the_patch_is_not_what_git_writes_that_is_said_and_it_is_shown_as_it_is(patch, words):
    """Lines beyond a hunk's count, and of no hunk."""
    reading = patches.parse(patch)
    assert words in reading.problem
    assert reading.raw == patch[:-1].split("\n")


PIECES = st.sampled_from(
    ["diff --git a/x b/x", "diff --git a/x b/y", "--- a/x", "+++ b/x", "@@ -1 +1 @@",
    "@@ -1,2 +1,2 @@ f",
     "@@ -0,0 +1 @@", "+a", "-a", " a", "",
     "\\ No newline at end of file", "index 1..2",
     "new file mode 100755", "GIT binary patch", "literal 3", "KcmZ", "# cut",
     "Binary files a and b differ"]
)  # fmt: skip
LINES = st.lists(PIECES | st.text(max_size=8).map(lambda text: text.replace("\n", "")), max_size=14)


@given(LINES)
@example(["diff --git a/x b/x", "@@ -1 +1 @@", "-a", "+b\u2028diff --git a/y b/y"])
def test_whatever_the_patch_every_line_of_it_is_shown(lines):
    """P6, for any text; the raw patch counts where there is a problem."""
    patch = "".join(f"{line}\n" for line in lines)
    assert rebuilt(patches.parse(patch)) == invisible.lines_of(patch) or not lines


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\n\x00", exclude_categories=["Cs"]), max_size=5),
        max_size=6,
        unique=True,
    )
)
def test_what_git_writes_has_no_problem(lines):
    patch = "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n"
    patch += (
        f"@@ -0,0 +1,{len(lines)} @@\n" + "".join(f"+{line}\n" for line in lines) if lines else ""
    )
    reading = patches.parse(patch)
    assert not reading.problem
    assert reading.files[0].added == len(lines)


def test_patches_of_git_itself_have_no_problem(tmp_path):
    """Renames, modes, binary files, odd names and files without a last line feed."""

    def git(*arguments):
        return subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments],
            cwd=tmp_path,
            capture_output=True,
            check=True,
        ).stdout

    git("init", "-q")
    names = ["plain", "with space", "t\tab", "ümlaut", "a b/c", "gone", "mode"]
    (tmp_path / "a b").mkdir()
    for name in names:
        (tmp_path / name).write_text("".join(f"{number}\n" for number in range(30)))
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 4)
    git("add", "-A")
    git("commit", "-qm", "one")
    for name in names[:5]:
        (tmp_path / name).write_text("0\n1\x85x\n\r2\r\nend")
    (tmp_path / "gone").unlink()
    (tmp_path / "mode").chmod(0o755)
    (tmp_path / "binary").write_bytes(bytes(range(255, -1, -1)) * 4)
    (tmp_path / "empty").write_text("")
    (tmp_path / "new").write_text("x")
    (tmp_path / "plain").rename(tmp_path / "moved")
    git("add", "-A")
    for options in ([], ["--binary"], ["--no-renames"], ["-M1%"], ["--text"]):
        text = git("diff", "--cached", *options).decode("utf-8", "surrogateescape")
        reading = patches.parse(text)
        assert not reading.problem, (options, reading.problem)
        assert rebuilt(reading) == invisible.lines_of(text)
        assert {"with space", "a b/c", "mode", "empty"} <= {file.path for file in reading.files}


def test_a_long_patch_says_of_each_file_how_much_is_left_out():
    part = "diff --git a/{0} b/{0}\n@@ -0,0 +1,15000 @@\n" + "+x\n" * 15_000
    reading = patches.parse(part.format("one") + part.format("two"))
    assert [file.hidden for file in reading.files] == [0, 2 * 15_002 - patches.MAX_LINES]
    assert reading.hidden == 2 * 15_002 - patches.MAX_LINES


@pytest.mark.django_db
def test_the_card_and_the_receipt_show_a_crafted_patch_as_it_is(page, order_that):
    """They showed its phantom file."""
    lines = [
        "diff --git a/x b/x",
        "--- a/x",
        "+++ b/x",
        "@@ -1 +1 @@",
        "-a",
        "+b",
        "+evil\u2028diff --git a/phantom b/phantom",
    ]
    report = Report(content="Plan", patch="".join(f"{line}\n" for line in lines))
    order = drive(
        order_that(
            lambda state, context: Ask(
                question="Fine?", answers={"approve": "finish"}, report=report
            )
        )
    )
    pause = pause_of(order)
    first = page.get(f"/work-orders/{order.shown_id}/").content.decode()
    page.post(f"/pauses/{pause.shown_id}/decide", {"action": "approve", "revision": "1"})
    receipt = page.get(
        re.search(r"/decisions/dec_\w+/", page.get("/").content.decode()).group()
    ).content.decode()
    for shown in (first, receipt):
        assert "can be read in more than one way" in shown
        assert "Line 7: " in shown
        said = html.unescape(re.sub(r"<[^>]*>", "", shown))
        assert all(
            invisible.plain(line).replace("⟦", "").replace("⟧", "") in said for line in lines
        )
        assert "phantom</code>" not in shown


@pytest.mark.parametrize("end", ENDS)
def test_the_word_diff_has_the_lines_that_the_text_has(end):
    """Two revisions that differed only in such a character read the same."""
    assert word_diff.compare(f"a{end}b", "a\nb")
    shown = word_diff.compare(f"a{end}b", f"a{end}c")
    assert ["".join(part.text for part in line.old or []) for line in shown] == [f"a{end}b"]


def test_the_changes_of_two_revisions_tell_a_line_end_from_another():
    pauses = [Pause(content=text, facts=[]) for text in ("a\nb", "a\u2028b")]
    assert revisions.changes(*pauses)


@pytest.mark.django_db
def test_bytes_that_are_no_text_differ_on_the_card(page, order_that):
    """All of them stood there as the same sign."""
    order = drive(
        order_that(
            lambda state, context: Ask(
                question="Fine?",
                answers={"approve": "finish"},
                report=Report(content="x", patch="x"),
            )
        )
    )
    Pause.objects.filter(pk=pause_of(order).pk).update(
        patch_digest=store.put_blob(b"diff --git a/x b/x\n@@ -1 +1 @@\n-\xe9\n+\xff\n")
    )
    shown = page.get(f"/work-orders/{order.shown_id}/").content.decode()
    assert "byte E9" in shown
    assert "byte FF" in shown


def plain(old, new, *, command=""):
    return f"{command}--- {old}\n+++ {new}\n@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n"


GIT_PART = "diff --git a/g b/g\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n"
NAMED = [
    (plain("x.py\t2026-11-28 10:00:00 +0000", "x.py\t2026-11-28 11:00:00 +0000"), "x.py"),
    (plain("a/x.py", "b/x.py"), "x.py"),
    (plain("old.txt", "new.txt"), "old.txt → new.txt"),
    (plain("/dev/null", "b/x.py"), "x.py"),
    (plain("a/x.py", "/dev/null"), "x.py"),
    (plain("", ""), "unnamed"),
    (plain("a/x.py\t1", "b/x.py\t2", command="diff -ru a/x.py b/x.py\n"), "x.py"),
    (f"diff --git x/y.py x/y.py\n{plain('x/y.py', 'x/y.py')}", "x/y.py"),
    (f"diff --git i/y.py w/y.py\n{plain('i/y.py', 'w/y.py')}", "y.py"),
    (f"diff --git a/x b/y\n{plain('a/x', 'b/y')}", "x → y"),
    (f"diff --git a/x b/y\nrename from x\nrename to y\n{plain('a/x', 'b/y')}", "x → y"),
    (f"diff --git a/x b/x\n{plain('a/x', 'b/x')}".replace("\n", "\r\n"), "x"),
    (plain("x", "x").replace("\n", "\r\n"), "x"),
]


@pytest.mark.parametrize(("patch", "name"), NAMED)
def test_what_git_diff_and_difflib_write_is_a_patch(patch, name):
    """Issue 36: `diff -u` was "not in git's format". Its end is known by the hunk's counts alone,
    so one may follow another, and git's.
    """
    for text in (patch, patch * 2, GIT_PART + patch, patch + GIT_PART):
        reading = patches.parse(text)
        assert not reading.problem, reading.problem
        assert name in [file.name for file in reading.files]
        assert rebuilt(reading) == invisible.lines_of(text)


@pytest.mark.parametrize(
    "patch",
    [
        GIT_PART.replace("+++ b/g", "+++ g"),
        GIT_PART.replace("+++ b/g", "+++ b/g\n+++ b/h"),
        GIT_PART.replace("--- a/g", "--- a/h"),
        GIT_PART.replace("--- a/g", "--- /dev/null").replace("+++ b/g", "+++ /dev/null"),
        GIT_PART.replace("a/g b/g", "a/a g b/a g")
        .replace("--- a/", "--- a/a ")
        .replace("+++ b/g", "+++ g"),
        "diff --git a/x b/x\nrename from x\nrename to y\n",
        "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n" + plain("y", "y"),
        plain("x", "x") + "Only in a: y\n",
        plain("x", "x") + "--- y\n+++ y\n",
        plain("x", "x") + "--- y\n",
        "Index: x\n" + plain("y", "y"),
        plain("x", "x\n"),
    ],
)
def test_what_a_program_may_read_otherwise_is_shown_as_it_is(patch):
    """A patch that names another file than its picture would be applied there."""
    reading = patches.parse(patch)
    assert reading.problem
    assert reading.raw == invisible.lines_of(patch)


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abcd"), max_size=8))
def test_each_diff_of_difflib_is_read(before, after):
    old, new = ([f"{line}\n" for line in lines] for lines in (before, after))
    text = "".join(difflib.unified_diff(old, new, "a.py", "b.py"))
    reading = patches.parse(text)
    assert not reading.problem
    assert rebuilt(reading) == invisible.lines_of(text)


def test_diff_itself_writes_patches(tmp_path):
    """Of two folders: its command stands before each file."""
    for folder, words in (("a", "one\ntwo\n"), ("b", "one\nzwei")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x y").write_text(words)
        (tmp_path / folder / "z").write_text(words)
    diff = ["diff", "-ru", "a", "b"]
    text = subprocess.run(diff, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    reading = patches.parse(text)
    assert not reading.problem, reading.problem
    assert [file.name for file in reading.files] == ["x y", "z"]
