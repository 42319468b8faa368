"""The fingerprint of a step: it changes with what the step does, and with nothing else."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from runs.workflows import deliver
from runs.workflows.code.fingerprint import fingerprint

STEP = '''
"""A step in three modules."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from stepping import shop
from stepping.words import GREETING, Letter, shout as louder
from stepping.words import unused

LIMIT = 3
COUNT: int = 0
TABLE = {"a": 1}
TABLE["b"] = 2
IDLE = "nobody reads this"


def step(state: dict[str, Any], context: Any) -> list[str]:
    """Say hello."""
    # politely
    price = shop.price(LIMIT)
    letter = Letter(text=louder(GREETING))
    return [letter.text, json.dumps(TABLE), str(price), COUNT]


def other(state):
    return helper()


def helper():
    return 1
'''
SHOP = """
TAX = 2


def price(count):
    return count * TAX


def local_names(state):
    TAX = 7
    return TAX
"""
WORDS = '''
from dataclasses import dataclass
from stepping.deep import exclaim

GREETING = "hello"


@dataclass
class Letter:
    """What is sent."""

    text: str

    def size(self):
        return len(self.text)


def shout(text):
    return exclaim(text.upper())


def unused():
    return 1
'''
DEEP = """
def exclaim(text):
    return text + mark()


def mark(again=False):
    return "!" + (exclaim("") if again else "")
"""
SOURCES = {"__init__": "", "step": STEP, "shop": SHOP, "words": WORDS, "deep": DEEP}


@pytest.fixture
def of(tmp_path, monkeypatch):
    """`of(shop=("old", "new"))`: the fingerprint of `step` where `old` in that module is `new`."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "stepping").mkdir()

    def make(name="step", /, **changes):
        for module, source in SOURCES.items():
            old, new = changes.get(module, ("", ""))
            assert old in source
            (tmp_path / "stepping" / f"{module}.py").write_text(
                source.replace(old, new, 1) if old else source + new
            )
        forget()
        importlib.invalidate_caches()
        return fingerprint(getattr(importlib.import_module("stepping.step"), name))

    yield make
    forget()


MADE = {"stepping", "moved", "moved_unsaid", "asking", "moved_asking"}


def forget():
    for name in [name for name in sys.modules if name.partition(".")[0] in MADE]:
        del sys.modules[name]


def test_the_same_code_has_the_same_fingerprint(of):
    assert of() == of()
    assert len(of()) == 64
    assert of() != of("other")


@pytest.mark.parametrize(
    "changes",
    [
        {"step": ("# politely", "# rudely")},
        {"step": ('"""Say hello."""', '"""Say goodbye."""')},
        {"step": ('    """Say hello."""\n', "")},
        {
            "step": (
                "price = shop.price(LIMIT)",
                "price = shop.price(\n        LIMIT,  # three\n    )",
            )
        },
        {"step": ("state: dict[str, Any], context: Any) -> list[str]", "state, context)")},
        {"step": ('"a"', "'a'")},
        {"step": ("LIMIT = 3", "LIMIT = 0x3")},
        {"step": ("COUNT: int", "COUNT: Letter")},
        {"step": ('"nobody reads this"', '"still nobody"')},
        {"step": ("def helper():\n    return 1", "def helper():\n    return 2")},
        {"step": ("", "\n\ndef new():\n    return LIMIT\n")},
        {"words": ("def unused():\n    return 1", "def unused():\n    return 2")},
        {"words": ('"""What is sent."""', '"""What arrives."""')},
        {"shop": ("TAX = 7", "TAX = 8")},
        {"deep": ("\n\ndef mark", "\n\n\n\n# here\n\ndef mark")},
    ],
    ids=range(15),
)
def test_what_changes_nothing_does_not_count(of, changes):
    assert of(**changes) == of()


@pytest.mark.parametrize(
    "changes",
    [
        {"step": ("str(price)", "repr(price)")},
        {"step": ("[letter.text, json.dumps(TABLE)", "[json.dumps(TABLE), letter.text")},
        {"step": ("import json", "import marshal as json")},
        {"step": ("LIMIT = 3", "LIMIT = 4")},
        {"step": ("LIMIT = 3", "LIMIT = 3.0")},
        {"step": ('TABLE["b"] = 2', 'TABLE["b"] = 3')},
        {"step": ("shout as louder", "unused as louder")},
        {"step": ("state: dict[str, Any], context: Any)", "state, context=None)")},
        {"shop": ("count * TAX", "count + TAX")},
        {"shop": ("TAX = 2", "TAX = 3")},
        {"words": ('"hello"', '"Hello"')},
        {"words": ("text: str", "text: str = ''")},
        {"words": ("return len(self.text)", "return 0")},
        {"words": ("@dataclass\n", "@dataclass(frozen=True)\n")},
        {"deep": ('"!"', '"?"')},
        {"deep": ("again=False", "again=True")},
    ],
    ids=range(16),
)
def test_what_changes_the_step_counts(of, changes):
    """Its body, and through however many calls the functions, classes and constants of its
    package.
    """
    assert of(**changes) != of()


def test_names_that_a_function_binds_itself_are_not_its_modules(of):
    before = of("other")
    assert of("other", step=("return helper()", "LIMIT = 1\n    return helper()")) != before
    local = {
        "step": ("def helper():\n    return 1", "def helper():\n    LIMIT = 1\n    return LIMIT")
    }
    both = {"step": (local["step"][0], f"{local['step'][1]}\n\n\nLIMIT = 5")}
    assert of("other", **local) == of("other", **both)


EVALUATED = """
from stepping.words import Letter, unused


class Parcel:
    letter: Letter

    def weight(self, unit: unused) -> unused:
        return 1


def send(state: unused, *, how: unused = None) -> unused:
    parcel: unused = Parcel()

    def inner(part: unused) -> unused:
        return price(part)

    return inner(parcel.weight(how))
"""
SAME_ON_EACH_PYTHON = "a78d277a0be894e1eb3ea41534358c27fbb849a1011cd459ef9fcf2eccbd4e8a"
"""Measured on 3.11 and 3.14."""


def test_annotations_of_functions_do_not_count_where_python_evaluates_them(of):
    """Before: without `from __future__ import annotations` those of a function's own names counted
    up to Python 3.13, and from 3.14 on those of its parameters. A run that went on under a newer
    Python was told that its code had changed.
    """
    imported = ("", "\n\nfrom stepping.shop import send\n")

    def with_words(*change):
        return of("send", step=imported, shop=("", EVALUATED), words=change or ("", ""))

    before = with_words()
    assert with_words("def unused():\n    return 1", "def unused():\n    return 2") == before
    assert with_words("return len(self.text)", "return 0") != before  # a class reads its own
    assert before == SAME_ON_EACH_PYTHON


def test_another_process_and_another_hash_seed_come_to_the_same():
    code = (
        "from runs.workflows import deliver; "
        "from runs.workflows.code import fingerprint as f; "
        "print(f.fingerprint(deliver.deliver))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "1"},  # ours is another one
        capture_output=True,
        check=True,
    ).stdout
    assert found == f"{fingerprint(deliver.deliver)}\n".encode()


def test_a_package_that_moved_and_says_where_it_stood_keeps_its_digests(of, tmp_path):
    """Runs that waited while what we ship moved were told that all their code had changed; under
    `on_change: hold` they waited for an operator.
    """
    before = of()
    where = "\n__formerly__ = 'stepping'\n"
    for moved in ("moved", "moved_unsaid"):
        shutil.copytree(tmp_path / "stepping", tmp_path / moved)
        for path in (tmp_path / moved).glob("*.py"):
            path.write_text(path.read_text().replace("from stepping", f"from {moved}"))
    (tmp_path / "moved" / "__init__.py").write_text(where)
    found = [importlib.import_module(f"{name}.step").step for name in ("moved", "moved_unsaid")]
    assert fingerprint(found[0]) == before != fingerprint(found[1])
    # what stands in another package counts by its name, and that has moved with it
    (tmp_path / "asking.py").write_text(
        "from stepping.shop import price\n\n\ndef ask():\n    price(1)\n"
    )
    (tmp_path / "moved_asking.py").write_text(
        "__formerly__ = 'asking'\nfrom moved.shop import price\n\n\ndef ask():\n    price(1)\n"
    )
    asking = [importlib.import_module(name).ask for name in ("asking", "moved_asking")]
    assert fingerprint(asking[0]) == fingerprint(asking[1])


def test_a_function_inside_another_counts_with_all_of_it(of):
    nested = (
        "\n\ndef around():\n    def inner():\n        return LIMIT\n    return inner\n\n\nmade "
        "= around()\n"
    )
    assert (
        of("made", step=("", nested))
        == of("around", step=("", nested))
        != of("helper", step=("", nested))
    )


def test_code_without_a_source_has_none():
    space: dict[str, Any] = {"__name__": "nowhere"}
    exec(textwrap.dedent("def step(state, context): pass"), space)
    assert fingerprint(space["step"]) == fingerprint(lambda: 1) == fingerprint(len) == ""


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    from stepping.shop import price as cost\nexcept ImportError:\n    cost = None\n",
        "from .shop import price as cost\n",
        "import stepping.shop\n\n\ndef cost(count):\n    return stepping.shop.price(count)\n",
        "import stepping.shop as store\ncost = store.price\n",
        "if True:\n    from stepping import shop as again\ncost = [again][0].price\n",
        "from functools import partial\n\ncost = partial(shop.price, 1)\n",
        (
            "class Till:\n    @staticmethod\n    def cost(count):\n        return "
            "shop.price(count)\n\n\ncost = Till.cost\n"
        ),
    ],
    ids=range(7),
)
def test_code_is_found_on_each_way_that_an_import_takes(of, source):
    step = (
        "",
        f"\n\n{source}\n\ndef buy(state, context):\n    return [cost(part) for part in state]\n",
    )
    assert of("buy", step=step) == of("buy", step=step, deep=('"!"', '"?"'))
    assert of("buy", step=step) != of("buy", step=step, shop=("TAX = 2", "TAX = 3"))
