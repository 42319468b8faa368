"""Of four processes of pytest one tells the stories of accidents, one all other stories, and two do
all else.

Stories wait: those of accidents for time-outs, the others for servers and browsers. If all
processes tell one at a time, processors are idle, and each process has its own product and browser.
"""

from __future__ import annotations

from xdist.scheduler.loadfile import LoadFileScheduling
from xdist.workermanage import WorkerController

LANES = ["tests/stories/accidents/", "tests/stories/", ""]


class Lanes(LoadFileScheduling):
    """By file, in the order in which they were collected; whose own lane is at its end helps in the
    other ones.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        mine = min(self.nodes.index(node) * 4 // len(self.nodes), len(LANES) - 1)
        first = next((file for file in self.workqueue if lane(file) == mine), None)
        if first is not None:
            self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)


def lane(file: str) -> int:
    return next(number for number, folder in enumerate(LANES) if file.startswith(folder))
