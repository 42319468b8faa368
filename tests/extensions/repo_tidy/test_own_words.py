"""A repository says itself which Python it supports and how ruff is to look at it: repo-tidy keeps
to that, or says where it does not.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from extensions.repo_tidy import ruff_settings, steps
from extensions.repo_tidy.proof import needs
from extensions.repo_tidy.python_versions import ASSUMED, lowest, oldest, settle, target_of
from extensions.repo_tidy.tools import Ruff
from tests.worlds.repositories import UNTIDY, Desk, add, add_commit, codes, make_repository

PYPROJECT = """
[project]
name = "bottle-shop"
requires-python = ">=3.9"
[tool.ruff]
src = ["src"]
fix = true
unsafe-fixes = true
preview = true
target-version = "py39"
extend-exclude = ["src/shop/vendored.py"]
[tool.ruff.lint]
select = ["F", "I", "UP", "B"]
ignore = ["UP038", "UP032"]
unfixable = ["B007"]
[tool.ruff.lint.per-file-ignores]
"**/__init__.py" = ["F401"]
[tool.ruff.lint.isort]
force-single-line = true
"""
SHOP: dict[str, str | bytes] = {
    "pyproject.toml": PYPROJECT,
    "src/shop/__init__.py": "from .app import Shop as Unused\n",
    "src/shop/vendored.py": "import os\n",
    "src/shop/app.py": (
        "import typing as t\nimport os\nfrom datetime import datetime, timezone\n\n\n"
        "class Shop(object):\n    def __init__(self, name: t.Optional[str] = None):\n        "
        "self.name = name\n"
        "        self.at = datetime.now(timezone.utc)\n        self.text = '{}'.format(name)\n"
    ),
    "tests/test_app.py": "from shop import app, vendored\n\nassert app and vendored\n",
}
"""Laid out as Flask is: a package under src, its Python and its ruff settings in pyproject.toml."""


def planned(tmp_path, files, **order):
    """A desk after plan, whose text is `text`."""
    desk = Desk(tmp_path, make_repository(tmp_path / "origin", files), **order)
    desk.text = desk.take(steps.plan).report.content
    return desk


def tidied(tmp_path, files, **order):
    """A desk after plan, execute and review; the proof's text is `patch`."""
    desk = planned(tmp_path, files, **order)
    desk.take(steps.execute)
    desk.patch = desk.take(steps.review).report.content
    return desk


@pytest.mark.parametrize(
    "asked", [{}, {"target_version": "py311"}, {"rules": "F, I, UP, E7", "target_version": "py311"}]
)
def test_a_repository_is_not_broken_for_the_oldest_python_that_it_supports(tmp_path, asked):
    """Before: Flask (requires-python >=3.9) got `X | None` and `datetime.UTC`, by the order's
    default of py311, and "✓ holds".
    """
    desk = tidied(tmp_path, SHOP, input=asked)
    app = desk.read("src/shop/app.py").decode()
    assert (
        "t.Optional[str]" in app
        and "timezone.utc" in app
        and "import os" not in app
        and "Shop(object)" not in app
    )
    assert "Oldest Python: **3.9** (by `pyproject.toml: requires-python = “>=3.9”`)." in desk.text
    assert ("The order asks for 3.11; the older one counts" in desk.text) == bool(asked)
    assert "for Python 3.9." in desk.text
    assert desk.state["review"]["passed"]
    assert (
        "| ✓ | The changed files have the syntax of Python 3.9 | compiled by ruff for 3.9; "
        "not imported and not run under it |"
    ) in desk.patch
    assert "| ✓ | They need nothing newer of the standard library than 3.9 has |" in desk.patch


def test_its_ruff_configuration_is_respected_and_what_is_not_is_said(tmp_path):
    """Before: ruff ran `--isolated`: ignored rules were fixed, excluded files changed, imports
    sorted its own way, unsaid.
    """
    desk = planned(tmp_path, SHOP)
    assert set(codes(desk)) == {"F401", "I001", "UP004"}
    desk.take(steps.execute)
    assert desk.read("src/shop/__init__.py").decode() == SHOP["src/shop/__init__.py"], (
        "per-file-ignores"
    )
    assert desk.read("src/shop/vendored.py").decode() == SHOP["src/shop/vendored.py"], (
        "extend-exclude"
    )
    assert b"from datetime import datetime\nfrom datetime import timezone\n" in desk.read(
        "src/shop/app.py"
    ), "its isort settings"
    assert b"'{}'.format" in desk.read("src/shop/app.py"), "ignored"
    assert b"import app\nfrom shop import vendored" in desk.read("tests/test_app.py")
    assert "Its ruff configuration (`pyproject.toml`) is respected" in desk.text
    assert "Left out by it: UP032, UP038." in desk.text
    assert "Overridden: preview = true; unsafe-fixes = true." in desk.text
    assert "The repository's rules B, F, I, UP in the whole repository" in desk.text
    desk.take(steps.plan, "add UP032")
    assert "UP032" not in codes(desk), "a reviewer does not undo what the repository leaves out"


def test_an_order_that_names_its_rules_says_that_it_overrides_those_of_the_repository(tmp_path):
    desk = planned(tmp_path, SHOP, input={"rules": "F401, UP032"})
    assert set(codes(desk)) == {"F401"}
    assert "its selected rules (B, F, I, UP), for the order names others" in desk.text
    assert "Asked for: rules F401, UP032" in desk.text


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (
            "extend = '/etc/passwd'\n[lint]\nignore = ['F401']\n",
            "extends “/etc/passwd”, which is no file of the repository",
        ),
        ("required-version = '==0.0.1'\n", "Required version `==0.0.1` does not match"),
        ("lint.select = ['NOSUCH1']\n", "Unknown rule selector `NOSUCH1`"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_not_and_the_plan_says_why(tmp_path, written, why):
    """It may name any file of the machine, or another ruff than ours."""
    files = {"a.py": "import os\n", "deep/b.py": "import os\n", "ruff.toml": written}
    desk = planned(tmp_path, files)
    assert "Its ruff configuration is **not used**" in desk.text and why in desk.text
    assert codes(desk) == {"F401": 2}


@pytest.mark.parametrize(
    ("name", "written", "why"),
    [
        ("ruff.toml", "extend = '../outside.toml'\n", "which is no file of the repository"),
        ("ruff.toml", "extend = '$HOME/x.toml'\n", "which is no file of the repository"),
        ("ruff.toml", "extend = 'ruff.toml'\n", "extends itself"),
        ("ruff.toml", "this is no toml", "cannot be read as TOML"),
        ("deep/.ruff.toml", "extend = '../../../x'\n", "which is no file of the repository"),
    ],
)
def test_a_configuration_is_read_within_the_repository_alone(tmp_path, name, written, why):
    add(tmp_path, {name: written})
    assert why in ruff_settings.read(SimpleNamespace(path=tmp_path), [name], []).refused


def test_a_link_for_a_configuration_is_not_followed(tmp_path):
    origin = make_repository(tmp_path / "origin", {"a.py": "import os\n", "b.py": ""})
    (origin / "ruff.toml").symlink_to("/etc/passwd")
    desk = Desk(tmp_path, add_commit(origin, {}))
    assert "ruff.toml is a link" in desk.take(steps.plan).report.content
    desk.take(steps.execute)
    desk.take(steps.review)
    assert desk.state["review"]["passed"]


def test_each_file_has_its_nearest_configuration_and_those_without_one_have_none(tmp_path):
    files = {
        "a.py": "import os\n",
        "one/ruff.toml": "lint.ignore = ['F401']\n",
        "one/a.py": "import os\n",
        "one/two/pyproject.toml": (
            "[tool.ruff]\nextend = '../ruff.toml'\n[tool.ruff.lint]\nextend-select = ['F401']\n"
        ),
        "one/two/a.py": "import os\n",
        "three/pyproject.toml": "[project]\nname = 'x'\n",
        "three/a.py": "import os\n",
    }
    desk = planned(tmp_path, files, input={"rules": "F"})
    assert desk.state["plan"]["rules"][0]["files"] == ["a.py", "one/two/a.py", "three/a.py"]


def test_syntax_that_was_newer_already_is_said_and_left_alone(tmp_path):
    """It is no failure of the tidy-up, and nothing that it may touch."""
    newer = "import os\nmatch 1:\n    case 1:\n        pass\n"
    desk = tidied(tmp_path, {**SHOP, "src/shop/new.py": newer})
    assert "Cannot use `match` statement on Python 3.9" in desk.text
    assert desk.read("src/shop/new.py").decode() == newer
    assert desk.state["review"]["passed"]


def test_what_needed_newer_names_already_is_said_and_does_not_fail_the_proof(tmp_path):
    desk = tidied(
        tmp_path, {**SHOP, "src/shop/toml.py": "import os\nimport tomllib\n\nprint(tomllib)\n"}
    )
    assert desk.state["review"]["passed"]
    assert (
        "newer already before, and left so: src/shop/toml.py: 'tomllib' module (3.11)" in desk.patch
    )


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("from datetime import UTC\n\nprint(UTC)\n", "'datetime.UTC' member (3.11)"),
        ("match 1:\n    case 1:\n        pass\n", "Cannot use `match`"),
    ],
)
def test_a_fix_that_needs_a_newer_python_does_not_hold(tmp_path, monkeypatch, written, found):
    """The proof itself: here a fix writes what 3.9 does not have."""
    desk = planned(tmp_path, SHOP)
    real = Ruff.fix

    def fix(ruff, code, files):
        real(ruff, code, files)
        (desk.path / "src/shop/app.py").write_text(written)

    monkeypatch.setattr(Ruff, "fix", fix)
    desk.state["plan"]["rules"] = [
        rule for rule in desk.state["plan"]["rules"] if "src/shop/app.py" in rule["files"]
    ][:1]
    desk.take(steps.execute)
    monkeypatch.undo()
    proof = desk.take(steps.review).report.content
    assert proof.startswith("# ✗")
    assert found in proof


LANGUAGE = "Programming Language :: Python :: "


def toml(line, *classified):
    """A pyproject.toml with that line, and with classifiers of these versions."""
    return f"[project]\n{line}\nclassifiers = {[LANGUAGE + version for version in classified]}"


@pytest.mark.parametrize(
    ("files", "version", "by"),
    [
        ({"pyproject.toml": toml("requires-python = '>=3.9'", "3.8")}, (3, 9), "requires"),
        ({"pyproject.toml": toml("", "3.10", "3.8")}, (3, 8), "3.8"),
        ({"pyproject.toml": "[tool.poetry.dependencies]\npython = '^3.8'"}, (3, 8), "poetry"),
        ({"pyproject.toml": "[tool.ruff]\ntarget-version = 'py310'"}, (3, 10), "target-version"),
        ({"setup.cfg": "[options]\npython_requires = >=3.7"}, (3, 7), "python_requires"),
        (
            {"setup.cfg": f"[metadata]\nclassifiers =\n    {LANGUAGE}3.9\n    {LANGUAGE}3"},
            (3, 9),
            "3.9",
        ),
        (
            {"setup.py": "from setuptools import setup\nOLD = '>=3.8'\nsetup(python_requires=OLD)"},
            (3, 8),
            "python_requires",
        ),
        (
            {"setup.py": f"import os; os.abort()\nsetup(classifiers=['{LANGUAGE}3.12'])"},
            (3, 12),
            "3.12",
        ),
        ({"tox.ini": "[tox]\nenvlist = py{39,310}-django{4,5}, lint"}, (3, 9), "tox"),
        ({".python-version": "3.12.1\n3.10\n"}, (3, 10), "3.10"),
        (
            {
                "a/pyproject.toml": "[project]\nrequires-python='>=3.11'",
                "b/setup.cfg": "[options]\npython_requires=>=3.8",
            },
            (3, 8),
            "b/setup.cfg",
        ),
        (
            {
                "pyproject.toml": "[project]\nrequires-python = 'nonsense'",
                "tox.ini": "nonsense",
                "setup.py": "(",
                "setup.cfg": "\0",
            },
            None,
            "",
        ),
        ({"setup.py": "setup(python_requires='>=2.7, !=3.0.*')"}, (2, 7), "2.7"),
    ],
)
def test_the_oldest_python_is_what_the_packages_say_together(tmp_path, files, version, by):
    """Read, never run; several packages: the lowest."""
    add(tmp_path, files)
    found = oldest(SimpleNamespace(path=tmp_path), files)
    assert (found.version if found else None) == version
    assert by in (f"{found.path} {found.words}" if found else "")


def test_a_python_that_ruff_does_not_know_is_kept_from_newer_syntax(tmp_path):
    files = {
        **UNTIDY,
        "setup.py": "setup(python_requires='>=2.7')\n",
        "src/old.py": "import os\n\n\nclass A(object):\n    x = u'a'\n",
    }
    desk = tidied(tmp_path, files)
    assert not [code for code in codes(desk) if code.startswith("UP")]
    assert (
        "Oldest Python: **2.7**" in desk.text and "the rules UP, FURB, FA are left out" in desk.text
    )
    assert b"class A(object)" in desk.read("src/old.py")


def test_a_repository_that_says_nothing_is_told_so(tmp_path):
    desk = planned(tmp_path, UNTIDY)
    assert (
        "Oldest Python: **3.11** (the repository does not say which it supports). That is a guess"
        in desk.text
    )
    assert "It has no ruff configuration." in desk.text
    assert target_of(settle("", None)) == f"py{ASSUMED[0]}{ASSUMED[1]}"


@pytest.mark.parametrize(
    ("specifier", "version"),
    [
        (">3.8", (3, 8)),
        ("~=3.9", (3, 9)),
        ("^3.8 || ^3.6", (3, 6)),
        ("3.10.*", (3, 10)),
        ("<4,>=3.7.1", (3, 7)),
        ("*", None),
        ("", None),
    ],
)
def test_version_specifiers_are_read_in_all_their_ways(specifier, version):
    assert lowest(specifier) == version


def test_what_cannot_be_parsed_is_not_said_to_be_fine():
    assert needs(b"def f(:", (3, 9)) is None
    assert needs(b"x: int | None = None\n", (3, 9)) == {"union types as `X | Y` (3.10)"}
    assert needs(b"from __future__ import annotations\nx: int | None = None\n", (3, 9)) == set()
