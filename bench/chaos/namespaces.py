"""Hosts that are network namespaces: each with a cable to this machine, which can be pulled.

For root on Linux. `python -m bench.chaos.namespaces NAME -m MODULE …` runs a module in such a
network.
"""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

from tests.programs import warm
from tests.servers.private import Server
from tests.servers.stack import Stack

TRY = (
    "ip netns add $0 && ip link add ch0 type veth peer name eth0 netns $0; code=$?; "
    "ip netns del $0; exit $code"
)

_A_NETWORK = 0x40000000


class Scattered(Stack):
    """A stack whose processes are in the networks of which `under` speaks, or in this process's.
    They go there by themselves, so that they begin where the product is loaded.
    """

    own_network: Path | None = None
    """This process's, once it has left the machine's."""

    def start(self, name: str, *arguments: str) -> Server:
        if under := self.under.pop(name, None):
            arguments = ("-m", __name__, under[-1], *arguments)
        elif self.own_network is not None:
            arguments = ("-m", __name__, str(self.own_network), *arguments)
        return super().start(name, *arguments)


class Namespace:
    """One host's network. `here` is this machine's address on the cable, `there` the host's."""

    def __init__(self, number: int) -> None:
        self.name = f"chaos{os.getpid()}-{number}"
        self.cable = f"ch{os.getpid()}-{number}"[:15]
        self.here, self.there = _free()

    @staticmethod
    def possible() -> bool:
        """Tried in a network of its own: browsers elsewhere on this machine give up what they load
        when its network changes.
        """
        if os.geteuid() != 0 or not (shutil.which("ip") and shutil.which("unshare")):
            return False
        words = ["unshare", "-n", "sh", "-c", TRY, f"chaos{os.getpid()}-try"]
        return subprocess.run(words, check=False, capture_output=True).returncode == 0

    @property
    def prefix(self) -> list[str]:
        """Words before a command that is to run there."""
        return ["ip", "netns", "exec", self.name]

    def make(self) -> None:
        ip("netns", "add", self.name)
        ip("link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("addr", "add", f"{self.here}/30", "dev", self.cable)
        ip("link", "set", self.cable, "up")
        ip("-n", self.name, "addr", "add", f"{self.there}/30", "dev", "eth0")
        ip("-n", self.name, "link", "set", "eth0", "up")
        ip("-n", self.name, "link", "set", "lo", "up")

    def pull(self) -> None:
        ip("link", "set", self.cable, "down")

    def plug(self) -> None:
        ip("link", "set", self.cable, "up")

    def remove(self) -> None:
        for words in (["netns", "del", self.name], ["link", "del", self.cable]):
            subprocess.run(["ip", *words], check=False, capture_output=True)


_drawn: set[str] = set()
"""Networks that this process has drawn, perhaps for a cable that is not there yet."""


def _free() -> tuple[str, str]:
    """Two addresses of a network that nobody here has, of those that are kept for such tests (RFC
    2544, 198.18.0.0/15).
    """
    taken = subprocess.run(
        ["ip", "-4", "-o", "addr"], check=False, capture_output=True, text=True
    ).stdout
    while True:
        network = f"198.{random.choice((18, 19))}.{random.randrange(256)}"  # guards nothing
        if network not in _drawn and f" {network}." not in taken:
            _drawn.add(network)
            return f"{network}.1", f"{network}.2"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def main(name: str, *arguments: str) -> None:
    with (Path("/run/netns") / name).open() as network:
        if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), _A_NETWORK):
            raise OSError(ctypes.get_errno(), f"the network {name} cannot be entered")
    warm.run(*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
