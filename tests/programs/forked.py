"""Python as xdist begins it for a process of pytest, which reads no tests: they were read."""

from __future__ import annotations

import os
import sys

from tests.programs import warm

if __name__ == "__main__":
    command = sys.argv[sys.argv.index("-c") :]
    umask = os.umask(0)
    sys.exit(warm.begin("tests", command, os.environ, [0, 1, 2], umask).wait())
