"""What an installation with some of the optional packages can do, in the environment that has them:
`installed.py`, which reads lines of JSON: an environment, what is tried to import, and what of that
may be `absent`. It answers each with what is wrong.

It is checked, finds its tables as its migrations leave them, and takes an order to its end.
`installed.py warm` has read the libraries that are there whatever is installed, and nothing of the
product.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main(*, imports: list[str], absent: list[str]) -> list[str]:
    """Give what is wrong here."""
    import django  # here, so that nothing is read before it is asked for
    from django.core.management import call_command

    from tests.programs import order

    django.setup()
    call_command("check")
    call_command("migrate", verbosity=0)
    order.take_to_its_end()
    may_fail = tuple(f"{name}." for name in absent)
    wrong = []
    for name in imports:
        try:
            importlib.import_module(name)
        except ImportError as error:
            if not f"{name}.".startswith(may_fail):
                wrong.append(f"{name}: {error}")
    return wrong


def tried(environment: dict[str, str], asked: dict[str, list[str]]) -> str:
    """Try one in a process of its own; give what it said, where it failed."""
    reads, writes = os.pipe()
    if (pid := os.fork()) == 0:
        for stream in (1, 2):
            os.dup2(writes, stream)
        os.close(writes)
        os.environ |= environment
        importlib.invalidate_caches()  # packages came and went
        sys.exit("\n".join(main(**asked)) or 0)
    os.close(writes)
    with open(reads) as told:
        said = told.read()
    return said if os.waitpid(pid, 0)[1] else ""


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
    if sys.argv[1:] == ["warm"]:
        from tests.programs import warm

        for name in warm.LOADED:
            with suppress(ImportError):  # the tests alone have it
                importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(tried(*json.loads(line))), flush=True)
