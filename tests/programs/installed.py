"""What an installation with some of the optional packages can do, in the environment that has them:
`installed.py JSON`, which says what it `imports`, and what of that may be `absent`.

It is checked, finds its tables as its migrations leave them, and takes an order to its end.
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


def main(*, imports: list[str], absent: list[str]) -> list[str]:
    """Give what is wrong here."""
    from tests.programs import order  # here: the folder that it is found in is named below

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


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
    sys.exit("\n".join(main(**json.loads(sys.argv[1]))) or 0)
