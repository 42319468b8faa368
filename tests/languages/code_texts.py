"""Texts of Python and JavaScript that a person reads on a page and that are not marked."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

MARKS = {"gettext", "gettext_lazy", "ngettext", "ngettext_lazy", "pgettext", "pgettext_lazy", "_"}
FOLDERS = ("checkpoints", "runs", "hitl", "project", "extensions")
WORD = re.compile(r"[^\W\d_]{2,}")
SENTENCE = re.compile(r"[^\W\d_]{2,}[^<>{}/=]* |^[A-Z][a-z]+[.…]?$")

SHOWN_BY = ("message_user", "messages.")
"""Calls that put their arguments above the next page: `messages.error(request, …)`."""
WORDS_OF = {
    "display": {"description", "empty_value"},
    "action": {"description"},
    "confirm": {"button", "title", "words"},
}
"""Calls by how their name ends → their arguments that a page shows."""
OF_FORMS = {"label", "help_text"}
"""Arguments of `forms.CharField` and its like."""
OF_CLASSES = {"search_help_text", "short_description", "empty_value_display"}
SHOWN = {
    "AccountRefused",
    "BatchInvalid",
    "BulkInvalid",
    "CannotAskAgain",
    "CannotErase",
    "CannotStart",
    "CommentRefused",
    "CredentialInvalid",
    "DelegationRefused",
    "Http404",
    "LimitInvalid",
    "ScheduleInvalid",
    "StartInvalid",
    "ViewInvalid",
    "MayNotLimit",
    "MayNotSchedule",
    "MayNotStart",
    "NotPermitted",
    "NotWaiting",
    "NothingToFork",
    "OrdersStopped",
    "PauseClosed",
    "QueueFull",
    "RepositoryNotFound",
    "RunEnded",
    "TemplateNotFound",
    "ThreadBusy",
    "TooLate",
    "TurnRefused",
    "ValidationError",
}
"""Refusals whose text a page or a form shows, and nothing stores."""
ELSEWHERE = {
    "hitl/api/": "answers to programs are English",
    "runs/api/": "answers to programs are English",
    "hitl/live/": "answers to programs are English",
    "extensions/": "answers to programs are English",
    "hitl/http/rest.py": "answers to programs are English",
    "hitl/http/queries.py": "answers to programs are English",
    "/management/": "commands are English",
    "/migrations/": "evidence of what was",
}
"""Where no text is for a page, with the reason."""
EXCEPTIONS: dict[str, set[str]] = {
    "hitl/outbound/recipients.py": {"too long"},  # caught where it is raised
}
"""File → texts in it that stay as they are, each with the reason beside it."""


def unmarked(name: str, source: str) -> Iterator[str]:
    """Yield the texts of a module that a page shows and that are not marked, or marked where that
    is not seen, with their lines.
    """
    for node in ast.walk(ast.parse(source)):
        yield from (f"{name}:{line}: {text} stands in an f-string" for line, text in _hidden(node))
        for part in _shown(node):
            for line, text in _texts(part):
                if SENTENCE.search(text) and text not in EXCEPTIONS.get(name, ()):
                    yield f"{name}:{line}: {text!r} is not marked"


def _hidden(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield marks within an f-string: before Python 3.12 no tool finds their text there."""
    if isinstance(node, ast.JoinedStr):
        for part in ast.walk(node):
            if isinstance(part, ast.Call) and _name(part) in MARKS:
                yield part.lineno, ast.unparse(part)


def _shown(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        if _name(node.exc).rsplit(".")[-1] in SHOWN:
            yield from node.exc.args
    elif isinstance(node, ast.Call):
        name = _name(node)
        if name.startswith(SHOWN_BY[1]) or name.endswith(SHOWN_BY[0]):
            yield from node.args
        elif name.endswith("add_error"):
            yield from node.args[1:]
        shown = {key for end, keys in WORDS_OF.items() if name.endswith(end) for key in keys}
        if name.startswith("forms."):
            shown |= OF_FORMS
        yield from (word.value for word in node.keywords if word.arg in shown)
    elif isinstance(node, ast.Assign):
        names = {ast.unparse(target).rsplit(".")[-1] for target in node.targets}
        if names & (OF_CLASSES | {"help_text"}):
            yield node.value


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func)


def _texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield what is written in an expression, and not within a mark or another call's arguments."""
    if isinstance(node, ast.Call):
        if _name(node).rsplit(".")[-1] == "join":
            yield from _texts(node.func)
    elif isinstance(node, ast.JoinedStr):
        parts = [str(part.value) for part in node.values if isinstance(part, ast.Constant)]
        yield node.lineno, "…".join(parts)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.lineno, node.value
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
    elif not isinstance(node, (ast.Subscript, ast.Dict, ast.Compare)):
        for part in ast.iter_child_nodes(node):
            yield from _texts(part)


STRING = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`)"""
PUT = re.compile(
    r"""(?:\.(?:textContent|innerText|title|ariaLabel|placeholder)\s*=(?!=)"""
    r"""|setAttribute\("(?:aria-label|title|placeholder)",|\b(?:announce|alert|tell)\("""
    r"""|["']?\b(?:aria-label|placeholder|textContent)["']?\s*:)(?P<put>[^;\n]*)"""
)
MARKED = re.compile(rf"n?gettext\(\s*{STRING}(?:\s*,\s*{STRING})?")
VALUE = re.compile(r"\$\{[^}]*\}")
SCRIPT_EXCEPTIONS: dict[str, set[str]] = {
    "static/js/admin.js": {"Navigation", "Rows …"},  # the admin loads no words of scripts
}
"""Script → texts in it that stay as they are, each with the reason beside it."""
SCRIPT_SENTENCE = re.compile(r"^[^\W\d_]*[A-Z][a-z]+|[a-z]{2,} [a-z]{2,}")


def unmarked_script(name: str, source: str) -> Iterator[str]:
    """Yield the texts that a script puts into a page and that are not marked."""
    for number, line in enumerate(source.splitlines(), 1):
        for put in PUT.finditer(line):
            for text in re.findall(STRING, MARKED.sub("", put["put"])):
                said = VALUE.sub("…", text[1:-1])
                known = SCRIPT_EXCEPTIONS.get(name, set())
                if SCRIPT_SENTENCE.search(said) and said not in known:
                    yield f"{name}:{number}: {said!r} is not marked"


def everywhere(root: Path) -> list[str]:
    found: list[str] = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            name = str(path.relative_to(root))
            if not any(part in name for part in ELSEWHERE):
                found += unmarked(name, path.read_text())
    for path in sorted((root / "static/js").rglob("*.js")):
        name = str(path.relative_to(root))
        found += unmarked_script(name, path.read_text())
    return found
