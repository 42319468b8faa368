"""Marked texts of Python, templates and JavaScript, and the catalogues they belong into.

Templates are read by Django's own parser, so a text is found exactly as it is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po
from django.apps import apps
from django.template import Node, TemplateSyntaxError, engines
from django.template.base import FilterExpression, Token
from django.templatetags.i18n import BlockTranslateNode, TranslateNode
from django.utils import translation

from checkpoints.models import labels

ROOT = Path(__file__).parents[2]
LOCALE = ROOT / "hitl" / "locale"
PYTHON = ("checkpoints", "runs", "hitl", "project", "extensions")
KEYWORDS = {
    "_": None,
    "gettext": None,
    "gettext_lazy": None,
    "gettext_noop": None,
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "npgettext": ((1, "c"), 2, 3),
}
MAY_MARK = re.compile(rb"gettext|\b_\(")
IN_EXPRESSION = re.compile(r"""_\(("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\)""")
DJANGO_TOKEN = re.compile(r"{%.*?%}|{{.*?}}")


class Text(NamedTuple):
    """A marked text: one, or one and many; and what tells it from the same words elsewhere."""

    id: str | tuple[str, str]
    context: str | None = None


def of_templates(root: Path = ROOT) -> Iterator[tuple[str, Text]]:
    for path in sorted((root / "templates").rglob("*")):
        if path.suffix in {".html", ".txt", ".webmanifest"}:
            name = str(path.relative_to(root))
            try:
                yield from ((name, text) for text in texts_of(path.read_text()))
            except TemplateSyntaxError as error:
                error.add_note(f"in {name}")
                raise


def texts_of(source: str) -> Iterator[Text]:
    """Yield the marked texts of a template."""
    parsed = engines["django"].engine.from_string(source)  # type: ignore[attr-defined]
    for node in _every(parsed.nodelist):
        if isinstance(node, TranslateNode):
            yield Text(_literal(node.filter_expression), _context(node))
        elif isinstance(node, BlockTranslateNode):
            one, many = (_block(node, tokens) for tokens in (node.singular, node.plural))
            yield Text((one, many) if node.plural else one, _context(node))
    for token in DJANGO_TOKEN.finditer(source):
        for word in IN_EXPRESSION.finditer(token[0]):
            yield Text(word[1][1:-1].replace("\\" + word[1][0], word[1][0]))


def _every(nodes: Iterator[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        for name in node.child_nodelists:
            yield from _every(getattr(node, name, None) or [])  # type: ignore[arg-type]
        for _, inner in getattr(node, "conditions_nodelists", []):
            if not hasattr(node, "nodelist"):
                yield from _every(inner)


def _literal(expression: FilterExpression) -> str:
    found = expression.var if isinstance(expression.var, str) else expression.var.literal
    return str(found).replace("%%", "%")


def _context(node: TranslateNode | BlockTranslateNode) -> str | None:
    expression = node.message_context
    return _literal(expression) if expression else None


def _block(node: BlockTranslateNode, tokens: list[Token]) -> str:
    return str(node.render_token_list(tokens)[0]) if tokens else ""


def of_code(folders: tuple[str, ...], suffix: str, root: Path = ROOT) -> Iterator[tuple[str, Text]]:
    """Yield the marked texts of Python or JavaScript."""
    method = {".py": "python", ".js": "javascript"}[suffix]
    for folder in folders:
        for path in sorted((root / folder).rglob(f"*{suffix}")):
            name = str(path.relative_to(root))
            source = path.read_bytes()
            if MAY_MARK.search(source):  # a file's tokens take longer than a look
                for _, id, _, context in extract(method, BytesIO(source), keywords=KEYWORDS):
                    yield name, Text(id if isinstance(id, str) else (id[0], id[1]), context)


def of_models() -> Iterator[tuple[str, Text]]:
    """Yield the names, help texts and choices of our models and their fields."""
    for app in labels.OURS:
        for model in apps.get_app_config(app).get_models():
            options, name = model._meta, model.__module__.replace(".", "/") + ".py"
            fields = (*options.local_fields, *options.local_many_to_many)
            words = [options.verbose_name, options.verbose_name_plural]
            words += [text for field in fields for text in (field.verbose_name, field.help_text)]
            words += [
                label
                for field in fields
                for _, label in getattr(field, "choices", None) or ()
                if _is_of_models(label)
            ]
            with translation.override("en"):
                yield from ((name, Text(str(one), labels.CONTEXT)) for one in words if one)


def _is_of_models(label: object) -> bool:
    """Whether a choice is marked by its model, not where its words stand."""
    arguments: Any = getattr(label, "_args", None) or getattr(label, "_proxy____args", ())
    return bool(arguments) and bool(arguments[0] == labels.CONTEXT)


DOMAINS = {
    "django": lambda: [*of_code(PYTHON, ".py"), *of_templates(), *of_models()],
    "djangojs": lambda: [*of_code(("static/js",), ".js")],
}


def catalogue(texts: list[tuple[str, Text]]) -> Catalog:
    made = Catalog(charset="utf-8")
    for name, text in texts:
        made.add(text.id, locations=[(name, 0)], context=text.context)
    return made


def updated(path: Path, sources: Catalog) -> tuple[Catalog, bytes]:
    """Give the catalogue at a path with the texts of the sources, without those that are gone.

    Its head stays as it is written, so that two branches that add texts seldom meet.
    """
    head, _, _ = path.read_text().partition("\n\n")
    with path.open("rb") as file:
        known = read_po(file)
    known.update(sources, no_fuzzy_matching=True)
    out = BytesIO()
    write_po(
        out,
        known,
        omit_header=True,
        sort_output=True,
        include_lineno=False,
        ignore_obsolete=True,
        width=100,
    )
    return known, f"{head}\n\n".encode() + out.getvalue().lstrip()
