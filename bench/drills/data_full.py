"""The data folder has no room: neither clones of repositories nor mails can be written."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.chaos.disk import Disk
from bench.chaos.faults import Fault
from bench.drills import SECONDS

if TYPE_CHECKING:
    from bench.chaos.world import World
    from bench.drills.world import Product

EVERY = 10.0
"""Seconds between two orders that work in a clone, and two that ask."""
ASKS, AFTER = "drill-asks", "PT150S"
"""Asks what nobody answers, so that a mail has to be sent, and expires."""
MAILS = 300.0
"""Seconds within which all mails that could not be written are."""
END = "-" * 79
"""The last line of a mail, as Django writes it to a file."""
SENT = """
SELECT id, extract(epoch FROM sent_at - %s)::float AS after FROM hitl_delivery WHERE status = 'sent'
"""
OPEN = "SELECT id FROM hitl_delivery WHERE status IN ('queued', 'sending')"
CLONES = """
SELECT r.status::text, r.failure_code
FROM runs_workorder o JOIN runs_run r ON r.id = o.latest_run_id WHERE o.repository_url <> ''
"""


class FullData(Fault):
    """The folder is a tmpfs that shrinks to what is in use. Orders, questions and answers go on;
    work in a clone fails in words and does when it is retried; mails are sent later.
    """

    def possible(self) -> str | None:
        return Disk.possible()

    def prepare(self, world: World) -> None:
        from django.contrib.auth.models import User

        from bench.chaos import orders
        from runs.git.samples import make_sample

        world.disk = world.small_disk("small")
        data = Path(world.stack.environment["WAYSTATION_DATA"])
        subprocess.run(["cp", "-a", f"{data}/.", world.disk.folder], check=True)
        world.stack.environment["WAYSTATION_DATA"] = str(world.disk.folder)
        make_sample(world.folder / "code")
        orders.load_tree()
        orders.load_template(ASKS, 1, {"deadline": {"after": AFTER, "outcome": "expire"}})
        User.objects.filter(username="ana").update(email="ana@example.org")

    def make(self, world: World) -> str:
        from bench.chaos.world import patiently
        from bench.drills.schedules import rows
        from bench.drills.world import Product

        assert isinstance(world, Product)
        assert world.disk is not None
        self._order(world)
        with world.trouble("data_full"):
            world.disk.fill()
            ends = time.monotonic() + SECONDS
            while time.monotonic() < ends:
                self._order(world)
                world.endure(min(EVERY, max(0.0, ends - time.monotonic())))
            world.disk.make_room()
        self._order(world)
        world.facts["clones_meanwhile"] = Counter(
            row["failure_code"] or row["status"] for row in patiently(lambda: rows(CLONES))
        )
        return "full"

    def _order(self, world: Product) -> None:
        from bench.chaos import orders

        world.order(orders.TREE, repository_url=str(world.folder / "code"))
        world.order(ASKS)

    def check(self, world: World) -> None:
        from bench.drills.schedules import rows
        from bench.drills.world import Product
        from runs.models import WorkOrder
        from tests.servers.stack import until

        assert isinstance(world, Product)
        until(lambda: not rows(OPEN), seconds=MAILS, what="the mails", every=0.5)
        sent = rows(SENT, world.over_at)
        world.facts["mails"] = self._count_mails(world, [row["id"] for row in sent])
        late = sorted(row["after"] for row in sent if row["after"] > 0)
        world.facts["mails_after_it"] = {"count": len(late), "slowest": round(max(late, default=0))}
        clones = WorkOrder.objects.exclude(repository_url="")
        for order in clones.filter(latest_run__status="failed"):
            status, answer = world.stack.call(
                "POST", f"/api/v1/work-orders/{order.shown_id}/retry", {}, token=world.token
            )
            if status not in {200, 201, 202}:
                world.breach("wrong", f"{order.shown_id} could not be retried: {status} {answer}")
        until(
            lambda: not clones.exclude(latest_run__status__in=["completed", "failed"]).exists(),
            what="the clones",
        )
        world.facts["clones_at_the_end"] = after = Counter(row["status"] for row in rows(CLONES))
        if set(after) != {"completed"}:
            world.breach("stuck", f"orders with a repository, retried: {after}")

    def _count_mails(self, world: Product, sent: list[Any]) -> dict[str, int]:
        """Whole mails in the folder, against those that are recorded as sent."""
        from checkpoints import ids

        assert world.disk is not None
        whole: Counter[str] = Counter()
        for path in (world.disk.folder / "mail").glob("*"):
            for mail in path.read_text(errors="replace").split(END)[:-1]:
                whole[mail.split("Message-ID: <")[1].split("@")[0]] += 1
        lost = {ids.show("dlv", key) for key in sent} - set(whole)
        doubled = [key for key, times in whole.items() if times > 1]
        if lost:
            world.breach("lost", f"{len(lost)} mails are recorded as sent, and were not")
        if doubled:
            world.breach("doubled", f"{len(doubled)} mails were written twice")
        return {"sent": len(sent), "lost": len(lost), "doubled": len(doubled)}


DRILL = FullData()
