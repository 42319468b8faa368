"""`make conformance`: LangGraph's own kit against DjangoSaver, on PostgreSQL and SQLite, a line per
capability.

The kit says FULL when all capabilities that it detects pass; here each has to be detected and
passed. The release on the package index knows eight. The ninth, delta_channel_history, is in the
kit's repository only: `delta_channel_history.py` tests it, and its line says so.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[4]
CAPABILITIES = (
    "put",
    "put_writes",
    "get_tuple",
    "list",
    "delete_thread",
    "delete_for_runs",
    "copy_thread",
    "prune",
    "delta_channel_history",
)
OURS = "delta_channel_history"


def main() -> int:
    from tests.run import install_missing
    from tests.servers.private import postgresql

    install_missing()
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(
                    prefix="waystation-conformance-", ignore_cleanup_errors=True
                )
            )
        )
        folder.chmod(0o755)
        urls = [
            stack.enter_context(postgresql(folder / "pg")),
            f"sqlite:///{folder / 'data.sqlite3'}",
        ]
        codes = [
            subprocess.run(
                [sys.executable, "-m", "tests.extensions.langgraph.saver.conformance", "one"],
                env={
                    **os.environ,
                    "DATABASE_URL": url,
                    "WAYSTATION_DATA": str(folder),
                    "REDIS_URL": "",
                },
                cwd=ROOT,
                check=False,
            ).returncode
            for url in urls
        ]
    return max(codes)


def one() -> int:
    """On the database of DATABASE_URL, which is empty."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.db import connection

    call_command("migrate", verbosity=0)
    print(f"== DjangoSaver on {connection.vendor}", flush=True)
    results = run(User.objects.create_user("conformance"))
    return 0 if report(results) else 1


def run(owner: Any) -> dict[str, Any]:
    """Capability → the kit's result."""
    from langgraph.checkpoint.conformance.initializer import checkpointer_test
    from langgraph.checkpoint.conformance.validate import validate

    from extensions.langgraph.saver import DjangoSaver
    from tests.extensions.langgraph.saver.delta_channel_history import (
        run_delta_channel_history_tests,
    )

    async def make() -> AsyncGenerator[Any]:
        async with DjangoSaver(owner=owner) as saver:
            yield saver

    async def ninth() -> Any:
        async with DjangoSaver(owner=owner) as saver:
            return await run_delta_channel_history_tests(saver)

    results: dict[str, Any] = dict(
        asyncio.run(validate(checkpointer_test(name="DjangoSaver")(make))).results
    )
    if OURS not in results:
        results[OURS] = asyncio.run(ninth())
    return results


def passed(result: Any) -> bool:
    return bool(
        result
        and result.detected
        and result.passed is True
        and result.tests_passed
        and not result.tests_failed
    )


def report(results: dict[str, Any]) -> bool:
    kit = f"langgraph-checkpoint-conformance {version('langgraph-checkpoint-conformance')}"
    for name in CAPABILITIES:
        result = results.get(name)
        source = getattr(result, "source", kit)
        verdict = (
            "passed"
            if passed(result)
            else "FAILED"
            if result and result.detected
            else "not detected"
        )
        count = (
            f"{result.tests_passed} of {result.tests_passed + result.tests_failed} tests"
            if result
            else "no tests"
        )
        print(f"{name:<22} {verdict:<13} {count:<15} {source}")
        for failure in result.failures if result else []:
            print(f"    {failure}")
    good = [name for name in CAPABILITIES if passed(results.get(name))]
    own = [name for name in good if hasattr(results[name], "source")]
    print(
        (
            f"{len(good)}/{len(CAPABILITIES)} ({len(good) - len(own)} by the kit, {len(own)} by "
            "our own tests)"
        ),
        flush=True,
    )
    return len(good) == len(CAPABILITIES)


if __name__ == "__main__":
    sys.exit(one() if sys.argv[1:] == ["one"] else main())
