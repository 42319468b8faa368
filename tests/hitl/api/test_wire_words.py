"""Where REST says another word than the code, docs/reference/glossary.md has both."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path
from typing import Any

from rest_framework import serializers

import hitl.api
import runs.api

GLOSSARY = Path(__file__).resolve().parents[3] / "docs" / "reference" / "glossary.md"
SAME = {"shown_id", "get_username", "name", "template_slug", "shown"}
"""Ends of a source that are another form of the same thing: an id, a name."""


def in_table() -> set[tuple[str, str]]:
    section = GLOSSARY.read_text().partition("## On the wire")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", section, re.MULTILINE))


def in_code() -> set[tuple[str, str]]:
    """Wire and inner word of every field that renames a column."""
    for package in (hitl.api, runs.api):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    found: set[tuple[str, str]] = set()
    kinds: list[Any] = [serializers.Serializer]
    while kinds:
        kinds += (kind := kinds.pop()).__subclasses__()
        if not kind.__module__.startswith(("hitl.api", "runs.api")):
            continue
        for name, field in getattr(kind, "_declared_fields", {}).items():
            inner = (field.source or name).rpartition(".")[2]
            if inner not in {name, "*", *SAME}:
                found.add((name, inner))
    return found


def test_each_word_that_differs_on_the_wire_is_in_the_glossary() -> None:
    assert in_code() - in_table() == set()


def test_the_glossary_names_no_word_that_is_gone() -> None:
    by_methods = {("answers", "answers"), ("agent_work_order_id", "work_order")}
    assert in_table() - in_code() - by_methods == set()
