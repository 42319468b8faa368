"""The rules of the house for modules: where each stands, how many a folder holds, how long each is.

An exception stands here with its reason, and with the size that it has; it may shrink and not grow.
Whoever mends one takes its line away.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.house import source

READ = "see docs/decisions/house.md"
APPS = ("checkpoints", "runs", "hitl")
FOLDERS = (*APPS, "project", "extensions", "bench", "tests", "client")
SPECIAL = {"__init__", "__main__", "conftest"}

MOST = 16
"""Modules of a folder."""
CROWDED = {
    "bench": (17, "a measurement each, named on the command line of `make bench`"),
    "hitl/management/commands": (18, "a command each, which Django finds by its file"),
    "tests/worlds": (20, "a world each"),
}
"""Folder → how many it holds at most, and why."""

LONGEST = 500
LONGEST_TEST = 750
"""Lines of a module; of one below tests/, which is a list that nobody reads whole."""
LONG = {
    # one document, written, read and checked side by side
    "checkpoints/export/thread_document.py": 700,
    # the saver's contract is one class
    "extensions/langgraph/saver/saver.py": 600,
    # encoding and decoding must be read together
    "checkpoints/state/codec.py": 650,
    # which schemas are taken, and what fits one
    "runs/workflows/schemas.py": 650,
    # made of the OpenAPI document by client/generate.py
    "client/waystation_client/rest/models.py": 2500,
    "client/waystation_client/rest/operations.py": 1500,
}
"""Modules that were within the limit while lines had 140 characters, and how far each may go: take
something out of one before more comes in."""

SHARED = {
    "bench/chaos/faults": {"silent": "names of faults, as `make chaos` takes them"},
    "checkpoints/store": {
        "graph": "beside rows; the saver, which imports LangGraph, is an extension's"
    },
    "checkpoints/text": {"exact": "two formats that Django's SERIALIZATION_MODULES names"},
    "extensions/coding": {
        "cli": "what a command line agent prints, and three presets of it as data",
        "command": "the step, and its configuration",
    },
    "hitl/wait_gate": {"resume": "what an event says, and what becomes of it"},
    "tests/matrix": {"desk": "a table, and the walk along it"},
    "tests/servers": {"slow": "a Django app: its settings, its module and its steps"},
}
"""Folder → a prefix that modules in it share, and why it is no folder."""

DJANGOS = {"apps", "admin", "checks", "models", "tasks", "urls", "views"}
"""What Django and Celery look up by name at an app's top level."""
TOP = {
    "checkpoints": {
        "extension": "the seam to what is switched on beside the core",
        "converters": "ids in addresses, for every app's URLs",
        "ids": "keys, for every model of every app",
        "lineage": "history and branches, for the pages of all apps",
        "registry": "what each app says of its tables: how they are exported, kept and erased",
    },
    "runs": {
        "defaults": "every setting with its default, read before Django is there",
        "env": "how the environment is read, for settings",
        "export": "what of a run goes into a thread's document, registered by the app",
        "hints": "who watches questions is told that one changed, by engine and answers alike",
        "keyed": "what an Idempotency-Key made, told by the writers of all apps",
        "limits": "all limits, at the bottom, for every layer",
        "phases": "phases in words, for pages and API",
        "retention": "what templates and settings keep, registered by the app",
        "rounds": "a round that one beat's order begins",
        "states": "statuses and their moves, at the bottom, for every layer",
        "turn_tasks": "Celery's name of a task that stands above runs.tasks",
        "urgency": "which messages go first",
    },
    "hitl": {},
}
"""App → modules at its top level beside Django's, and why."""


def problems(root: Path) -> list[str]:
    """Everything that stands where it does not belong, one line each, and where to read why."""
    modules = [
        path.relative_to(root)
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*.py"))
        if not {"migrations", ".artifacts", "__pycache__"} & set(path.relative_to(root).parts)
    ]
    rules = (prefixes, crowds, lengths, docstrings, top_levels, tests_import_tests, faces)
    return [f"{found} ({READ})" for rule in rules for found in rule(root, modules)]


def _by_folder(modules: list[Path]) -> Mapping[str, list[str]]:
    folders: dict[str, list[str]] = defaultdict(list)
    for path in modules:
        if path.stem not in SPECIAL:
            folders[path.parent.as_posix()].append(path.stem)
    return folders


def prefixes(root: Path, modules: list[Path]) -> Iterator[str]:
    """Two modules of a folder that share a prefix.

    Test modules are named after what they test, and commands as they are typed.
    """
    for folder, stems in _by_folder(modules).items():
        if folder.endswith("management/commands"):
            continue
        shared: dict[str, list[str]] = defaultdict(list)
        for stem in stems:
            if not stem.startswith("test_"):
                shared[stem.partition("_")[0]].append(stem)
        groups = {prefix: found for prefix, found in shared.items() if len(found) > 1}
        known = SHARED.get(folder, {})
        for prefix, found in groups.items():
            if prefix not in known:
                yield (
                    f"{folder}: {', '.join(found)} share a prefix. A prefix is a missing folder:"
                    f" make {folder}/{prefix}/."
                )


def crowds(root: Path, modules: list[Path]) -> Iterator[str]:
    """A folder with more modules than somebody takes in at a glance.

    Test modules mirror what they test, and are not counted.
    """
    for folder, stems in _by_folder(modules).items():
        number = sum(not stem.startswith("test_") for stem in stems)
        most, _ = CROWDED.get(folder, (MOST, ""))
        if number > most:
            yield (
                f"{folder} holds {number} modules; a folder holds at most {most}. Make folders of"
                " what belongs together."
            )


def lengths(root: Path, modules: list[Path]) -> Iterator[str]:
    """A module that is too long to be read whole."""
    for path in modules:
        name = path.as_posix()
        number = (root / path).read_bytes().count(b"\n")
        most = LONG.get(name, LONGEST_TEST if path.parts[0] == "tests" else LONGEST)
        if number > most:
            yield (
                f"{name} has {number} lines; at most {most} are read whole. Take a part with a name"
                " of its own out of it."
            )


def docstrings(root: Path, modules: list[Path]) -> Iterator[str]:
    """A package that does not say in a sentence what lives there."""
    for path in modules:
        if path.stem == "__init__":
            said = ast.get_docstring(source.tree(root / path)) or ""
            if not re.search(r"[.:](?:\s|$)", said):
                yield f"{path.as_posix()}: no docstring. One sentence says what lives in a folder."


def top_levels(root: Path, modules: list[Path]) -> Iterator[str]:
    """A module at an app's top level that is neither Django's nor one that other apps call."""
    for path in modules:
        if (
            len(path.parts) == 2
            and path.parts[0] in APPS
            and path.stem not in SPECIAL | DJANGOS | TOP[path.parts[0]].keys()
        ):
            yield (
                f"{path.as_posix()}: an app's top level holds what Django looks up by name, and few"
                " modules that others call."
            )


TEST_MODULE = re.compile(r"^\s*(?:from|import) (tests\.[\w.]*\btest_\w+)", re.MULTILINE)
FROM_FOLDER = re.compile(r"^\s*from (tests[\w.]*) import \(?\s*(test_\w+)", re.MULTILINE)


def tests_import_tests(root: Path, modules: list[Path]) -> Iterator[str]:
    """A test module that others import: whoever changes the one breaks the others."""
    found = Counter[str]()
    for path in modules:
        if path.parts[0] in {"tests", "bench"}:
            text = (root / path).read_text(encoding="utf-8")
            found.update(TEST_MODULE.findall(text))
            found.update(f"{folder}.{name}" for folder, name in FROM_FOLDER.findall(text))
    for name, times in sorted(found.items()):
        yield (
            f"{name} is imported {times} times; a test module imports from no other. Move what they"
            " share to a module that is named for what it gives."
        )


WITH_THE_SDK = {"booking", "chat", "coding", "einvoice", "repo_tidy"}


def faces(root: Path, modules: list[Path]) -> Iterator[str]:
    """What we ship is written with the SDK's public names, like anybody else's workflows."""
    public = set(source.public_names(root))
    for path in modules:
        if path.parts[0] != "extensions" or path.parts[1] not in WITH_THE_SDK:
            continue
        for node in ast.walk(source.tree(root / path)):
            if (
                isinstance(node, ast.ImportFrom)
                and node.module
                and node.module.startswith("runs.workflows")
            ):
                inner = node.module.split(".")[2:3]
                names = inner or [alias.name for alias in node.names]
                for name in names:
                    if name not in public:
                        yield (
                            f"{path.as_posix()}:{node.lineno} takes {name} from below the SDK's"
                            " face. Import from runs.workflows; what is missing there is added to"
                            " its __all__ and to docs/reference/sdk.md."
                        )
