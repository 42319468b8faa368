"""What an installation with some of the optional packages can do, in the environment that has them:
`installed.py JSON`, which says what the product `imports`, what is `there` of it for sure, what the
environment `lacks`, and which modules are `without` their library then.

It is checked, finds its tables as its migrations leave them, takes an order to its end, and imports
every module of the product.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import django
from django.core.management import call_command

ROOT = Path(__file__).resolve().parents[2]
MODULES = ("extensions", "project", "hitl", "runs", "checkpoints")


def main(
    *, imports: list[str], there: list[str], lacks: list[str], without: list[str]
) -> list[str]:
    """Give what is wrong here."""
    from tests.programs import order  # here: the folder that it is found in is named below

    django.setup()
    call_command("check")
    call_command("migrate", verbosity=0)
    order.take_to_its_end()
    may_fail = tuple(f"{name}." for name in (*lacks, *without))
    wrong = []
    for name in [*imports, *there, *sorted(name for top in MODULES for name in _below(ROOT / top))]:
        try:
            importlib.import_module(name)
        except ImportError as error:
            if not f"{name}.".startswith(may_fail):
                wrong.append(f"{name}: {error}")
    return wrong


def _below(folder: Path) -> list[str]:
    modules = (path for path in folder.rglob("*.py") if "shipping" not in path.parts)
    found = (path.relative_to(ROOT).with_suffix("") for path in modules)
    return [".".join(path.parts).removesuffix(".__init__") for path in found]


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
    sys.exit("\n".join(main(**json.loads(sys.argv[1]))) or 0)
