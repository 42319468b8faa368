"""A small disk of its own, in memory, which can be full: tmpfs, mounted and made smaller by
root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOMY = 4 << 30
"""Bytes, of which only those in use cost memory."""


class Disk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def possible() -> str | None:
        """Why there can be none here."""
        if os.geteuid() != 0 or not shutil.which("mount"):
            return "only root can mount a small disk"
        with tempfile.TemporaryDirectory() as name:
            disk = Disk(Path(name) / "disk")
            try:
                disk.make()
            except (subprocess.CalledProcessError, LookupError):
                return "this machine lets nobody mount a small disk"
            disk.remove()
        return None

    def make(self) -> None:
        self.folder.mkdir()
        self._mount("-t", "tmpfs", "-o", f"size={ROOMY}", "tmpfs")
        shutil.chown(self.folder, "postgres", "postgres")

    def fill(self) -> None:
        """There is room for not a page more than what is there."""
        # more may be in use a moment later, and a disk cannot become smaller than that
        for _ in range(50):
            status = os.statvfs(self.folder)
            try:
                return self._mount(
                    "-o", f"remount,size={(status.f_blocks - status.f_bfree) * status.f_frsize}"
                )
            except subprocess.CalledProcessError:
                pass
        raise LookupError("the small disk could not be filled")

    def make_room(self) -> None:
        self._mount("-o", f"remount,size={ROOMY}")

    def remove(self) -> None:
        subprocess.run(["umount", "-l", self.folder], check=False, capture_output=True)

    def _mount(self, *words: str) -> None:
        subprocess.run(["mount", *words, self.folder], check=True, capture_output=True)
