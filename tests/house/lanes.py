"""Half of pytest's processes tell the stories, the other half does what needs no servers beside it.

Stories wait for servers, browsers and time-outs. If all processes tell one at a time, processors
are idle, and each process has its own product and browser; so do two, while two others compute.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from xdist.scheduler.loadfile import LoadFileScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).resolve().parents[2]
BESIDE = re.compile(r"mark\.stack\b|tests\.programs import browser\b")
"""What a file says whose tests need servers or a browser."""


class Lanes(LoadFileScheduling):
    """By file, in the order in which they were collected; whose own lane is at its end helps in the
    other one.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        stories = self.nodes.index(node) < len(self.nodes) // 2
        mine = next((file for file in self.workqueue if is_story(file) == stories), None)
        if mine is not None:
            self.workqueue.move_to_end(mine, last=False)
        super()._assign_work_unit(node)


@cache
def is_story(file: str) -> bool:
    return BESIDE.search((ROOT / file).read_text()) is not None
