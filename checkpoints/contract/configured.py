"""The stores where checkpoints are kept, chosen like Django's caches.

`CHECKPOINTS = {"BACKEND": "checkpoints.backends.file.FileStore", "OPTIONS": {"folder":
"/srv/checkpoints"}}`; CHECKPOINTS_FALLBACKS is a list of such settings, of stores that are only
read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from checkpoints.contract.base import CheckpointStore

DATABASE = "checkpoints.backends.database.DatabaseStore"
DEFAULT: Mapping[str, Any] = {"BACKEND": DATABASE, "OPTIONS": {}}


def make(setting: Mapping[str, Any]) -> CheckpointStore:
    """The store that a setting describes.

    Nothing is reached yet. Raises ImproperlyConfigured, saying what is wrong.
    """
    unknown = sorted(set(setting) - {"BACKEND", "OPTIONS"})
    if unknown or not isinstance(setting.get("BACKEND"), str):
        raise ImproperlyConfigured(
            f"CHECKPOINTS has the keys BACKEND (a dotted path) and OPTIONS; found {sorted(setting)}"
        )
    try:
        backend = import_string(setting["BACKEND"])
    except ImportError as error:
        raise ImproperlyConfigured(
            f"CHECKPOINTS: {setting['BACKEND']!r} cannot be imported: {error}"
        ) from error
    if not (isinstance(backend, type) and issubclass(backend, CheckpointStore)):
        raise ImproperlyConfigured(f"CHECKPOINTS: {setting['BACKEND']} is no CheckpointStore")
    try:
        return backend(**setting.get("OPTIONS", {}))
    except (TypeError, ValueError) as error:
        raise ImproperlyConfigured(
            f"CHECKPOINTS: the OPTIONS of {setting['BACKEND']} are wrong: {error}"
        ) from error


@lru_cache(maxsize=1)
def primary() -> CheckpointStore:
    """The store that this process writes to."""
    return make(getattr(settings, "CHECKPOINTS", DEFAULT))


@lru_cache(maxsize=1)
def readable() -> tuple[CheckpointStore, ...]:
    """The configured store, and those that were used before it."""
    return primary(), *(make(setting) for setting in getattr(settings, "CHECKPOINTS_FALLBACKS", ()))


def _forget(*, setting: str, **_: Any) -> None:
    if setting in {"CHECKPOINTS", "CHECKPOINTS_FALLBACKS"}:
        primary.cache_clear()
        readable.cache_clear()


setting_changed.connect(_forget)  # sent by tests only
