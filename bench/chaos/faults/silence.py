"""Hosts that vanish without closing their connections: a pulled cable, a frozen machine."""

from __future__ import annotations

import re
import threading
import time
from typing import TYPE_CHECKING

from bench.chaos.faults import Fault
from bench.chaos.wire import Flow, Link, Trap, When

if TYPE_CHECKING:
    from bench.chaos.world import Host, Touched, World

WORKER = {
    "claim": r"UPDATE runs_run SET status = \S+, epoch = ",
    "commit": r"WITH held AS.*INSERT INTO checkpoints_checkpoint",
    "question": r'INSERT INTO "?runs_pause"?',
    "log": r"UPDATE checkpoints_thread SET last_seq",
    "once": r'INSERT INTO "checkpoints_memo"',
    "renewal": (
        r'UPDATE "runs_run" SET "lease_until"|FROM "runs_run" WHERE "runs_run"."id" IN .* SKIP '
        r"LOCKED"
    ),
    "sweep": r'UPDATE "runs_pause" SET "told"|"lost_attempts" = |SKIP LOCKED',
    "housekeeping": r'UPDATE "checkpoints_chore"',
}
"""Kind of statement → how it begins, or what is in it.

Within transactions of several statements, rows stay locked.
"""
WEB = {
    "decision": r'INSERT INTO "?hitl_decision"?',
    "ledger": r"UPDATE hitl_ledger SET length",
    "order": r'INSERT INTO "?runs_workorder"?',
    "key": r'INSERT INTO "hitl_idempotencykey"',
}
PATIENCE = 20.0
"""Seconds that a statement of a kind is waited for; then the host falls silent wherever it is."""


class Silence(Fault):
    """A worker or web host falls silent inside a claim, a commit, a renewal, a decision, a sweep,
    ...: its connections stay open, and nothing passes over them in either direction. It comes back
    after two leases with all that it had to say, or never. Promised:
    everything else goes on within one lease, the runs that it had within two.
    """

    def __init__(self, name: str = "silence", kinds: tuple[str, ...] = (*WORKER, *WEB)) -> None:
        self._name, self._kinds = name, kinds
        self._turn: list[str] = []

    def prepare(self, world: World) -> None:
        from bench.chaos.namespaces import Namespace

        world.namespaces = Namespace.possible()

    def make(self, world: World) -> str:
        if not self._turn:
            self._turn = [*self._kinds]
            world.dice.shuffle(self._turn)
        kind = self._turn.pop()
        if kind in WEB:
            return self._web(world, kind)
        hosts = [world.hosts[name] for name in world.names]
        comes_back = world.dice.random() < 0.5
        host, trap = self._catch(world, hosts, WORKER[kind])
        since, owners = time.monotonic(), host.owners
        touched = world.held_by(owners, trap.heard)
        world.note_held(touched, trap.heard)
        if not comes_back:
            world.kill(host)  # its links are silent: the servers do not learn of it
        self._await(world, touched, since)
        if comes_back:
            host.heal()
        else:
            world.start(host.name)
        return f"{'back' if comes_back else 'gone'} in {kind if trap.sprung.is_set() else 'none'}"

    def _web(self, world: World, kind: str) -> str:
        spare, place = world.spare_web()
        with world.outage():
            host, trap = self._catch(world, [world.hosts["web"]], WEB[kind])
            since = time.monotonic()
            touched = world.held_by([], trap.heard)
            world.note_held(touched, trap.heard)
            world.switch(spare, place)
        world.kill(host)
        self._await(world, touched, since, watch=1)
        return f"gone in {kind if trap.sprung.is_set() else 'none'}"

    def _await(self, world: World, touched: list[Touched], since: float, *, watch: int = 2) -> None:
        """Watch the others for so many leases."""
        lease = world.lease
        world.await_recovery(
            self._name, touched, since=since, others=lease, affected=2 * lease, watch=watch * lease
        )

    def _catch(self, world: World, hosts: list[Host], pattern: str) -> tuple[Host, Trap]:
        """The first of the hosts that says such a statement, silent from then on."""
        found, caught = re.compile(pattern, re.DOTALL), threading.Event()
        met: list[tuple[Host, Trap]] = []

        def lay(host: Host) -> Trap:
            def spring(link: Link, flow: Flow) -> None:
                for other in hosts:
                    other.database.lay(None)
                host.silence_here()
                met.append((host, trap))
                caught.set()

            when = world.dice.choice([When.BEFORE, When.AFTER, When.AFTER])
            trap = Trap(lambda statement, before: found.search(statement) is not None, when, spring)
            host.database.lay(trap)
            return trap

        traps = [lay(host) for host in hosts]
        if not caught.wait(PATIENCE):
            for host in hosts:
                host.database.lay(None)
        if not met:
            hosts[0].silence()
            return hosts[0], traps[0]
        met[0][1].sprung.wait(1)
        return met[0]


FAULT = Silence()
