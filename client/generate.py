"""`python client/generate.py DOCUMENT [--check]`: write what of the client is made.

`rest/models.py` and `rest/operations.py` come from the OpenAPI document: a TypedDict for each
schema, and a function for each operation that gives a typed request. `sync.py` is `aio.py` without
its `await`. With `--check` nothing is written, and what is not as it would be made fails.
"""

from __future__ import annotations

import keyword
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

PACKAGE = Path(__file__).parent / "waystation_client"
METHODS = ("get", "post", "put", "patch", "delete")
AGAIN = ".venv/bin/python client/generate.py tests/.artifacts/openapi.yaml"
TWINS = "agent-work-orders"
"""Addresses that stand elsewhere a second time."""
MADE = '"""{}, made by client/generate.py: do not edit."""\n\n'
FUTURE = "from __future__ import annotations\n\n"
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
Schema = dict[str, Any]


def type_of(schema: Schema, at: str = "") -> str:
    """The Python type of a schema; `at` stands before names of models."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return "None" if name == "NullEnum" else f"{at}{name}"
    if kinds := schema.get("oneOf") or schema.get("anyOf") or schema.get("allOf"):
        return " | ".join(dict.fromkeys(type_of(kind, at) for kind in kinds))
    if "enum" in schema:
        return f"Literal[{', '.join(repr(value) for value in schema['enum'])}]"
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not kinds or len(set(kinds) - {"null"}) > 2:
        return "Any"
    return " | ".join(_type_of_kind(kind, schema, at) for kind in kinds)


def _type_of_kind(kind: str, schema: Schema, at: str) -> str:
    if kind == "array":
        return f"list[{type_of(schema.get('items', {}), at)}]"
    if kind == "object":
        more = schema.get("additionalProperties", {})
        return f"dict[str, {type_of(more, at) if isinstance(more, dict) else 'Any'}]"
    return PLAIN[kind]


def models(schemas: dict[str, Schema]) -> str:
    """A TypedDict for each object, and an alias for each list of words."""
    text = MADE.format("The bodies of requests and answers") + FUTURE
    text += "from typing import Any, Literal, NotRequired, TypedDict\n\n"
    aliases = ""  # last: what they name has to be there
    for name, schema in schemas.items():
        if name.endswith("Form"):  # the client sends files in JSON
            continue
        if schema.get("type") != "object" or "properties" not in schema:
            aliases += f"{name} = {type_of(schema)}\n\n" if name != "NullEnum" else ""
            continue
        needed = schema.get("required", [])
        fields = {
            field: type_of(value) if field in needed else f"NotRequired[{type_of(value)}]"
            for field, value in schema["properties"].items()
        }
        if any(keyword.iskeyword(field) for field in fields):
            told = ", ".join(f"{field!r}: {kind!r}" for field, kind in fields.items())
            text += f"{name} = TypedDict({name!r}, {{{told}}})\n\n"
            continue
        words = " ".join(schema.get("description", "").split("\n\n")[0].split())
        about = f'    """{words}"""\n\n' if 0 < len(words) < 90 else ""
        lines = "".join(f"    {field}: {kind}\n" for field, kind in fields.items())
        text += f"class {name}(TypedDict):\n{about}{lines or '    pass'}\n\n"
    return text + aliases


def operations(paths: dict[str, dict[str, Any]]) -> str:
    """A function for each operation; the streams are read otherwise."""
    text = MADE.format("A function for each operation of the REST API") + FUTURE
    text += "from typing import Any, Literal\n\n"
    text += "from waystation_client.requests import Request, address\n"
    text += "from waystation_client.rest import models\n\n"
    for path, methods in paths.items():
        for method in METHODS:
            operation = methods.get(method)
            if operation and TWINS not in operation["tags"] and not path.endswith("/stream"):
                text += _function(method, path, operation)
    return text


def _function(method: str, path: str, operation: dict[str, Any]) -> str:
    named = re.findall(r"{(\w+)}", path)
    query = [one for one in operation.get("parameters", []) if one["in"] == "query"]
    given = {one["name"]: type_of(one["schema"], "models.") for one in query}
    body = _json(operation.get("requestBody", {}))
    arguments = [f"{name}: str" for name in named]
    if body is not None:
        arguments.append(f"body: {type_of(body, 'models.')}")
    if given:
        arguments.append("*")
        arguments += [f"{safe(name)}: {kind} | None = None" for name, kind in given.items()]
    where = f"address({', '.join([repr(path), *named])})" if named else repr(path)
    told = [repr(method.upper()), where]
    if given:
        told.append(f"query={{{', '.join(f'{name!r}: {safe(name)}' for name in given)}}}")
    if body is not None:
        told.append("body=body")
    head = f"def {operation['operationId']}({', '.join(arguments)})"
    return (
        f"{head} -> Request[{_answer(operation)}]:\n"
        f'    """{operation["summary"]}."""\n    return Request({", ".join(told)})\n\n'
    )


def _answer(operation: dict[str, Any]) -> str:
    answers = [one for code, one in operation["responses"].items() if code.startswith("2")]
    bodies = [_json(one) for one in answers]
    kinds = ["None" if body is None else type_of(body, "models.") for body in bodies]
    return " | ".join(sorted(set(kinds)))


def _json(content: dict[str, Any]) -> Schema | None:
    found: Schema | None = content.get("content", {}).get("application/json", {}).get("schema")
    return found


def safe(name: str) -> str:
    """A name that an argument may have."""
    return f"{name}_" if keyword.iskeyword(name) else name


SYNC = {
    r"\basync (?=def|with|for)": "",
    r"\bawait ": "",
    r"\bAsyncGenerator\[([\w.]+), None\]": r"Generator[\1, None, None]",
    r"\bAwaitable\[(\w+)\]": r"\1",
    r"\bAsync(?=Generator|Client|Waystation)": "",
    r"\bCoroutine\[Any, Any, (\w+)\]": r"\1",
    r"\baclosing\b": "closing",
    r"\baiter_bytes\b": "iter_bytes",
    r"\b__a(?=enter__|exit__)": "__",
    r"\ba(?=read\(|close\()": "",
    r"\basyncio\.sleep\b": "time.sleep",
    r"\nimport asyncio\b": "",
}
"""What of the asynchronous client is written otherwise in the synchronous one."""


def made(document: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    yield PACKAGE / "rest/models.py", models(document["components"]["schemas"])
    yield PACKAGE / "rest/operations.py", operations(document["paths"])
    text = (PACKAGE / "aio.py").read_text(encoding="utf-8").partition('"""\n\n')[2]
    for pattern, plain in SYNC.items():
        text = re.sub(pattern, plain, text)
    head = '"""The synchronous client, made by client/generate.py of `aio.py`: do not edit."""\n\n'
    yield PACKAGE / "sync.py", head + text


def tidy(path: Path, text: str) -> str:
    """As ruff formats it, its imports and docstrings among it."""
    ruff = [str(Path(sys.executable).with_name("ruff"))]
    name = f"--stdin-filename={path}"
    for words in (
        ["check", "--fix-only", "--quiet", "--select=I,F401", name, "-"],
        ["format", name, "-"],
    ):
        text = subprocess.run(
            [*ruff, *words], input=text, capture_output=True, text=True, check=True
        ).stdout
    return text


def main(document: str, *options: str) -> int:
    described = yaml.load(Path(document).read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    for path, raw in made(described):
        text = tidy(path, raw)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if "--check" in options:
            sys.stderr.write(f"{path} is not what it is made of. Run {AGAIN}\n")
            return 1
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
