"""The base of every channel's app."""

from __future__ import annotations

from importlib import import_module

from checkpoints.extension import Extension


class ChannelExtension(Extension):
    """An extension that is one channel: it registers `CHANNEL` of its module `channel`."""

    def ready(self) -> None:
        from hitl.channels import registry  # here: models are not loaded before

        registry.register(import_module(f"{self.name}.channel").CHANNEL)
