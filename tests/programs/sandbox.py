"""A sandbox that holds nobody: `python sandbox.py <note> <place>… -- <program> <argument>…` notes
what it was given and runs the program.

As a process of its own above the program, which it starts in another session, like bubblewrap or a
container's client would be.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

note, *words = sys.argv[1:]
end = words.index("--")
places, program = words[:end], words[end + 1 :]
Path(note).write_text(
    json.dumps(
        {"places": places, "program": program, "cwd": os.getcwd(), "home": os.environ["HOME"]}
    )
)
try:
    done = subprocess.run(
        program, env={**os.environ, "BEHIND_THE_WALL": "1"}, start_new_session=True, check=False
    )
except FileNotFoundError:
    sys.exit(127)
sys.exit(128 - done.returncode if done.returncode < 0 else done.returncode)
