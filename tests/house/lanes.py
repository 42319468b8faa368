"""Half of pytest's processes tell the stories, the other half does all else.

Stories wait for servers, browsers and time-outs. If all processes tell one at a time, processors
are idle, and each process has its own product and browser; so do two, while two others compute.
"""

from __future__ import annotations

from xdist.scheduler.loadfile import LoadFileScheduling
from xdist.workermanage import WorkerController

STORIES = "tests/stories/"


class Lanes(LoadFileScheduling):
    """By file, in the order in which they were collected; whose own lane is at its end helps in the
    other one.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        tells = self.nodes.index(node) < len(self.nodes) // 2
        mine = (file for file in self.workqueue if file.startswith(STORIES) == tells)
        if (first := next(mine, None)) is not None:
            self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)
