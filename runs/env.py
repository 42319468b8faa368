"""Reading the environment: a bad value stops the start, naming the variable."""

from __future__ import annotations

import fcntl
import ipaddress
import json
import os
import re
import secrets
import socket
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from django.core.exceptions import ImproperlyConfigured

from checkpoints.state import encryption
from runs import limits
from runs.agents import config as agents
from runs.agents.model import ModelEndpoint, Price
from runs.workflows.base import ConfigInvalid
from runs.workflows.reviews import calendars as reading

SECRET = 16  # signs at least
FORMER = {
    "WAYSTATION_OIDC_ALLOWED_GROUPS": "WAYSTATION_SSO_ALLOWED_GROUPS",
    "WAYSTATION_OIDC_SESSION_HOURS": "WAYSTATION_SSO_SESSION_HOURS",
}
"""What variables were called, and are called now."""
_PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, default)


def refuse_former() -> None:
    """Stop the start where a variable is set under a name that has no effect any more."""
    for before, now in FORMER.items():
        if os.environ.get(before):
            raise ImproperlyConfigured(f"{before} is called {now} now: rename it, or remove it")


def flag(name: str, default: bool = False) -> bool:
    value = os.environ.get(name, "1" if default else "0").lower()
    if value not in {"1", "0", "true", "false", "yes", "no", ""}:
        raise ImproperlyConfigured(f"{name}={value!r}: use 1 or 0")
    return value in {"1", "true", "yes"}


def reach(name: str) -> bool | Literal["loopback"]:
    """A flag, or `loopback` for what only clients on the server's own machine find."""
    return "loopback" if text(name) == "loopback" else flag(name)


def one_of(name: str, default: str, *others: str) -> str:
    value = os.environ.get(name, default)
    if value not in {default, *others}:
        raise ImproperlyConfigured(f"{name}={value!r}: use {' or '.join([default, *others])}")
    return value


def number(name: str, default: float, *, low: float = 0) -> float:
    raw = os.environ.get(name, str(default))
    try:
        value = float(raw)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}={raw!r}: use a number") from error
    if not low <= value < float("inf"):
        raise ImproperlyConfigured(f"{name}={raw!r}: use a number from {low:g}")
    return value


def limit(name: str) -> int:
    """A limit of `runs.limits` that operators may change, from WAYSTATION_<name>."""
    return int(number(f"WAYSTATION_{name}", limits.table()[name], low=1))


def rate(name: str, default: int) -> int:
    """Requests in a minute: a number, or `3000/min` as it was written before."""
    raw = text(name) or str(default)
    if not (value := raw.removesuffix("/min").strip()).isdecimal() or int(value) < 1:
        raise ImproperlyConfigured(f"{name}={raw!r}: use a number of requests in a minute")
    return int(value)


def umask(name: str, default: str) -> int:
    """Permissions that new files do not get, in octal: `077` for the owner's alone, `027` where a
    group shares them.
    """
    raw = os.environ.get(name) or default
    if not re.fullmatch(r"0?[0-7]{3}", raw) or int(raw, 8) & 0o700:
        raise ImproperlyConfigured(
            f"{name}={raw!r}: use octal digits such as 077 or 027; the owner's own "
            "permissions cannot be taken"
        )
    return int(raw, 8)


def extensions(name: str, folder: Path, default: Collection[str]) -> list[str]:
    """Names of packages of a folder, each of which is an app."""
    known = sorted(apps.parent.name for apps in folder.glob("*/apps.py"))
    found = items(name, ",".join(default))
    if strange := [each for each in found if each not in known]:
        raise ImproperlyConfigured(
            f"{name}: there is no extension {strange[0]!r}; there are {', '.join(known)}"
        )
    return list(dict.fromkeys(found))


def items(name: str, default: str = "", separator: str = ",") -> list[str]:
    return [item.strip() for item in os.environ.get(name, default).split(separator) if item.strip()]


def bearer(name: str) -> str:
    """A secret that a program sends; "" where it is not set. The message never has it."""
    value = text(name).strip()
    if value and (len(value) < SECRET or not value.isascii() or not value.isprintable()):
        raise ImproperlyConfigured(f"{name}: use at least {SECRET} signs of ASCII")
    return value


def networks(name: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Addresses (`10.0.0.7`) and networks (`10.0.0.0/8`)."""
    try:
        return [ipaddress.ip_network(item) for item in items(name)]
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: {error}") from error


def arguments(name: str) -> list[str]:
    """A program and its arguments, from a JSON array; none where it is not set."""
    try:
        values = json.loads(text(name) or "[]")
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} is no JSON array: {error}") from error
    if not isinstance(values, list) or not all(
        isinstance(argument, str) and "\0" not in argument for argument in values
    ):
        raise ImproperlyConfigured(
            f'{name}: use a JSON array of words such as ["bwrap", "--bind", '
            f'"{{workspace}}", "{{workspace}}"]'
        )
    return values


def calendars(name: str, shipped: dict[str, Any]) -> dict[str, Any]:
    """Hours of work by name, from a JSON object; those that it does not name are the shipped
    ones.
    """
    try:
        given = json.loads(text(name, "{}"))
        merged = {**shipped, **given}
    except (ValueError, TypeError) as error:
        raise ImproperlyConfigured(f"{name} is no JSON object: {error}") from error
    for calendar, hours in merged.items():
        try:
            reading.read(hours)
        except reading.CalendarInvalid as error:
            raise ImproperlyConfigured(f"{name}, calendar {calendar!r}: {error}") from error
    return merged


def model(name: str, url: str, credential: str) -> ModelEndpoint:
    """The model that agents ask whose template names none, from three variables: `provider:name`,
    its address, its key's name.
    """
    endpoint = ModelEndpoint(
        model=text(name) or agents.SCRIPTED,
        base_url=text(url).rstrip("/"),
        credential=text(credential),
    )
    try:
        agents.check(
            {
                "model": endpoint.model,
                "base_url": endpoint.base_url,
                "credential": endpoint.credential,
            }
        )
    except ConfigInvalid as error:
        raise ImproperlyConfigured(
            f"{name}={endpoint.model!r}, {url}={endpoint.base_url!r}: {error}"
        ) from error
    return endpoint


def prices(name: str) -> dict[str, Price]:
    """`{"openai:gpt-5-mini": {"input": 0.25, "output": 2}}`: US dollars per million tokens."""
    try:
        given = json.loads(text(name, "{}"))
        return {
            model: Price(input=float(price["input"]), output=float(price["output"]))
            for model, price in given.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        advice = 'use {"provider:name": {"input": dollars per million tokens, "output": …}}'
        raise ImproperlyConfigured(f"{name}: {advice} ({error!r})") from error


def graphs(name: str) -> dict[str, str]:
    """Names of graphs, each with its place as `module:attribute`, from a JSON object."""
    try:
        names = json.loads(text(name, "{}"))
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} is no JSON object: {error}") from error
    if not isinstance(names, dict) or not all(
        isinstance(place, str) and _PLACE.fullmatch(place) for place in names.values()
    ):
        raise ImproperlyConfigured(
            f'{name}: use a JSON object such as {{"mail": "shop.graphs:mail"}}'
        )
    return names


def encryption_keys(name: str) -> list[str]:
    """Keys as `checkpoints.state.encryption` takes them.

    The message names the variable and the place, never a key.
    """
    keys = items(name)
    for place, _ in enumerate(keys, start=1):
        try:
            encryption.ring_of(keys[:place])
        except encryption.BadKey as error:
            raise ImproperlyConfigured(f"{name}, key {place}: {error}") from None
    return keys


BEGINNERS = ("standalone", "start", "migrate", "runserver", "collectstatic", "shell", "test")


def serves(arguments: list[str]) -> bool:
    """Whether this process is a web server or a worker, which have to go on.

    Commands take their time: migrations, prunings, imports.
    """
    program, *more = arguments or [""]
    return bool(set(Path(program).parts) & SERVERS) or more[:1] in (["standalone"], ["runserver"])


def reloads(arguments: list[str]) -> bool:
    """Whether this process loads the authors' workflows later, each time that they have changed."""
    return arguments[1:2] == ["standalone"] and "--reload" in arguments


def begins(arguments: list[str]) -> bool:
    """Whether this process may make the data folder: all but commands of `manage.py` that only work
    where Waystation already is.
    """
    program, *more = arguments or [""]
    return Path(program).name != "manage.py" or more[:1] in ([beginner] for beginner in BEGINNERS)


def data_folder(checkout: Path | None) -> Path:
    """Choose the folder where none is named: `data` of a checkout; of an installation the user's
    own, since its packages may be replaced, or be another user's.
    """
    if checkout is not None:
        return checkout / "data"
    home = text("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local/share") / "waystation"


def folder(path: Path) -> Path:
    """The folder, made where it is not there.

    Raises ImproperlyConfigured where it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(
            f"the folder {path} cannot be used ({error.strerror}). Name another with "
            "WAYSTATION_DATA, or as `make up DATA=…`."
        ) from error
    return path


def secret_key(data: Path, *, empty: bool) -> str:
    """The key that the embedded default makes once and keeps in the data folder; an `empty` one
    keeps none.
    """
    if empty:
        return secrets.token_urlsafe(50)
    path = folder(data) / "secret_key"
    try:
        if path.exists() and (key := path.read_text()):
            return key
        # processes that start at the same moment agree on one; whoever died here left it empty
        with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            key = file.read()
            if not key:
                key = secrets.token_urlsafe(50)
                file.write(key)
                file.flush()
                os.fsync(file.fileno())
            return key
    except OSError as error:
        raise ImproperlyConfigured(
            f"{path} cannot be used ({error.strerror}). Name another folder with WAYSTATION_DATA."
        ) from error


def checkpoints(url: str, *, redis: str) -> dict[str, Any]:
    """A CHECKPOINTS setting for `database:`, `redis:` (the broker's server) or
    `redis://host:port/number`, `file:///folder`, `memory:`.

    `?prefix=…` may follow a Redis URL.
    """
    parts = urlsplit(url)
    match parts.scheme:
        case "database" | "memory" if url == f"{parts.scheme}:":
            return {
                "BACKEND": f"checkpoints.backends.{parts.scheme}.{parts.scheme.capitalize()}Store",
                "OPTIONS": {},
            }
        case "file" if parts.path.startswith("/") and not parts.netloc:
            return {
                "BACKEND": "checkpoints.backends.file.FileStore",
                "OPTIONS": {"folder": unquote(parts.path)},
            }
        case "redis" | "rediss" | "unix" if url != "redis:" or redis:
            asked = dict(parse_qsl(parts.query))
            prefix = {"prefix": asked.pop("prefix")} if "prefix" in asked else {}
            plain = parts._replace(query=urlencode(asked)).geturl()
            return {
                "BACKEND": "checkpoints.backends.redis.RedisStore",
                "OPTIONS": {"url": redis if url == "redis:" else plain, **prefix},
            }
    raise ImproperlyConfigured(
        f"CHECKPOINTS_URL={url!r}: use database:, memory:, file:///folder, "
        "redis://host:port/number, or redis: with REDIS_URL"
    )


def mail(url: str) -> dict[str, Any]:
    """Django's mail settings for `smtp://user:password@host:587` (`?tls=1` for STARTTLS),
    `smtps://…:465`, `console:`, `file:///folder`.
    """
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    backend = "django.core.mail.backends.{}.EmailBackend"
    try:
        match parts.scheme:
            case "console" if url == "console:":
                return {"EMAIL_BACKEND": backend.format("console")}
            case "file" if parts.path.startswith("/") and not parts.netloc:
                return {
                    "EMAIL_BACKEND": backend.format("filebased"),
                    "EMAIL_FILE_PATH": unquote(parts.path),
                }
            case "smtp" | "smtps" if parts.hostname and set(options) <= {"tls"}:
                return {
                    "EMAIL_BACKEND": backend.format("smtp"),
                    "EMAIL_HOST": parts.hostname,
                    "EMAIL_PORT": parts.port or {"smtp": 25, "smtps": 465}[parts.scheme],
                    "EMAIL_HOST_USER": unquote(parts.username or ""),
                    "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
                    "EMAIL_USE_TLS": options.get("tls") == "1",
                    "EMAIL_USE_SSL": parts.scheme == "smtps",
                }
    except ValueError:
        pass  # a port that is none
    raise ImproperlyConfigured(
        "EMAIL_URL: use smtp://user:password@host:587?tls=1, smtps://…, console: or file:///folder"
    )


@dataclass(frozen=True)
class Mailbox:
    """A folder of mails that is read over IMAP."""

    host: str
    port: int
    tls: bool
    user: str
    folder: str
    password: str = field(repr=False)


def mailbox(name: str) -> Mailbox | None:
    """A mailbox of `imaps://user:password@host:993/INBOX`; None where it is not set.

    The message never repeats the value, which holds a password.
    """
    url = text(name)
    if not url:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in {"imap", "imaps"} or not parts.hostname or parts.query:
        raise ImproperlyConfigured(f"{name}: use imaps://user:password@host:993/INBOX")
    return Mailbox(
        host=parts.hostname,
        port=port or {"imap": 143, "imaps": 993}[parts.scheme],
        tls=parts.scheme == "imaps",
        user=unquote(parts.username or ""),
        folder=unquote(parts.path.removeprefix("/")) or "INBOX",
        password=unquote(parts.password or ""),
    )


def reply_address(name: str) -> str:
    """`reply@example.org`, or `@replies.example.org` where each address of the domain arrives."""
    value = text(name).strip().lower()
    if value and not re.fullmatch(r"[a-z0-9._-]{0,30}@[a-z0-9-]+(\.[a-z0-9-]+)*", value):
        raise ImproperlyConfigured(f"{name}={value!r}: use reply@example.org or @example.org")
    return value


def base_url(name: str, default: str) -> str:
    """The address under which people reach the product, without a slash at its end."""
    url = os.environ.get(name, "") or default
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ImproperlyConfigured(f"{name}={url!r}: use https://host or https://host/path")
    return url.rstrip("/")


SERVERS = {"celery", "daphne", "uvicorn", "gunicorn", "hypercorn", "granian"}
_TCP = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 20000}
"""As `addresses.ALIVE`; not every system knows all of them."""


def redis_alive(url: str) -> dict[str, Any]:
    """What a client of Redis' is told, so that a server that vanished without a word is known to be
    gone; none for a socket's path.
    """
    if urlsplit(url).scheme not in {"redis", "rediss"}:
        return {}
    known = {getattr(socket, name): value for name, value in _TCP.items() if hasattr(socket, name)}
    return {"socket_keepalive": True, "socket_keepalive_options": known}
