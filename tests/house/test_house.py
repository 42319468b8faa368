"""Each rule of the house notices what breaks it. That the house keeps them is for `make check`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house import documents, modules, prose, sdk, source, templates
from tests.house.markdown import Page

pytestmark = pytest.mark.one_database
ROOT = Path(__file__).parents[2]


def test_a_line_of_a_template_that_is_too_long_is_named(tmp_path):
    long = f"<p>{'é' * templates.LONGEST}</p>"
    fitting = "é" * templates.LONGEST
    write(tmp_path, "templates/hitl/page.html", f"<h1>A page</h1>\n{long}\n{fitting}\n")
    write(tmp_path, "extensions/chat/templates/chat/_card.html", f"{fitting}\n{fitting}!\n")
    write(
        tmp_path, "static/css/app.css", ".a { color: red; }\n.b .a { top: 0; }\n.a { left: 0; }\n"
    )
    sheet, *found = templates.problems(tmp_path)
    assert sheet.startswith("static/css/app.css:3: .a has a rule in line 1 already.")
    assert [line.partition(" ")[0] for line in found] == [
        "templates/hitl/page.html:2:",
        "extensions/chat/templates/chat/_card.html:2:",
    ]
    assert all("blocktranslate trimmed" in line for line in found)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A small house in which nothing is wrong but what a test puts into it."""
    for app in modules.APPS:
        write(tmp_path, f"{app}/__init__.py", f'"""What {app} is for."""\n')
    write(tmp_path, "runs/workflows/__init__.py", '"""The SDK."""\n__all__ = ["Go"]\n')
    return tmp_path


def write(root: Path, name: str, text: str = "") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


BREACHES = {
    "share a prefix": {"hitl/views/api_runs.py": "", "hitl/views/api_pauses.py": ""},
    "at most 16": {f"runs/crowd/{letter * 3}.py": "" for letter in "abcdefghijklmnopq"},
    "at most 500 are read whole": {"runs/engine/long.py": "\n" * 501},
    "no docstring": {"runs/engine/__init__.py": "from runs import workflows\n"},
    "top level holds": {"hitl/helpers.py": ""},
    "imports from no other": {"tests/hitl/test_a.py": "from tests.hitl.test_b import world\n"},
    "from below the SDK's face": {"extensions/chat/own.py": "from runs.workflows.base import Go\n"},
}


@pytest.mark.parametrize("rule", BREACHES)
def test_a_rule_of_the_house_names_what_breaks_it(house, rule):
    """A rule that never failed proves nothing; each names the rule and where to read it."""
    before = modules.problems(house)
    for name, text in BREACHES[rule].items():
        write(house, name, text)
    found = [line for line in modules.problems(house) if line not in before]
    assert len(found) == 1 and rule in found[0] and modules.READ in found[0], found


def test_what_is_written_with_the_face_breaks_nothing(house):
    before = modules.problems(house)
    write(house, "extensions/chat/own.py", "from runs.workflows import Go\n")
    write(house, "runs/engine/__init__.py", '"""Several lines\nare a sentence, too."""\n')
    assert modules.problems(house) == before


PROSE = {
    "S2-19 tells a reader nothing": '"""Ask (S2-19)."""\n',
    "F6 tells a reader nothing": "x = 1  # an answer is a row (F6)\n",
    "a banner": "# ------------------------------------\n",
    "runs.gone is no module of ours": '"""See runs.gone."""\n',
    "engine.gone is no module of ours": '"""See `engine.gone`."""\n',
    "Nowhere is no module of ours": '"""Act. Raises Nowhere."""\n',
    "an example does not parse": '"""Act:\n\n    @tool("a", risk="high") def a(): ...\n"""\n',
}


@pytest.mark.parametrize("rule", PROSE)
def test_a_docstring_or_comment_that_is_not_true_is_named(house, rule):
    """Before, only documents were read."""
    write(house, "runs/engine/__init__.py", '"""The engine."""\n')
    write(house, "runs/engine/told.py", PROSE[rule])
    (found,) = prose.problems(house)
    assert rule in found and found.startswith("runs/engine/told.py:1: ")


def test_what_only_looks_like_a_number_or_a_name_is_left_alone(house):
    words = '"""`F4` selects F401, ERA001; see `base.html`, `api.example.org`, `json.dumps`."""\n'
    write(house, "runs/engine/__init__.py", words + '"""Raises KeyError.\n\n    {"a": 1, …}\n"""\n')
    assert prose.problems(house) == []


PAGES = {
    "leads to no file": "See [the guide](gone.md).",
    "names no heading and no id": "See [below](#nowhere).",
    "no module of ours": "It is `runs.engine.nowhere`.",
    "no file of ours": "It is `tests/nowhere/test_it.py`.",
    "there is no decision 999": "As decision 999 says.",
}


@pytest.mark.parametrize("rule", PAGES)
def test_a_page_that_is_not_true_is_named_with_its_line(tmp_path, rule):
    """Before, links and names in documents went stale in silence."""
    write(tmp_path, "docs/page.md", f"# A page\n\nSome words.\n{PAGES[rule]}\n")
    pages = {"docs/page.md": Page(tmp_path / "docs/page.md")}
    checks = (documents.links, documents.names, documents.decisions)
    found = [line for check in checks for line in check(tmp_path, pages)]
    assert len(found) == 1 and rule in found[0] and found[0].startswith("docs/page.md:4:"), found


def test_links_to_headings_and_ids_are_found_as_a_forge_finds_them(tmp_path):
    text = '# A `code` word, twice\n\n## Twice\n\n## Twice\n\n<a id="decision-7"></a>**7.** So.\n'
    write(tmp_path, "page.md", text + "\n```\n# no heading [x](gone.md)\n```\n")
    page = Page(tmp_path / "page.md")
    assert page.anchors == {"a-code-word-twice", "twice", "twice-1", "decision-7"}
    assert page.links == []


def test_a_page_that_nobody_finds_fails(tmp_path):
    write(tmp_path, "README.md", "[Found](docs/found.md)")
    pages = {}
    for name in ("README.md", "docs/found.md", "docs/lost.md"):
        pages[name] = Page(tmp_path / name)
        write(tmp_path, name, pages[name].text if name == "README.md" else "")
    (found,) = documents.orphans(tmp_path, pages)
    assert found.startswith("docs/lost.md: no page leads here")


def test_too_long_a_page_fails(tmp_path):
    write(tmp_path, "DESIGN.md", "line\n" * 201)
    (found,) = documents.lengths(tmp_path, {"DESIGN.md": Page(tmp_path / "DESIGN.md")})
    assert "201 lines; at most 200" in found


@pytest.mark.parametrize(
    ("page", "row", "words"),
    [
        ("settings.md", "`WAYSTATION_LEASE_SECONDS`", "the setting WAYSTATION_LEASE_SECONDS has"),
        ("commands.md", "`manage.py prune`", "the command manage.py prune has no line"),
        ("commands.md", "`make bench`", "the command make bench has no line"),
        ("events.md", "`run_expired`", "the event type run_expired has no line"),
    ],
)
def test_the_reference_has_a_line_for_everything(page, row, words):
    """Before, a setting or command could come without a word about it."""
    name = f"docs/reference/{page}"
    pages = {one: Page(ROOT / one) for one in REFERENCE}
    lines = pages[name].text.splitlines()
    pages[name] = Page(ROOT / name)
    kept = [line for line in lines if not line.startswith(f"| {row}")]
    assert len(kept) == len(lines) - 1
    pages[name].__dict__["text"] = "\n".join(kept)
    found = [*documents.references(ROOT, pages), *documents.settings(ROOT, pages)]
    assert any(words in line for line in found), found


REFERENCE = [f"docs/reference/{one}.md" for one in ("settings", "commands", "events")]


@pytest.mark.parametrize(
    ("was", "now", "words"),
    [
        ("Whether a person changed them.", "Whether it changed.", "not what the docstrings say"),
        ("<!-- names: Outcome Go Ask", "<!-- names: Outcome Ask", "Go of runs.workflows has no"),
        ("<!-- names: Outcome Go Ask", "<!-- names: Outcome Ask Go", "not what the docstrings"),
    ],
)
def test_the_page_of_the_sdk_is_what_its_docstrings_say(was, now, words):
    """Before, it was written by hand: `loops=` was in the code and not on the page."""
    page = Page(ROOT / sdk.PAGE)
    assert was in page.text and list(documents.face(ROOT, {sdk.PAGE: page})) == []
    page.__dict__["text"] = page.text.replace(was, now)
    assert words in next(documents.face(ROOT, {sdk.PAGE: page}))


def test_what_a_docstring_says_of_arguments_examples_and_errors_is_on_the_page():
    text = (ROOT / sdk.PAGE).read_text()
    rows = [line for line in text.splitlines() if line.startswith(("| `loops`", "| `max_loops`"))]
    assert len(rows) == 2 and all("|  |" not in row[-6:] for row in rows)
    assert "pages show which loop it is in" in rows[1] and "None is 100" in rows[0]
    assert "```python\nif asked := ask_about_calls(state, context, calls=wanted):\n" in text
    assert "Raises StepFailed: `not_as_declared`, naming the fields" in text


def test_a_default_that_is_not_the_codes_fails():
    name = "docs/reference/settings.md"
    page = Page(ROOT / name)
    row = "| `WAYSTATION_LEASE_SECONDS` | 15 |"
    assert row in page.text
    page.__dict__["text"] = page.text.replace(row, "| `WAYSTATION_LEASE_SECONDS` | 150 |")
    (found,) = documents.settings(ROOT, {name: page})
    assert "the default of WAYSTATION_LEASE_SECONDS is 15 in the code" in found


def test_a_setting_command_or_name_that_is_gone_fails():
    pages = {one: Page(ROOT / one) for one in REFERENCE}
    for name, row in [("settings", "`WAYSTATION_GONE` | 1"), ("commands", "`manage.py gone`")]:
        page = pages[f"docs/reference/{name}.md"]
        page.__dict__["text"] = page.text + f"\n| {row} | once |\n"
    found = [*documents.references(ROOT, pages), *documents.settings(ROOT, pages)]
    assert [line.partition(": ")[2] for line in found] == [
        "there is no command manage.py gone.",
        "there is no setting WAYSTATION_GONE.",
    ]


def test_names_lead_through_packages_modules_and_classes():
    for name in ("runs.engine", "runs.engine.advance", "hitl.decisions.services.decide"):
        assert source.exists(ROOT, name)
    assert source.exists(ROOT, "checkpoints.contract.base.CheckpointStore.latest")
    assert not source.exists(ROOT, "hitl.decisions.services.undecide")
