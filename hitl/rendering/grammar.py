"""Markdown as tokens: CommonMark with tables and strikethrough, no raw HTML, each token counted.

markdown-it reads in linear time, but up to twenty times as long for a text of brackets as for one
of words, and a table of two thousand characters may have sixty thousand cells. So its two parsers
spend the `Work` of the text while they read.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any, Literal

from markdown_it import MarkdownIt
from markdown_it.parser_block import ParserBlock
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from hitl.rendering.work import Work

WORK = "work"
"""Where the environment of a text holds it, beside the definitions."""


class _CountedBlocks(StateBlock):
    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        _work_of(self.env).spend()
        return super().push(ttype, tag, nesting)


class _Blocks(ParserBlock):
    def parse(
        self, src: str, md: MarkdownIt, env: MutableMapping[str, Any], outTokens: list[Token]
    ) -> list[Token] | None:
        state = _CountedBlocks(src, md, env, outTokens)
        self.tokenize(state, state.line, state.lineMax)
        return state.tokens


class _CountedSpans(StateInline):
    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        _work_of(self.env).spend()
        return super().push(ttype, tag, nesting)

    def append_pending(self, text: str) -> None:
        """Take up text, and each sign that might have begun something and began nothing."""
        _work_of(self.env).spend()
        super().append_pending(text)


class _Spans(ParserInline):
    def skipToken(self, state: StateInline) -> None:
        """Look for the end of a link: each `[` looks over up to twenty others."""
        _work_of(state.env).spend()
        super().skipToken(state)

    def parse(
        self, src: str, md: MarkdownIt, env: MutableMapping[str, Any], tokens: list[Token]
    ) -> list[Token]:
        _work_of(env).spend()
        state = _CountedSpans(src, md, env, tokens)
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens


class Grammar(MarkdownIt):
    def __init__(self) -> None:
        super().__init__("zero")
        self.block, self.inline = _Blocks(), _Spans()
        self.configure("commonmark", {"html": False, "linkify": False, "store_labels": True})
        self.enable("table").enable("strikethrough")

    def tokens(self, text: str, env: MutableMapping[str, Any], work: Work) -> Sequence[Token]:
        """The tokens of a text; its definitions are in `env` then.

        Raises WorkSpent.
        """
        env[WORK] = work
        return self.parse(text, env)


def _work_of(env: MutableMapping[str, Any]) -> Work:
    work = env[WORK]
    assert isinstance(work, Work)
    return work
