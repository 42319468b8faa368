"""Shown ids in URLs: `<wo:order_id>` gives the view a UUID; anything else is a 404."""

from __future__ import annotations

import uuid

from django.urls import register_converter

from checkpoints import ids


def _converter(name: str) -> type:
    class ShownId:
        regex = rf"{name}_[0-9a-hjkmnp-tv-z]{{26}}"

        def to_python(self, value: str) -> uuid.UUID:
            return ids.parse(name, value)

        def to_url(self, value: uuid.UUID | str) -> str:
            return value if isinstance(value, str) else ids.show(name, value)

    return ShownId


def register() -> None:
    for name in (
        "wo",
        "thr",
        "run",
        "ckpt",
        "pse",
        "dec",
        "repo",
        "end",
        "dlv",
        "trn",
        "art",
        "upl",
        "sch",
        "occ",
        "ist",
        "cmt",
        "view",
        "bat",
    ):
        register_converter(_converter(name), name)
