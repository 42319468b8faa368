"""The rules of the house for documents: links, lengths, names of ours, and the reference.

A broken link, a missing anchor, a page that is too long, a name of ours that leads nowhere, or a
setting, command, event or public name without its line in the reference fails. Each message names
what is wrong, where, and what to do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

from tests.house import rest, sdk, source
from tests.house.markdown import Page

LIMITS = {
    "README.md": 150,
    "client/README.md": 150,
    "DESIGN.md": 200,
    "docs/how-to/upgrade.md": 250,
}
"""Lines of a page; of an upgrade's more, since each release adds what it asks of operators."""
HOW_TO = 150
NAME = re.compile(rf"(?:{'|'.join(source.ROOTS)})(?:\.\w+)+")
PATH = re.compile(rf"(?:{'|'.join(source.ROOTS)}|docs|templates|static)/[\w./-]+\.\w+")
NO_MODULE = re.compile(r"\w+\.(?:[EWI]\d+|(?:add|change|delete|view)_\w+)")
"""Dotted names that Django has: ids of its checks, and rights to the rows of a table."""
REFERS = re.compile(
    r"\b[Dd]ecisions? (\d{1,3})\b(?!,? (?:of|in all))|\bDESIGN(?:\.md)? (\d{1,3})\b"
)
DECISION = re.compile(r"decision-(\d+)")
HISTORY = ("CHANGELOG.md", "docs/upstream/", "docs/how-to/upgrade.md")
"""Pages about what was: names in them may be gone."""


def problems(root: Path) -> list[str]:
    """Everything that is wrong with the documents below a folder, one line each."""
    pages = {path.relative_to(root).as_posix(): Page(path) for path in _files(root)}
    rules = (links, orphans, lengths, names, decisions, references, face, settings, routes)
    return [found for rule in rules for found in rule(root, pages)]


def _files(root: Path) -> list[Path]:
    found = [*root.glob("*.md"), *root.glob("client/*.md"), *(root / "docs").rglob("*.md")]
    return sorted(found)


Pages = dict[str, Page]


def links(root: Path, pages: Pages) -> Iterator[str]:
    """Links that lead to no file, or to no anchor of a page."""
    for name, page in pages.items():
        for line, target in page.links:
            path, _, anchor = unquote(target).partition("#")
            if re.match(r"[a-z][a-z+.-]*:", path) or path.startswith("/"):
                continue
            file = (page.path.parent / path).resolve() if path else page.path
            if not file.exists():
                yield f"{name}:{line}: the link {target} leads to no file."
            elif anchor and file.suffix == ".md" and anchor not in _page(root, pages, file).anchors:
                yield f"{name}:{line}: the link {target} names no heading and no id of that page."


def _page(root: Path, pages: Pages, file: Path) -> Page:
    return pages.get(file.relative_to(root).as_posix(), Page(file))


def orphans(root: Path, pages: Pages) -> Iterator[str]:
    """Pages below docs/ to which no other page leads."""
    reached = {
        (page.path.parent / unquote(link.target).partition("#")[0]).resolve()
        for page in pages.values()
        for link in page.links
    }
    for name, page in pages.items():
        if name.startswith("docs/") and page.path.resolve() not in reached:
            yield f"{name}: no page leads here. Add its line to docs/README.md."


def lengths(root: Path, pages: Pages) -> Iterator[str]:
    """Pages that are longer than a reader has patience for."""
    for name, page in pages.items():
        most = LIMITS.get(name, HOW_TO if name.startswith("docs/how-to/") else 0)
        if most and page.lines > most:
            yield (
                f"{name}: {page.lines} lines; at most {most} are read. Move what is looked up to"
                " docs/reference/."
            )


def names(root: Path, pages: Pages) -> Iterator[str]:
    """Names of modules and paths of files, in code spans, that lead nowhere."""
    for name, page in pages.items():
        if name.startswith(HISTORY):
            continue
        for line, code in page.spans:
            word = code.partition("(")[0]
            if NAME.fullmatch(word) and not known(root, word):
                yield f"{name}:{line}: `{code}` is no module of ours, nor a name in one."
            elif PATH.fullmatch(word) and not (root / word).exists():
                yield f"{name}:{line}: `{code}` is no file of ours."


def known(root: Path, dotted: str) -> bool:
    """Whether a dotted name is a right, or leads to something of ours."""
    rest_of_it = dotted.partition(".")[2]
    return (
        NO_MODULE.fullmatch(dotted) is not None
        or rest_of_it in source.permissions(root)
        or source.exists(root, dotted)
        or (root / dotted.replace(".", "/", 1)).exists()
    )


def decisions(root: Path, pages: Pages) -> Iterator[str]:
    """Numbers of decisions that stand twice or nowhere, and pages that the index leaves out."""
    folder = "docs/decisions/"
    told = Counter(
        int(number)
        for name, page in pages.items()
        if name.startswith(folder)
        for number in (match[1] for match in map(DECISION.fullmatch, page.ids) if match)
    )
    where = f"See {folder}README.md."
    yield from (
        f"{folder}: decision {number} stands on {times} pages. {where}"
        for number, times in told.items()
        if times > 1
    )
    gaps = sorted(set(range(1, max(told, default=0) + 1)) - told.keys())
    yield from (
        f"{folder}: decision {number} is lost: no page has its anchor. {where}" for number in gaps
    )
    index = pages.get(f"{folder}README.md")
    listed = {target for _, target in index.links} if index else set()
    for name, page in pages.items():
        if name.startswith(folder) and page is not index:
            file = page.path.name
            wanted = {f"{file}#{one}" for one in page.ids if DECISION.fullmatch(one)} | {file}
            yield from (
                f"{folder}README.md: the index does not lead to {one}."
                for one in sorted(wanted - listed)
            )
    for path, text in _texts(root):
        for match in REFERS.finditer(text):
            if int(match[1] or match[2]) not in told:
                line = text.count("\n", 0, match.start()) + 1
                yield f"{path}:{line}: there is no {match[0]}. {where}"


def _texts(root: Path) -> Iterator[tuple[str, str]]:
    """The code and the documents that may refer to a decision."""
    paths = [*_files(root), *(path for app in source.ROOTS for path in (root / app).rglob("*.py"))]
    for path in paths:
        name = path.relative_to(root).as_posix()
        if "/.artifacts/" not in name and not name.startswith(("CHANGELOG.md", "tests/house/")):
            yield name, path.read_text(encoding="utf-8")


def references(root: Path, pages: Pages) -> Iterator[str]:
    """What the code offers and the reference lacks, and what it has and nobody offers."""
    kinds: dict[str, tuple[str, Callable[[Path], list[str]]]] = {
        "docs/reference/commands.md": ("command", source.commands),
        "docs/reference/events.md": ("event type", source.events),
    }
    for name, (kind, offered) in kinds.items():
        entries = pages[name].entries if name in pages else {}
        for one in offered(root):
            if one not in entries:
                yield f"{name}: the {kind} {one} has no line, a row that begins with `{one}`."
    for one in sorted(pages["docs/reference/events.md"].entries.keys() - set(source.events(root))):
        if re.fullmatch(r"(?:run|step|tool|approval|pause|checkpoint)_\w+", one):
            yield f"docs/reference/events.md: there is no event type {one}."
    gone = [
        entry
        for entry in pages["docs/reference/commands.md"].entries
        if entry.startswith(("make ", "manage.py "))
    ]
    for one in sorted(set(gone) - set(source.commands(root))):
        yield f"docs/reference/commands.md: there is no command {one}."


def face(root: Path, pages: Pages) -> Iterator[str]:
    """The page of the SDK is made of the docstrings of what `runs.workflows` exports."""
    text = pages[sdk.PAGE].text
    for name in sdk.missing(root, text):
        yield f"{sdk.PAGE}: {name} of runs.workflows has no place. Add it to a `<!-- names: … -->`."
    if sdk.page(root, text) != text:
        yield (
            f"{sdk.PAGE}: not what the docstrings say. Run `.venv/bin/python -m tests.house.sdk`"
            " and commit the page."
        )


def settings(root: Path, pages: Pages) -> Iterator[str]:
    """Settings without a line, lines without a setting, and defaults that the code has not."""
    name = "docs/reference/settings.md"
    page = pages[name]
    told: dict[str, list[str]] = {}
    for row in page.rows:
        if entry := re.fullmatch(r"`([A-Z][A-Z0-9_]+)`", row[0]):
            told.setdefault(entry[1], row)
    known = source.settings(root)
    for one in known:
        if one.name not in told:
            yield f"{name}: the setting {one.name} has no line, a row that begins with its name."
        elif one.default:
            said = re.sub(r"[\s`_]", "", told[one.name][1])
            wanted = [re.sub(r"[\s_]", "", part) for part in one.default.split(",")]
            if missing := [
                part for part in wanted if not re.search(rf"(?<!\d){re.escape(part)}(?!\d)", said)
            ]:
                yield (
                    f"{name}: the default of {one.name} is {one.default} in the code; the page"
                    f" leaves out {', '.join(missing)}."
                )
    by_workflows = {"WAYSTATION_LEDGER_URL", "WAYSTATION_LEDGER_TOKEN"}
    for one_name in sorted(told.keys() - {one.name for one in known} - by_workflows):
        yield f"{name}: there is no setting {one_name}."


def routes(root: Path, pages: Pages) -> Iterator[str]:
    """The page of routes is made of the OpenAPI document, where `make check` has just made one."""
    document = root / "tests/.artifacts/openapi.yaml"
    if document.exists() and rest.page(document) != pages["docs/reference/rest.md"].text:
        yield (
            "docs/reference/rest.md: not what the code serves. Run"
            " `.venv/bin/python -m tests.house.rest` and commit the page."
        )
