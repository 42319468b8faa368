"""A network of namespaces, with this process as the switch in the middle; and slow, lossy cables.

The process leaves the machine's network for one of its own, in which nothing of the machine's is
changed. netem, which slows cables elsewhere, is missing in many kernels; a TUN device is not. So a
slow cable is two of them, with a thread between that waits with each packet, or drops it.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import itertools
import os
import select
import struct
import subprocess
import threading
import time
from pathlib import Path

from bench.chaos.namespaces import Namespace, Scattered, ip
from bench.chaos.wire import Weather

_NEW_NETWORK = 0x40000000
_MAKE_TUN, _TUN_WITHOUT_HEADER = 0x400454CA, 0x1001
EVERYWHERE = ("0.0.0.0/1", "128.0.0.0/1")
"""All addresses, in two halves, which go before a default route."""


def leave() -> None:
    """Give this process, and what it starts from now on, a network of its own that passes packets
    on. Before it has other threads.
    """
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "no network of its own")
    Scattered.own_network = Path(f"/proc/{os.getpid()}/ns/net")
    ip("link", "set", "lo", "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


class Cabled(Namespace):
    """A host that reaches the others through the switch, over a cable that can become slow."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._slow: _SlowCable | None = None

    def make(self) -> None:
        super().make()
        ip("-n", self.name, "route", "add", "default", "via", self.here)

    def slow(self, weather: Weather) -> None:
        """From now on packets take longer, and some are lost. Connections stay."""
        here, there = f"{self.cable[:13]}a", f"{self.cable[:13]}b"
        self._slow = _SlowCable(_tun(here), _tun(there), weather)
        ip("link", "set", there, "netns", self.name)
        ip("-n", self.name, "link", "set", there, "up")
        for half in EVERYWHERE:
            ip("-n", self.name, "route", "add", half, "dev", there, "src", self.there)
        ip("-n", self.name, "route", "add", self.here, "dev", there, "src", self.there)
        ip("link", "set", here, "up")
        ip("route", "add", self.there, "dev", here, "src", self.here)
        self._slow.start()

    def mend(self) -> None:
        """The cable is as it was: its devices and their routes end with it."""
        if self._slow is not None:
            self._slow.stop()
            self._slow = None

    def remove(self) -> None:
        self.mend()
        super().remove()


class _SlowCable(threading.Thread):
    """Carries packets between two devices, in order, each after its time."""

    def __init__(self, here: int, there: int, weather: Weather) -> None:
        super().__init__(name="slow cable", daemon=True)
        self.across, self.weather = {here: there, there: here}, weather
        self.ended = threading.Event()

    def run(self) -> None:
        due: list[tuple[float, int, int, bytes]] = []
        last, number = dict.fromkeys(self.across, 0.0), itertools.count()
        while not self.ended.is_set():
            wait = min(0.1, max(0.0, due[0][0] - time.monotonic())) if due else 0.1
            for end in select.select(list(self.across), [], [], wait)[0]:
                packet = os.read(end, 65_536)
                if not self.weather.loses():
                    at = max(last[end], time.monotonic() + self.weather.seconds())
                    last[end] = at
                    heapq.heappush(due, (at, next(number), self.across[end], packet))
            while due and due[0][0] <= time.monotonic():
                _, _, end, packet = heapq.heappop(due)
                os.write(end, packet)

    def stop(self) -> None:
        self.ended.set()
        self.join(10)
        for end in self.across:
            os.close(end)


def _tun(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, _MAKE_TUN, struct.pack("16sH", name.encode(), _TUN_WITHOUT_HEADER))
    return device


def why_not() -> str | None:
    """Why there can be no such network on this machine; None where there can."""
    if not Namespace.possible():
        return "only root on Linux may make network namespaces, and not on every machine"
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR))
        # asked in another process: this one would not come back
        _try_to_leave()
    except (OSError, subprocess.CalledProcessError) as error:
        return f"this machine permits no network of that kind: {error}"
    return None


def _try_to_leave() -> None:
    subprocess.run(["unshare", "-n", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"],
        check=True, capture_output=True)  # fmt: skip
