"""What changed between two texts, word by word."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from hitl.word_diff import Line, Part, as_text, compare


def side(lines, which):
    """One side of a comparison as text, without what is folded."""
    return ["".join(part.text for part in getattr(line, which)) for line in lines if getattr(line, which) is not None]


def test_the_words_that_changed_are_named_and_no_others():
    [line] = compare("Pay 100 EUR to Ana", "Pay 250 EUR to Ana")
    assert line.old == [Part("same", "Pay "), Part("removed", "100"), Part("same", " EUR to Ana")]
    assert line.new == [Part("same", "Pay "), Part("added", "250"), Part("same", " EUR to Ana")]


def test_what_is_the_same_is_no_change():
    assert compare("a\nb", "a\nb\n") == []
    assert as_text("a", "a") == ""


def test_unchanged_lines_far_from_a_change_are_folded_and_counted():
    before = "\n".join(map(str, range(20)))
    lines = compare(before, before.replace("10", "ten"))
    assert [line.folded for line in lines] == [8, 0, 0, 0, 0, 0, 7]
    assert as_text("a\nb\nc\nd\ne", "a\nb\nc\nd\nE") == "… 2 unchanged lines\n  c\n  d\n- e\n+ E"


def test_a_line_more_and_a_line_less():
    assert compare("a", "a\nb")[-1] == Line(new=[Part("added", "b")])
    assert compare("a\nb", "a")[-1] == Line(old=[Part("removed", "b")])


TEXT = st.text("ab \n.", max_size=60)


@given(TEXT, TEXT)
def test_each_side_reads_as_its_text(before, after):
    lines = [line for line in compare(before, after) if not line.folded]
    if before.splitlines() == after.splitlines():
        assert lines == []
        return
    assert all(part.kind != "added" for line in lines for part in line.old or [])
    assert all(part.kind != "removed" for line in lines for part in line.new or [])
    shown_old, shown_new = side(lines, "old"), side(lines, "new")
    assert all(text in before.splitlines() for text in shown_old)
    assert all(text in after.splitlines() for text in shown_new)


def test_two_long_texts_without_a_word_in_common_take_no_minutes():
    began = time.monotonic()
    compare("\n".join(f"a{n} " * 300 for n in range(300)), "\n".join(f"b{n} " * 300 for n in range(300)))
    assert time.monotonic() - began < 10
