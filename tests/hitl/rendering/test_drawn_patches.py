"""The lines of a patch as HTML: whatever stands in them, what is drawn is what the patch says."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from checkpoints.text import invisible
from hitl.rendering.patches import colours, reading, sheets
from hitl.rendering.patches.drawing import Drawing, Look
from hitl.rendering.patches.reading import PatchRow
from hitl.rendering.work import Work
from runs import limits

ROW = re.compile(
    r'<span class="([a-z ]+)"(?: data-n="[ 0-9]*" data-at="(\w+):(\d+)")?>(.*?)</span>'
)
SIGNS = {"add": "+", "del": "-", "same": " ", "same spaces": " "}


def drawn(file, begin=0, end=None, **look):
    return Drawing(Look(**look)).html(file, begin, end)


def rows_of(html):
    """(kind, side, text) of each row; nothing stands between rows."""
    assert ROW.sub("", html) == ""
    return [
        (kind, side, unescape(re.sub(r"</?(?:i|ins|del)\b[^>]*>", "", inside)))
        for kind, side, _, inside in ROW.findall(html)
    ]


def joined(html):
    return [f"{SIGNS.get(kind, '')}{text}" for kind, _, text in rows_of(html)]


# of characters that are seen: chips for others are tests/hitl/rendering/test_invisible.py's
SEEN = st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=126), max_size=30)
CODE = st.sampled_from(
    ["def f(x):", '    """Say.', "<b>&amp;</b>", "return 'a' + \"b\"", "# <script>", "/* x", "*/",
     "    return 1", "\treturn  1", "</span><span>", "", "'''", "x = [1, 2.5e3]"]
)  # fmt: skip
SIGNED = st.lists(st.tuples(st.sampled_from(" -+"), CODE | SEEN), min_size=1, max_size=14)
PATHS = st.sampled_from(["x.py", "x.js", "x.html", "Makefile", "x.unknown", "x.sh", "x.json"])


def patch_of(signed, path):
    old = sum(sign in " -" for sign, _ in signed)
    new = sum(sign in " +" for sign, _ in signed)
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
    lines = [f"{sign}{text}\n" for sign, text in signed]
    return head + f"@@ -1,{old} +1,{new} @@\n" + "".join(lines)


def file_of(signed, path="x.py"):
    [file] = reading.parse(patch_of(signed, path)).files
    return file


@given(SIGNED, PATHS)
@example([("-", "a  b"), ("+", "a b"), ("+", "c")], "x.py")
@settings(deadline=None)
def test_what_is_drawn_joins_back_to_the_patch(signed, path):
    """P6: unified, row by row; side by side, either side; in pieces as in one."""
    lines = invisible.lines_of(patch_of(signed, path))
    file = file_of(signed, path)
    assert joined(drawn(file)) == lines
    for at in range(len(file.lines)):
        assert joined(drawn(file, 0, at) + drawn(file, at)) == lines
    beside = rows_of(drawn(file, split=True).replace('<span class="gap"></span>', ""))
    for side, signs in (("old", " -"), ("new", " +")):
        shown = [text for _, of, text in beside if of == side]
        assert shown == [text for sign, text in signed if sign in signs]


@given(SIGNED, PATHS)
@settings(deadline=None)
def test_without_changes_of_white_space_every_line_after_the_change_is_there(signed, path):
    """And of those before it all whose words changed; one that is not drawn says so."""
    shown = rows_of(drawn(file_of(signed, path), spaces=False))
    after = [text for kind, _, text in shown if kind in {"add", "same", "same spaces"}]
    assert after == [text for sign, text in signed if sign in " +"]
    gone = sum(sign == "-" for sign, _ in signed)
    marked = sum(kind == "same spaces" for kind, *_ in shown)
    assert sum(kind == "del" for kind, *_ in shown) == gone - marked


def test_a_line_that_differs_in_white_space_only_is_marked_and_not_taken_for_unchanged():
    file = file_of([("-", "if x:"), ("+", "  if x:"), (" ", "y"), ("-", "a"), ("+", "b")])
    kinds = [kind for kind, *_ in rows_of(drawn(file, spaces=False))][4:]
    assert kinds == ["same spaces", "same", "del", "add"]
    assert [kind for kind, *_ in rows_of(drawn(file))][4:] == ["del", "add", "same", "del", "add"]


@pytest.mark.parametrize("alias", sorted(colours.LEXERS))
@given(st.lists(CODE | SEEN, max_size=8))
@settings(deadline=None, max_examples=15)
def test_colours_are_stretches_of_their_line_in_order(alias, lines):
    """So they can mark what stands there, and change none of it."""
    path = f"x.{colours.LEXERS[alias].split()[0]}"
    found = colours.of(path, lines, Work(limits.COLOUR_WORK))
    assert len(found) == len(lines)
    for line, stretches in zip(lines, found, strict=True):
        ends = [0, *(at for begin, end, _ in stretches for at in (begin, end)), len(line)]
        assert ends == sorted(ends), (line, stretches)


def test_code_has_colours_as_far_as_people_read_it_as_code():
    file = file_of([(" ", "def f():"), ("-", "    return 'a'"), ("+", "    return 1  # now")])
    assert '<i class="k">def</i>' in drawn(file)
    assert '<i class="c"># now</i>' in drawn(file)
    vars(file)["rows"] = [PatchRow("same", "x = 1") for _ in range(limits.COLOUR_WORK // 5)]
    assert "<i" not in drawn(file), "more than one request may read"
    long = [("+", f"x = '{'y' * colours.LONGEST_LINE}'"), ("+", "def f(): pass")]
    assert "<i" not in drawn(file_of(long)), "a line that nobody reads"


HOSTILE = [
    "<script>alert(1)</script>",
    "</pre></div><h1>x</h1>",
    "&lt;b&gt;",
    "\u202eevil\u202c",
    "x\r",
    "\x1b[31m",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text_in_every_look(text, subtests):
    file = file_of([("+", text), ("-", f"{text} "), (" ", text)])
    looks: list[dict[str, bool]] = [{}, {"split": True}, {"spaces": False}]
    for look in looks:
        with subtests.test(str(look)):
            html = drawn(file, **look)
            assert not re.search(r"<(?!/?(?:span|i|ins|del)\b)", html), html
            assert not set("\x1b\u202e\r") & set(html)


def test_a_sheet_draws_the_first_lines_and_knows_how_to_go_on():
    """One line is drawn however long it is, so that a reader always comes to the end."""
    many = [("+", f"line {number}") for number in range(1_000)]
    text = patch_of(many, "a.txt") + patch_of([("+", "y" * 100_000), ("-", "z")], "b.txt")
    patch = reading.parse(text)
    first = sheets.draw(patch, Look())
    assert [(sheet.end, sheet.left) for sheet in first.files] == [(160, 844), (0, 6)]
    for number, file in enumerate(patch.files):
        lines, end = joined(first.files[number].html), first.files[number].end
        while end < len(file.lines):
            more = sheets.go_on(patch, number, end, Look())
            assert more.end > end
            lines, end = lines + joined(more.html), more.end
        [whole] = sheets.draw(patch, Look(), whole=True, only=number).files
        assert lines == joined(whole.html)
        assert whole.left == 0
    with pytest.raises(IndexError):
        sheets.go_on(patch, 0, 1_004, Look())
    patch.files[0].seen = True
    seen = sheets.draw(patch, Look())
    assert seen.files[0].end == 0, "a file that was seen is folded"
    assert seen.next is seen.files[1]


def test_the_tree_has_each_file_once_below_its_folder():
    paths = ["README", "src/app/a.py", "src/app/b.py", "src/c.py", "src/app/deep/er/d.py", "z/z"]
    patch = reading.parse("".join(patch_of([("+", "x")], path) for path in paths))
    tree = [(row.depth, row.name, row.sheet is not None) for row in sheets.draw(patch, Look()).tree]
    assert tree == [
        (0, "README", True),
        (0, "src/app", False),
        (1, "a.py", True),
        (1, "b.py", True),
        (0, "src", False),
        (1, "c.py", True),
        (1, "app/deep/er", False),
        (2, "d.py", True),
        (0, "z", False),
        (1, "z", True),
    ]


def test_lines_have_their_numbers_and_changed_words_are_marked():
    """Issue 19: where a line stands before and after, and what in it is new."""
    lines = ["total = price * 2", "return total", "log(total)"]
    patch = "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -7,3 +9,3 @@\n"
    patch += f" {lines[0]}\n-{lines[1]}\n+return round(total, 2)\n {lines[2]}\n"
    [file] = reading.parse(patch).files
    numbered = [(row.kind, row.old, row.new) for row in file.rows if row.old or row.new]
    assert numbered == [("same", 7, 9), ("del", 8, None), ("add", None, 10), ("same", 9, 11)]
    assert "<ins>round(</ins>total<ins>, 2)</ins>" in drawn(file)
    assert 'class="del" data-n="   8     " data-at="old:8"' in drawn(file)
    apart = "@@ -1 +1 @@\n-one & <b>\n+other\n"
    [file] = reading.parse(patch[: patch.index("@@")] + apart).files
    assert "<ins>" not in drawn(file), "what has no word in common is marked by its colour alone"
    assert "one &amp; &lt;b&gt;" in drawn(file)


def test_words_beyond_what_a_page_compares_are_whole_lines_and_none_is_left_out(monkeypatch):
    monkeypatch.setattr(limits, "PATCH_WORDS", 0)
    patch = (
        "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a total\n+a round\n"
    )
    [file] = reading.parse(patch).files
    assert "<ins>" not in drawn(file)
    assert "a total" in drawn(file) and "a round" in drawn(file)
