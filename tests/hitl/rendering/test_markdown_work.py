"""P12: what any person may write costs a page little: linear, bounded, once for each text."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import unescape
from types import FrameType
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.template import RequestContext, Template
from django.test import RequestFactory
from django.utils.translation import override

from hitl.rendering import markdown
from hitl.rendering.markdown import MarkdownPage
from runs import limits

SHAPES: dict[str, Callable[[int], str]] = {
    "words": lambda n: "some *words* of a `plan`, \\* and <https://e.example/a>.\n\n" * (n // 56),
    "definitions": lambda n: "".join(f"[n{i}]:b{i}\n" for i in range(n // 12)),
    "one definition again and again": lambda n: "[n]:b\n" * (n // 6),
    "definitions that links use": lambda n: "".join(
        f"[n{i}]\n\n[n{i}]: b\n\n" for i in range(n // 18)
    ),
    "a long definition, used often": lambda n: (
        f"[a]: /{'x' * (n // 2)}\n\n" + "[b][a] " * (n // 14)
    ),
    "brackets": lambda n: "[" * n,
    "images that do not end": lambda n: "![" * (n // 2),
    "images in images": lambda n: "![" * (n // 6) + "a" + "](b)" * (n // 6),
    "links": lambda n: "[a](b)" * (n // 6),
    "links that do not end": lambda n: "[a](" * (n // 4),
    "emphasis": lambda n: "*a **b ***c _d __e " * (n // 19),
    "emphasis in emphasis": lambda n: "*a " * (n // 6) + "b*" * (n // 6),
    "backticks": lambda n: "`a``b```c" * (n // 9),
    "longer and longer backticks": lambda n: "".join(
        f"a{'`' * i}" for i in range(int((2 * n) ** 0.5))
    ),
    "fences": lambda n: "```\na\n~~~\n" * (n // 10),
    "quotes in quotes": lambda n: (">" * 30 + " a\n") * (n // 33),
    "lists in lists": lambda n: "".join(" " * i + "- a\n" for i in range(int((2 * n) ** 0.5))),
    "items": lambda n: "- a\n" * (n // 4),
    "empty items": lambda n: "-\n\n" * (n // 3),
    "cells": lambda n: "|a|b|\n|-|-|\n" + "|1|2|\n" * (n // 6),
    "cells nobody wrote": lambda n: (
        "|" + "a|" * (n // 8) + "\n|" + "-|" * (n // 8) + "\n" + "a\n" * (n // 4)
    ),
    "entities": lambda n: "&amp;&#&a" * (n // 9),
    "addresses": lambda n: "<https://a.b><c:" * (n // 16),
    "tags": lambda n: "<b a='<!--" * (n // 10),
    "escapes": lambda n: "\\*" * (n // 2),
    "lines": lambda n: "a\n" * (n // 2),
    "empty lines": lambda n: "\n" * n,
    "spaces": lambda n: (" " * 99 + "\n") * (n // 100),
    "rules": lambda n: "* * *\n" * (n // 6),
    "titles that do not end": lambda n: "[a]: b '\n" + "c\n" * (n // 2),
    "characters that are not seen": lambda n: "a\u200b" * (n // 2),
}  # fmt: skip
"""Texts of about so many characters."""
SIZE = 800
LARGE = 100_000
SECONDS = 5
"""Of the processor, for what takes about half of one; what takes the square of its length takes a
minute.
"""


@pytest.fixture(autouse=True)
def unkept(monkeypatch):
    """Each text is read anew."""
    monkeypatch.setattr(markdown, "_kept", markdown._Kept())


def lines(call: Callable[[], Any]) -> int:
    """How many lines of Python a call takes, those of loops each time: the same number on any
    host.
    """
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fails what takes more of the processor, also within a pattern."""

    def over(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"took more than {seconds} s of the processor")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("read", [markdown.read, markdown.unescaped])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_twice_the_text_takes_twice_the_work(shape, read):
    """`[n1]:b1` lines, 416 KB of them, cost 40 s at each view: a counter of all words was added up
    once for each thing that a note named; and each link copied all that stood behind it.
    """
    read("warm")
    short, long = shape(SIZE), shape(2 * SIZE)
    assert lines(lambda: read(long)) < 2.5 * lines(lambda: read(short))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_large_text_of_any_shape_ends_soon(shape):
    """Patterns take no lines of Python: 32 KB of empty lines took 10 s to look for numbers
    of lists, 97 KB of backticks 88 s in a mail.
    """
    text = shape(LARGE)
    with within(SECONDS):
        markdown.read(text)
    with within(SECONDS):
        markdown.unescaped(text)


def test_a_text_of_too_much_markdown_is_shown_as_it_is_written_and_says_so():
    """MARKDOWN_WORK: a hundred thousand brackets cost 6 s, and a table of two thousand characters
    had sixty thousand cells.
    """
    text = "# Plan\n\n<b>Pay</b> eve\u200b.\n\n" + "[" * 100_000
    reading = markdown.read(text)
    assert reading.work == limits.MARKDOWN_WORK
    assert "it has too much Markdown to be rendered" in reading.html
    assert "# Plan\n\n&lt;b&gt;Pay&lt;/b&gt; eve<span" in reading.html
    assert "[" * 100_000 in reading.html
    (note,) = reading.notes  # nothing is left out but what no screen shows
    assert "U+200B" in note
    with override("de"):
        assert "so, wie er geschrieben ist" in markdown.read(text).html


def test_a_question_as_long_as_one_may_be_is_rendered():
    text = SHAPES["words"](100_000)
    reading = markdown.read(text)
    assert "<strong>" not in reading.html and "<em>words</em>" in reading.html
    assert reading.work < limits.MARKDOWN_WORK


def test_the_texts_of_one_page_have_a_bound_together(monkeypatch):
    """MARKDOWN_PAGE: two hundred messages that were each just short enough."""
    monkeypatch.setattr(limits, "MARKDOWN_PAGE", limits.MARKDOWN_PAGE // 10)
    request = RequestFactory().get("/")
    request.user = AnonymousUser()
    page = Template(
        "{% load hitl %}{% for text in texts %}{% markdown text %}{% as_written text %}{% endfor %}"
    )
    texts = [f"{number} *a* " + "*b* " * 400 for number in range(40)]
    context = RequestContext(request, {"texts": texts})
    shown = page.render(context)
    as_written = shown.count("it has too much Markdown to be rendered")
    assert 0 < as_written < 40
    most = 1 + limits.MARKDOWN_PAGE // markdown.read(texts[0]).work
    assert 40 - as_written <= most
    assert all(f"{number} *a*" in unescape(shown) for number in range(40))


def test_a_page_asks_for_a_text_twice_and_pays_once():
    page = MarkdownPage()
    first = page.read("*a*")
    left = page.left
    assert page.read("*a*") is first
    assert page.left == left


def test_a_text_is_read_once(monkeypatch):
    """The rendering and its notes each read the text, at each view."""
    read: list[str] = []
    rendered = markdown._rendered

    def noted(text: str) -> markdown.ReadMarkdown | None:
        read.append(text)
        return rendered(text)

    monkeypatch.setattr(markdown, "_rendered", noted)
    texts = ["*a*", "[" * 100_000, "*a*", "[" * 100_000]
    for text in texts:
        markdown.read(text)
    assert read == texts[:2]


def test_what_is_kept_has_a_bound():
    kept = markdown._Kept()
    reading = markdown.read("a" * (markdown.KEPT // 20))
    for number in range(100):
        kept.keep(str(number).encode(), reading)
    assert kept._size <= markdown.KEPT
    assert kept.get(b"99") is not markdown._UNREAD
    assert kept.get(b"1") is markdown._UNREAD


def test_an_entity_with_more_digits_than_a_number_may_have_is_text():
    """`&#111…;` was a ValueError: each page that showed the text was 500."""
    text = f"&#{'1' * 5_000}; said"
    assert text in unescape(markdown.read(text).html)
    assert markdown.read(text).notes == []
    assert markdown.unescaped(text) == text


@pytest.mark.parametrize(
    ("text", "plain"),
    [("a\\*b `c\\*d` \\`e\\`", "a*b `c\\*d` `e`"), ("``a\\*` b\\*``c\\*", "``a\\*` b\\*``c*"),
     ("```\na\\*\n```\nb\\*", "```\na\\*\n```\nb*"),
     ("~~~\na\\*\n```\nb\\*", "~~~\na\\*\n```\nb\\*"),
     ("````\na\\*\n```\nb\\*\n````\nc\\*", "````\na\\*\n```\nb\\*\n````\nc*"),
     ("``` a`b\\*\nc\\*", "``` a`b*\nc*"), ("`a\\*", "`a*"), ("\\\\*", "\\*"), ("\\a", "\\a")],
)  # fmt: skip
def test_only_what_is_no_code_loses_its_backslashes(text, plain):
    assert markdown.unescaped(text) == plain
