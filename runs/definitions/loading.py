"""The modules that `WAYSTATION_WORKFLOWS` and the extensions name: found, imported, and what they
declare.

An entry is a module's name, or a folder whose modules and packages are all taken. Nothing here asks
the database.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import threading
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from inspect import unwrap
from pathlib import Path
from types import ModuleType
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from checkpoints import extension
from checkpoints.state import codec, redaction
from checkpoints.text import invisible
from runs.definitions.templates import EDITED
from runs.workflows import StepUse, UnknownStep, Workflow, WorkflowInvalid, find, refusals, schemas
from runs.workflows.base import typed

PATIENCE = 10.0
"""Seconds after which a start says which module it still imports."""
KIND_KEYS = ("title", "function", "config", "sub_steps")
LONGEST = 500
"""Characters of an author's error that are told."""
SETTING = "WAYSTATION_WORKFLOWS"
NOT_THEIRS = [
    Path(__file__).parents[1] / "workflows",
    *(Path(sysconfig.get_path(kind)) for kind in ("stdlib", "purelib", "platlib")),
]
"""An error is told where the author wrote, and not where the SDK or a library raises it."""


@dataclass(frozen=True)
class Declared:
    """A template, or a step template, as a module declares it."""

    slug: str
    fields: Mapping[str, Any]
    place: str
    workflow: Workflow | None = None
    """None where a dictionary of the module says it."""

    @property
    def file(self) -> Path:
        """The file that declares it."""
        return Path(self.place.partition(", line ")[0]).resolve()

    @property
    def digest(self) -> str:
        """Of all that is declared: another one means another version."""
        return codec.digest(json.dumps(self.fields, sort_keys=True, default=repr))

    def place_of(self, field: str) -> str:
        """Where the part of the declaration stands that a refusal names."""
        return self.workflow.place_of(field) if self.workflow is not None else self.place


def entries() -> list[str]:
    """The modules and folders that the setting names, and before them those of the extensions where
    its first entry begins with `+`.
    """
    named = list(settings.WAYSTATION_WORKFLOWS)
    if not named or not named[0].startswith("+"):
        return named
    shipped = [module for one in extension.installed() for module in one.workflows]
    return [*shipped, *filter(None, [named[0][1:].strip()]), *named[1:]]


def is_folder(entry: str) -> bool:
    """Whether an entry of the setting is a folder, and no module's name."""
    return entry.startswith(("~", ".")) or os.sep in entry


def folders() -> list[Path]:
    """The folders that the setting names."""
    return [Path(entry).expanduser().resolve() for entry in entries() if is_folder(entry)]


def modules() -> list[ModuleType]:
    """The modules that the setting and the extensions name, imported.

    Raises ImproperlyConfigured, naming the one that cannot be, the file, the line, and why.
    """
    return [
        _imported(name, within)
        for entry in entries()
        for name, within in (_inside(entry) if is_folder(entry) else [(entry, None)])
    ]


def _inside(entry: str) -> Iterator[tuple[str, Path]]:
    """The modules and packages of a folder; files of tests are none."""
    folder = Path(entry).expanduser().resolve()
    if not folder.is_dir():
        raise ImproperlyConfigured(
            f"{SETTING}: there is no folder {folder}. Make it, or name another one; "
            "`manage.py startworkflow NAME --folder …` makes one with a first workflow."
        )
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # last: a file called as one of ours replaces nothing
    for path in sorted(folder.iterdir()):
        name = path.stem
        module = path.suffix == ".py" or (path / "__init__.py").is_file()
        if module and name.isidentifier() and not name.startswith(("_", "test_", "conftest")):
            yield name, folder


def _imported(name: str, within: Path | None) -> ModuleType:
    try:
        with _say_when_slow(name):
            module = import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an author's module may raise anything, and call sys.exit()
        raise ImproperlyConfigured(
            f"{SETTING}: {name!r} cannot be imported: {_why(error)} "
            "Mend it, then start again; nothing was changed."
        ) from error
    file = Path(module.__file__ or "").resolve()
    if within is not None and not file.is_relative_to(within):
        raise ImproperlyConfigured(
            f"{SETTING}: {within} has a module {name!r}, but Python has another one of that name "
            f"({file}). Give the file another name."
        )
    return module


@contextmanager
def _say_when_slow(name: str) -> Iterator[None]:
    """Say where a start hangs: an endless loop at a module's top level raises no error."""
    here = threading.get_ident()

    def tell() -> None:
        places = traceback.extract_stack(sys._current_frames().get(here))
        sys.stderr.write(
            f"{_place(places)}Still importing {name} after {PATIENCE:g} s. A module should "
            "only declare; its steps do the work.\n"
        )
        sys.stderr.flush()

    timer = threading.Timer(PATIENCE, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _why(error: BaseException) -> str:
    """What is wrong with a module, with the file and the line, as one sentence."""
    if isinstance(error, WorkflowInvalid):
        return _tellable(str(error))
    if isinstance(error, SyntaxError) and error.filename:
        return _tellable(f"{error.filename}, line {error.lineno}: SyntaxError: {error.msg}.")
    try:
        reason = f"{type(error).__name__}: {error}".rstrip(". ")
    except Exception:  # noqa: BLE001  # its own __str__ may, too
        reason = type(error).__name__
    return _tellable(f"{_place(traceback.extract_tb(error.__traceback__))}{reason}.")


def _place(frames: Iterable[traceback.FrameSummary]) -> str:
    """The innermost line that the author wrote, as `file, line n: `; "" where there is none."""
    every = list(frames)
    begin = max((at for at, frame in enumerate(every) if frame.filename == __file__), default=-1)
    for frame in reversed(every[begin + 1 :]):
        path = Path(frame.filename)
        if path.is_absolute() and not any(path.is_relative_to(folder) for folder in NOT_THEIRS):
            return f"{frame.filename}, line {frame.lineno}: "
    return ""


def _tellable(text: str) -> str:
    """Without what the environment holds under the name of a secret: an author's message may quote
    it, and goes to the server's log.
    """
    for name, value in os.environ.items():
        if len(value) >= 6 and redaction.is_secret(name):
            text = text.replace(value, redaction.MARKER)
    text = " ".join(invisible.plain(text).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


def declared(found: Iterable[ModuleType]) -> tuple[list[Declared], list[Declared]]:
    """The step templates, and the templates, that these modules declare.

    Raises ImproperlyConfigured where two declare one of the same slug.
    """
    kinds: dict[str, Declared] = {}
    templates: dict[str, Declared] = {}
    for module in found:
        place = str(module.__file__)
        for slug, fields in getattr(module, "STEP_TEMPLATES", {}).items():
            _check_form(place, slug, fields, KIND_KEYS)
            _add(kinds, Declared(slug, fields, place))
        for slug, fields in getattr(module, "TEMPLATES", {}).items():
            _check_form(place, slug, fields, EDITED)
            _add(templates, Declared(slug, fields, place))
        for workflow in _workflows(module):
            _add(templates, Declared(workflow.slug, workflow.template, workflow.place, workflow))
            for slug, fields in workflow.step_templates.items():
                _add(kinds, Declared(slug, fields, workflow.place, workflow))
    return list(kinds.values()), list(templates.values())


def _check_form(place: str, slug: str, fields: Any, known: Collection[str]) -> None:
    """Refuse what is no document: nothing else is wrong with a dictionary before it is saved."""
    given = fields if isinstance(fields, Mapping) else {}
    wrong = [refusals.unknown("key", str(name), known) for name in given if name not in known]
    if not {"title"} <= given.keys():
        wrong = ["It is an object with a title.", *wrong]
    if wrong:
        raise ImproperlyConfigured(f"{SETTING}: {place}, {slug!r}: {' '.join(wrong)}")


def _add(known: dict[str, Declared], new: Declared) -> None:
    other = known.setdefault(new.slug, new)
    if (other.place, other.workflow) != (new.place, new.workflow):
        raise ImproperlyConfigured(
            f"{SETTING}: {new.place} and {other.place} both declare {new.slug!r}. Give one of them "
            "another slug."
        )


def _workflows(module: ModuleType) -> list[Workflow]:
    """The workflows that a module, or a module below it, has under a name or declares at its top
    level without one.
    """
    inside = _inside_of(module)
    values = [value for loaded in inside for value in vars(loaded).copy().values()]
    named = [value for value in values if isinstance(value, Workflow)]
    slugs = {workflow.slug for workflow in named}
    unnamed = [
        workflow
        for file in _files(inside)
        for workflow in Workflow.of_file(file)
        if workflow.slug not in slugs
    ]
    return list({id(workflow): workflow for workflow in [*named, *unnamed]}.values())


def _inside_of(module: ModuleType) -> list[ModuleType]:
    """A module and those below it. Of a copy: threads of a server that starts import modules
    meanwhile.
    """
    below = f"{module.__name__}."
    return [
        loaded
        for name, loaded in sys.modules.copy().items()
        if loaded is not None and (name == module.__name__ or name.startswith(below))
    ]


def _files(inside: Iterable[ModuleType]) -> set[str]:
    return {str(loaded.__file__) for loaded in inside if getattr(loaded, "__file__", "")}


def left_out() -> list[str]:
    """Say what the named modules hold that is no template: workflows that a function made and no
    name is bound to, and modules without any. A folder may have modules of helpers.
    """
    said: list[str] = []
    named = {entry for entry in entries() if not is_folder(entry)}
    for module in modules():
        found = _workflows(module)
        slugs = {workflow.slug for workflow in found}
        made = [one for file in _files(_inside_of(module)) for one in Workflow.by_functions(file)]
        said += [
            f"{one.place}: the workflow {one.slug!r} was made by a function, and no name of the "
            "module is bound to it."
            for one in made
            if one.slug not in slugs
        ]
        declares = (
            found or getattr(module, "TEMPLATES", {}) or getattr(module, "STEP_TEMPLATES", {})
        )
        if module.__name__ in named and not made and not declares:
            said.append(f"{module.__file__} declares no workflow.")
    return said


def input_type(slug: str, schema: Mapping[str, Any]) -> type[Any] | None:
    """The type that a declared workflow's input was declared as; None where that template has
    another schema by now, or the declaration is none of a type.
    """
    workflow = _workflow_of(slug)
    if workflow is None or workflow.input is None:
        return None
    return workflow.input if _is_same(workflow.template["input_schema"], schema) else None


def asked_type(slug: str, step: str, function: str, schema: Mapping[str, Any]) -> type[Any] | None:
    """The type that a step asks for: of its `use(…)`, or the one of the step's module whose schema
    it is; None where none is, or several are.
    """
    workflow = _workflow_of(slug)
    for use in _with_inner(workflow.steps) if workflow is not None else ():
        if use.name == step and use.asked is not None:
            return use.asked if _is_same(use.options["required_inputs"], schema) else None
    types = {id(shape): shape for shape in _types_beside(function)}
    found = [shape for shape in types.values() if _is_same(typed.schema_of(shape), schema)]
    return found[0] if len(found) == 1 else None


def _types_beside(function: str) -> Iterator[type[Any]]:
    """The types with validators of their own that the module of a step function names."""
    try:
        names = vars(sys.modules[unwrap(find(function)).__module__])
    except (UnknownStep, KeyError):
        return
    for value in names.copy().values():
        if isinstance(value, type) and typed.has_validators(value):
            yield value


def _workflow_of(slug: str) -> Workflow | None:
    """A declared workflow, as it was when one was last declared: every order asks."""
    global _found, _found_at
    at = (tuple(entries()), Workflow.made())
    if at != _found_at:
        _found = {one.slug: one.workflow for one in declared(modules())[1]}
        _found_at = (at[0], Workflow.made())  # the modules may have declared more meanwhile
    return _found.get(slug)


_found: dict[str, Workflow | None] = {}
_found_at: tuple[tuple[str, ...], int] | None = None


def _with_inner(uses: Iterable[StepUse]) -> Iterator[StepUse]:
    for use in uses:
        yield use
        yield from _with_inner(use.sub_steps)


def _is_same(declared: Mapping[str, Any], kept: Mapping[str, Any]) -> bool:
    try:
        return schemas.check(dict(declared)) == schemas.check(dict(kept))
    except schemas.SchemaRefused:
        return False
