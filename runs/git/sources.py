"""Which repositories an order may name: local ones in allowed folders, remote ones of allowed
schemes and hosts.
"""

from __future__ import annotations

import ipaddress
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

LONGEST = 2000
_SCP = re.compile(r"(?:(?P<user>[^@/:\s]+)@)?(?P<host>[^@/:\s]+):(?P<path>[^:].*)")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_PRIVATE_ENDINGS = (".local", ".localhost", ".internal", ".lan", ".home", ".intranet", ".home.arpa")


class BadSource(ValueError):
    """A repository that an order may not name.

    `code` is stable; the message is for the person who typed it.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def check_source(
    url: str, *, folders: Sequence[Path], schemes: Sequence[str], hosts: Sequence[str]
) -> str:
    """The normalised form of a source that may be used: an absolute real path, a URL, or
    `user@host:path`.

    Args:
        folders: local repositories must lie inside one of these, after symbolic links are followed.
        schemes: of remote URLs, e.g. `["https", "ssh"]`; `file` is not one of them, it is always a
            local path.
        hosts: exact names or `*.example.org` (its subdomains); `*` is any public name. Addresses
            and private names are allowed only when listed as they are.
    Raises:
        BadSource: with the first thing that is wrong. For a path outside `folders` it never tells
            whether it exists.
    """
    url = url.strip(" \t\r\n")
    _check_text(url)
    if url.lower().startswith("file:"):
        return _local(_path_of_file_url(url), folders)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*::", url):
        raise BadSource(
            "scheme_not_allowed", "Remote helpers (“ext::…” and the like) are not allowed."
        )
    if "://" in url:
        return _remote(url, schemes, hosts)
    if not url.startswith(("/", ".", "~")) and (scp := _SCP.fullmatch(url)):
        return _scp_like(scp, schemes, hosts)
    return _local(url, folders)


def _check_text(url: str) -> None:
    if not url:
        raise BadSource("empty_source", "Name a repository: an absolute path or a URL.")
    if len(url) > LONGEST:
        raise BadSource("too_long", f"A repository's name may have {LONGEST} characters.")
    # control, line-breaking, direction-changing and lone surrogate characters
    if not url.isprintable():
        raise BadSource(
            "control_characters", "The repository's name contains characters that cannot be seen."
        )
    if url.startswith("-"):
        raise BadSource("leading_dash", "A repository's name does not begin with a dash.")


def _path_of_file_url(url: str) -> str:
    parts = _split(url)
    if (
        parts.netloc.lower() not in ("", "localhost")
        or parts.query
        or parts.fragment
        or not url[5:].startswith("//")
    ):
        raise BadSource("bad_url", "A file URL looks like file:///absolute/path.")
    path = unquote(parts.path, errors="surrogateescape")
    _check_text(path)
    return path


def _local(path: str, folders: Sequence[Path]) -> str:
    if not path.startswith("/"):
        raise BadSource("relative_path", "Give a local repository as an absolute path.")
    real = _inside(path, folders)
    git_dirs = _git_dirs(real) if os.path.isdir(real) else []
    if not git_dirs:
        raise BadSource("not_a_repository", f"{path} is not a git repository.")
    for git_dir in git_dirs:  # a linked worktree or alternates may lead elsewhere
        _inside(git_dir, folders)
    return real


def _inside(path: str, folders: Sequence[Path]) -> str:
    real = os.path.realpath(path)
    if not any(Path(real).is_relative_to(os.path.realpath(folder)) for folder in folders):
        raise BadSource(
            "outside_allowed_folders",
            f"{path} is not inside a folder whose repositories may be used.",
        )
    return real


def _git_dirs(path: str) -> list[str]:
    """Every place git would read objects from for the repository that is exactly at `path`; none if
    there is none.
    """
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CEILING_DIRECTORIES": os.path.dirname(path),  # a repository around it does not count
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
    arguments = [
        "git",
        "rev-parse",
        "--path-format=absolute",
        "--git-dir",
        "--git-common-dir",
        "--git-path",
        "objects",
    ]
    try:
        answer = subprocess.run(
            arguments,
            cwd=path,
            env=environment,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):  # a folder we may not enter, a disk that hangs
        return []
    lines = os.fsdecode(answer.stdout).split("\n")[:-1]
    if answer.returncode or len(lines) != 3:
        return []
    alternates = Path(lines[2], "info", "alternates")
    others = os.fsdecode(alternates.read_bytes()).split("\n") if alternates.is_file() else []
    return lines + [
        os.path.join(lines[2], line) for line in others if line and not line.startswith("#")
    ]


def _remote(url: str, schemes: Sequence[str], hosts: Sequence[str]) -> str:
    parts = _split(url)
    scheme = parts.scheme.lower()
    _check_scheme(scheme, schemes)
    if parts.password is not None or (parts.username is not None and scheme != "ssh"):
        raise BadSource(
            "credentials_in_url",
            "Leave user and password out of the URL; the server has its own access.",
        )
    if (
        any(character.isspace() for character in url)
        or parts.query
        or parts.fragment
        or not parts.path.strip("/")
        or "\\" in url
    ):
        raise BadSource(
            "bad_url", "The URL of a repository is scheme://host/path, without spaces, “?” or “#”."
        )
    user = f"{_checked_user(parts.username)}@" if parts.username is not None else ""
    host = _checked_host(parts.hostname or "", hosts)
    port = f":{parts.port}" if parts.port else ""
    return f"{scheme}://{user}{host}{port}{_checked_path(parts.path)}"


def _scp_like(match: re.Match[str], schemes: Sequence[str], hosts: Sequence[str]) -> str:
    """Kept as it is: its path is relative to the user's home, which an ssh:// URL cannot say."""
    _check_scheme("ssh", schemes)
    user, path = match["user"], match["path"]
    if any(character.isspace() for character in path) or "\\" in path:
        raise BadSource("bad_url", "The path of a remote repository has no spaces.")
    host = _checked_host(match["host"], hosts)
    return f"{_checked_user(user) + '@' if user else ''}{host}:{_checked_path(path)}"


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port, parts.hostname  # both raise late
    except ValueError:
        raise BadSource("bad_url", "This is not a URL that git could use.") from None
    return parts


def _check_scheme(scheme: str, schemes: Sequence[str]) -> None:
    if scheme not in {allowed.lower() for allowed in schemes}:
        raise BadSource(
            "scheme_not_allowed", f"Repositories by {scheme or 'this way'} are not allowed here."
        )


def _checked_user(user: str) -> str:
    if not _USER.fullmatch(user):
        raise BadSource(
            "bad_url", "The user of a remote repository has only letters, digits, dots and dashes."
        )
    return user


def _checked_path(path: str) -> str:
    if path.startswith("-") or ".." in unquote(path).split("/"):
        raise BadSource(
            "bad_url", "The path of a remote repository has no “..” and does not begin with a dash."
        )
    return path


def _checked_host(host: str, hosts: Sequence[str]) -> str:
    host = host.lower().rstrip(".")
    listed = {allowed.lower() for allowed in hosts}
    shown = f"[{host}]" if ":" in host else host
    if host in listed and (_HOST.fullmatch(host) or _is_address(host)):
        return shown
    if (
        not _HOST.fullmatch(host)
        or _is_private(host)
        or not any(_matches(host, allowed) for allowed in listed)
    ):
        raise BadSource(
            "host_not_allowed", f"Repositories at {shown or 'this host'} are not allowed here."
        )
    return shown


def _matches(host: str, allowed: str) -> bool:
    return allowed == "*" or (
        allowed.startswith("*.") and host.endswith(allowed[1:]) and len(host) > len(allowed) - 1
    )


def _is_private(host: str) -> bool:
    return "." not in host or host.endswith(_PRIVATE_ENDINGS) or _is_address(host)


def _is_address(host: str) -> bool:
    """Also the old spellings that resolvers still take: 127.1, 0x7f000001."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return re.fullmatch(r"[0-9]+|0x[0-9a-f]*", host.rsplit(".", 1)[-1]) is not None
    return True
