"""Files by paths that a model wrote, inside one folder and nowhere else.

Every part of a path is opened relative to the one before, and none may be a symbolic link: so a
link that lies there, or takes a folder's place between two looks, leads nowhere. What is written is
written beside its place and moved over it, so nothing that has a second name outside (a hard link)
is changed.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

LONGEST_PATH = 1_000
LONGEST_NAME = 255
"""Bytes."""
DEEPEST = 60
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class PathRefused(Exception):
    """The path leads nowhere that may be used; the message says why, for the model."""

    code = "path_refused"


def parts(path: str) -> tuple[str, ...]:
    """A path's names, from the folder down; () for the folder itself. Raises PathRefused."""
    if len(path) > LONGEST_PATH or not path.isprintable() or "\\" in path:
        raise PathRefused(
            f"A path has up to {LONGEST_PATH} printable characters, with / between its "
            "names and no backslash."
        )
    if path.startswith("/"):
        raise PathRefused(
            "Write the path from the workspace's top, such as src/app.py, not from /."
        )
    names = tuple(name for name in path.split("/") if name not in {"", "."})
    if ".." in names:
        raise PathRefused("A path leads down only: no .. in it.")
    if any(_is_gits(name) for name in names):
        raise PathRefused("What git keeps in .git is not for tools.")
    if len(names) > DEEPEST or any(len(name.encode()) > LONGEST_NAME for name in names):
        raise PathRefused(f"A name has up to {LONGEST_NAME} bytes, a path up to {DEEPEST} names.")
    return names


def _is_gits(name: str) -> bool:
    """Whether some file system takes this name for .git: in other letters, with signs that are not
    seen, as a short name.
    """
    seen = "".join(
        sign for sign in unicodedata.normalize("NFKC", name) if unicodedata.category(sign) != "Cf"
    )
    plain = seen.casefold().partition(":")[0].rstrip(" .")
    return plain in {".git", "git~1"}


@contextmanager
def _folder(root: Path, names: Sequence[str], *, make: bool = False) -> Iterator[int]:
    """A descriptor of the folder; with `make`, folders that are missing are made.

    Raises PathRefused.
    """
    descriptor = os.open(root, _FOLDER)
    try:
        for depth, name in enumerate(names):
            if make:
                _make(name, descriptor)
            inner = _opened(name, _FOLDER, descriptor, shown="/".join(names[: depth + 1]))
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _make(name: str, above: int) -> None:
    try:
        os.mkdir(name, 0o755, dir_fd=above)
    except FileExistsError:
        pass
    except OSError as error:
        raise PathRefused(f"The folder {name} cannot be made: {error.strerror}.") from None


def _opened(name: str, flags: int, above: int, *, shown: str) -> int:
    try:
        return os.open(name, flags, dir_fd=above)
    except OSError as error:
        if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and _is_link(name, above)):
            raise PathRefused(f"{shown} is a link, and links are not followed here.") from None
        if error.errno in {errno.ENOENT, errno.ENOTDIR}:
            raise PathRefused(
                f"There is no {'folder' if flags == _FOLDER else 'file'} {shown}."
            ) from None
        raise PathRefused(f"{shown} cannot be opened: {error.strerror}.") from None


def _is_link(name: str, above: int) -> bool:
    status = _status(name, above)
    return status is not None and stat.S_ISLNK(status.st_mode)


def _status(name: str, above: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=above, follow_symlinks=False)
    except OSError:
        return None


def read(root: Path, path: str, *, limit: int) -> bytes:
    """A regular file's bytes; raises PathRefused, also where there are more than `limit`."""
    *above, name = parts(path) or ("",)
    if not name:
        raise PathRefused("Name a file, such as src/app.py.")
    with _folder(root, above) as folder:
        return _read(folder, name, path, limit)


def _read(folder: int, name: str, shown: str, limit: int) -> bytes:
    descriptor = _opened(name, _FILE, folder, shown=shown)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise PathRefused(
            f"{shown} is {'a folder' if stat.S_ISDIR(status.st_mode) else 'no regular file'}."
        )
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise PathRefused(
            f"{shown} has {status.st_size:,} bytes; files of up to {limit:,} are read."
        )
    return content


def write(root: Path, path: str, content: bytes) -> bool:
    """Make a file what `content` says, with the folders above it; whether it is new.

    Raises PathRefused.
    """
    *above, name = parts(path) or ("",)
    if not name:
        raise PathRefused("Name a file, such as src/app.py.")
    with _folder(root, above, make=True) as folder:
        before = _status(name, folder)
        if before is not None and not stat.S_ISREG(before.st_mode):
            raise PathRefused(
                f"{path} is a "
                f"{'link' if stat.S_ISLNK(before.st_mode) else 'folder or no regular file'}; "
                "it was left alone."
            )
        # git keeps no more of a mode than that
        mode = 0o700 if before is not None and before.st_mode & stat.S_IXUSR else 0o600
        beside = f".new-{secrets.token_hex(8)}"
        try:
            _write(folder, beside, content, mode)
            os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            _drop(beside, folder)
            raise PathRefused(f"{path} cannot be written: {error.strerror}.") from None
        return before is None


def _write(folder: int, name: str, content: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, mode, dir_fd=folder), "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)


def _drop(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def remove(root: Path, path: str) -> None:
    """Delete one regular file; raises PathRefused."""
    *above, name = parts(path) or ("",)
    with _folder(root, above) as folder:
        status = _status(name, folder) if name else None
        if status is None or not stat.S_ISREG(status.st_mode):
            raise PathRefused(f"There is no file {path}.")
        _drop(name, folder)


def walk(root: Path, path: str = "") -> Iterator[tuple[str, bool]]:
    """Every file and link below a folder, in order of their paths: path, and whether it is a
    regular file. Nothing of git's.
    """
    names = parts(path)
    with _folder(root, names) as folder:
        yield from _walk(folder, "".join(f"{name}/" for name in names), len(names))


def _walk(folder: int, above: str, depth: int) -> Iterator[tuple[str, bool]]:
    with os.scandir(folder) as entries:
        found = sorted(
            (entry.name, entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False))
            for entry in entries
        )
    for name, is_folder, is_file in found:
        if _is_gits(name) or not name.isprintable():
            continue
        if not is_folder:
            yield f"{above}{name}", is_file
        elif depth < DEEPEST:
            try:
                inner = os.open(name, _FOLDER, dir_fd=folder)
            except OSError:  # gone, or a link by now
                continue
            try:
                yield from _walk(inner, f"{above}{name}/", depth + 1)
            finally:
                os.close(inner)
