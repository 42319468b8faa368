"""`python -m tests.node.lint DOCUMENT`: Spectral and Redocly read the OpenAPI document.

One that is not here is named, and left out.
"""

from __future__ import annotations

import os
import subprocess
import sys

from tests.node import HERE, program, search_path

LINTERS = {
    "spectral": ["lint", "--fail-severity=warn", "--quiet", f"--ruleset={HERE / 'spectral.yaml'}"],
    "redocly": ["lint", f"--config={HERE / 'redocly.yaml'}"],
}
QUIET = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}


def main(document: str) -> int:
    failed = 0
    for name, arguments in LINTERS.items():
        found = program(name)
        if found is None:
            print(
                (
                    f"LEFT OUT: {name} is not on this machine, so it has not read {document}. "
                    "`make .venv/node` says why."
                ),
                flush=True,
            )
            continue
        environment = {**os.environ, **QUIET, "PATH": search_path()}
        failed |= subprocess.run(
            [found, *arguments, document], env=environment, check=False
        ).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
