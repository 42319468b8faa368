"""`python -m tests.house.rest`: write docs/reference/rest.md from the OpenAPI document.

`make check` makes that document from the code before it compares the page with it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
METHODS = ("get", "post", "put", "patch", "delete")
USUAL = {"400", "401", "403", "404", "413", "415", "422", "429", "503", "507"}
"""Answers that every route may give, said once."""
TWINS = "agent-work-orders"
INTRODUCTION = """# REST: routes by noun

This page is made from the code (`.venv/bin/python -m tests.house.rest`), and `make check` compares
the two. Bodies, answers and examples are in the OpenAPI document: `/api/schema/`, and to read at
`/api/reference/`.

- **Who asks**: a session's cookie, or `Authorization: Bearer <token>`. The column *scopes* says
  which narrow [tokens](tokens.md) a route takes; a token of the scope `write` may do all that its
  person may.
- **Ids** are shown ids: `wo_…`, `run_…`, `thr_…`, `ckpt_…`, `pse_…`. What you may not see is 404.
- **Lists** are `{"next", "previous", "results"}`; long ones are pages: `?limit=`, `?cursor=`. What
  they can be asked stands in [lists](../how-to/find.md). A parameter that a route does not know is
  422 `unknown_parameter`, and `known` names those that it does; a value that cannot be is 400
  `invalid`.
- **Bodies** are JSON objects. A field that a route does not know is 400 `invalid`, at any depth:
  `errors` names it, and the fields that there are.
- **Errors** are problem documents (RFC 9457) with a stable `code`. Any route may answer 400, 401,
  403, 404, 413, 415, 422, 429, 503 `database_unavailable` and 507 `storage_full`; *answers* names
  the others. [Limits](limits.md) says what is too large and too often.
- **`Idempotency-Key`** on whatever makes or changes something: the same key gets the same answer
  and is done once.
- The same routes of work orders also stand under `/api/agent-work-orders/…`, as the requirements
  print them.
"""


def page(document: Path) -> str:
    """The whole page."""
    described: dict[str, Any] = yaml.load(
        document.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader
    )
    nouns: dict[str, list[str]] = defaultdict(list)
    for path, operations in described["paths"].items():
        for method in METHODS:
            if (operation := operations.get(method)) is None:
                continue
            noun = (operation.get("tags") or ["other"])[0]
            if noun != TWINS:
                nouns[noun].append(_row(method, path, operation))
    parts = [INTRODUCTION]
    for noun in sorted(nouns):
        parts.append(
            f"## {noun}\n\n| route | does | scopes | answers |\n|---|---|---|---|\n"
            + "\n".join(nouns[noun])
            + "\n"
        )
    return "\n".join(parts)


def _row(method: str, path: str, operation: dict[str, Any]) -> str:
    told = re.search(r"Scopes of tokens: (.+?)\.", operation.get("description", ""))
    scopes = told[1].replace("`", "") if told else ""
    answers = ", ".join(code for code in sorted(operation["responses"]) if code not in USUAL)
    summary = operation.get("summary") or operation.get("description", "").partition("\n")[0]
    does = summary.replace("|", r"\|")
    return f"| `{method.upper()} {path}` | {does} | {scopes} | {answers} |"


if __name__ == "__main__":
    (ROOT / "docs/reference/rest.md").write_text(
        page(ROOT / "tests/.artifacts/openapi.yaml"), encoding="utf-8"
    )
