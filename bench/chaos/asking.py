"""Who asks for the orders: each under an Idempotency-Key of its own, which is sent again until
there is a clear answer.
"""

from __future__ import annotations

import http.client
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from bench.chaos import orders
from bench.chaos.world import World, patiently
from runs.models import Run

TEAM = "chaos"
UNCLEAR = {0, 409, 503, 507}
"""No answer, one with the same key still at work, and those that say "send it again with the same
key".
"""


@dataclass
class Asked:
    """One order as the world outside knows it."""

    number: int
    answers: list[int] = field(default_factory=list)
    """Statuses in order; 0 is no answer."""
    order: str = ""
    """Its id, as the clear answer named it."""

    @property
    def key(self) -> str:
        return f"chaos-{self.number}"

    @property
    def title(self) -> str:
        return f"order {self.number}"


class Asker(threading.Thread):
    """Asks until there are `runs` orders, or until `minutes` are over or each fault was made
    `times` times: then for no more while `live` are under way, and, unless the world is eager or
    there is hurry, `pace` seconds after the one before at the earliest.
    """

    def __init__(
        self, world: World, *, runs: int, minutes: float, times: int, live: int, pace: float
    ) -> None:
        super().__init__(name="asker", daemon=True)
        self.world, self.runs, self.live, self.pace = world, runs, live, pace
        self.ends = time.monotonic() + minutes * 60 if minutes else float("inf") if times else None
        self.asked: list[Asked] = []

    def run(self) -> None:
        while self._more():
            asked = Asked(len(self.asked))
            self.asked.append(asked)
            while not asked.order and self._ask(asked) in UNCLEAR:
                time.sleep(0.2)  # looks again: the hosts are other processes

    def _more(self) -> bool:
        if self.ends is None:
            return len(self.asked) < self.runs
        asked_at = time.monotonic()
        while time.monotonic() < self.ends and not self.world.ended.is_set():
            if self.world.hurry or (
                (self.world.eager or time.monotonic() - asked_at >= self.pace)
                and patiently(lambda: Run.objects.live().filter(parent=None).count()) < self.live
            ):
                return True
            time.sleep(0.2)  # looks again: the hosts are other processes
        return False

    def _ask(self, asked: Asked) -> int:
        status, answer = self._send(asked)
        asked.answers.append(status)
        self.world.answers[status] += 1
        if status in {200, 201}:  # 200: made before, and its answer lost
            asked.order = answer["id"]
        elif status not in UNCLEAR:
            self.world.breach("wrong", f"{asked.title}: {status} {str(answer)[:200]}")
        elif status in {503, 507} and answer.get("code") not in {
            "database_unavailable",
            "storage_full",
        }:
            self.world.breach(
                "wrong", f"{asked.title}: {status} without words: {str(answer)[:200]}"
            )
        return status

    def _send(self, asked: Asked) -> tuple[int, Any]:
        sizes = list(orders.CREWS)
        timed = asked.number % orders.TIMED_EVERY == orders.TIMED_EVERY - 1
        body = {
            "template": orders.TIMED if timed else orders.TEMPLATE,
            "title": asked.title,
            "team": TEAM,
            "input": {"crew": sizes[asked.number % len(sizes)]},
        }
        try:
            return self.world.stack.call(
                "POST",
                "/api/v1/work-orders",
                body,
                token=self.world.token,
                headers={"Idempotency-Key": asked.key},
            )
        except (OSError, http.client.HTTPException):
            return 0, ""

    def ask_again(self) -> None:
        """The same keys once more, after the last run: each answer names the order that the first
        one did, and makes none.
        """
        for asked in [
            question
            for question in self.asked
            if len(question.answers) > 1 or question.number % 10 == 0
        ]:
            status, answer = self._send(asked)
            if status not in {200, 201} or answer["id"] != asked.order:
                self.world.breach(
                    "wrong",
                    f"{asked.key} answered {asked.order}, and later {status} {str(answer)[:100]}",
                )
