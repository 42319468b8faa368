"""What changed between two texts, word by word."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl.rendering.word_diff import DiffLine, DiffPart, as_text, compare
from hitl.rendering.work import Work
from runs import limits


def side(lines, which):
    """One side of a comparison as text, without what is folded."""
    return [
        "".join(part.text for part in getattr(line, which))
        for line in lines
        if getattr(line, which) is not None
    ]


def test_the_words_that_changed_are_named_and_no_others():
    [line] = compare("Pay 100 EUR to Ana", "Pay 250 EUR to Ana")
    assert line.old == [
        DiffPart("same", "Pay "),
        DiffPart("removed", "100"),
        DiffPart("same", " EUR to Ana"),
    ]
    assert line.new == [
        DiffPart("same", "Pay "),
        DiffPart("added", "250"),
        DiffPart("same", " EUR to Ana"),
    ]


def test_what_is_the_same_is_no_change():
    assert compare("a\nb", "a\nb\n") == []
    assert as_text("a", "a") == ""


def test_unchanged_lines_far_from_a_change_are_folded_and_counted():
    before = "\n".join(map(str, range(20)))
    lines = compare(before, before.replace("10", "ten"))
    assert [line.folded for line in lines] == [8, 0, 0, 0, 0, 0, 7]
    assert as_text("a\nb\nc\nd\ne", "a\nb\nc\nd\nE") == "… 2 unchanged lines\n  c\n  d\n- e\n+ E"


def test_a_line_more_and_a_line_less():
    assert compare("a", "a\nb")[-1] == DiffLine(new=[DiffPart("added", "b")])
    assert compare("a\nb", "a")[-1] == DiffLine(old=[DiffPart("removed", "b")])


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
    began = time.process_time()
    compare(
        "\n".join(f"a{n} " * 300 for n in range(300)), "\n".join(f"b{n} " * 300 for n in range(300))
    )
    assert time.process_time() - began < 10


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("word " * 8_000, "other word " * 4_000),
        (" ." * 20_000, ". " * 20_001),
        ("\n" * 40_000 + "a", "b" + "\n" * 40_001 + "c"),
        (
            "\n".join("ab"[n % 2] for n in range(20_000)),
            "\n".join("ba"[n % 3 % 2] for n in range(20_000)),
        ),
    ],
)
def test_a_comparison_ends_at_its_work_and_still_shows_both_texts_whole(before, after):
    """40 KB of the same words took 45 s of a web worker."""
    work = Counted(limits.DIFF_WORK)
    lines = compare(before, after, work=work)
    assert work.spent <= limits.DIFF_WORK
    kept = sum(line.folded for line in lines)
    assert len([line for line in lines if line.old is not None]) + kept == len(before.splitlines())
    assert len([line for line in lines if line.new is not None]) + kept == len(after.splitlines())
    whole = [line for line in lines if not line.folded]
    assert all(text in before for text in side(whole, "old"))
    assert all(text in after for text in side(whole, "new"))


class Counted(Work):
    """Also counts what it granted."""

    spent = 0

    def spend(self, amount=1):
        super().spend(amount)
        self.spent += amount


def test_one_word_changed_in_a_long_line_is_still_named():
    before = " ".join(f"w{n % 50}" for n in range(10_000))
    [line] = compare(before, before.replace("w7 ", "seven ", 1))
    assert [part for part in line.old if part.kind == "removed"] == [DiffPart("removed", "w7")]


def test_what_changed_before_the_work_was_spent_is_shown_by_words():
    [small, large] = compare("pay 100\n" + "word " * 8_000, "pay 250\n" + "other word " * 4_000)
    assert small.old == [DiffPart("same", "pay "), DiffPart("removed", "100")]
    assert [part.kind for part in large.old] == ["removed"]
