"""The app of a channel: it registers the class that its module `channel` names."""

from __future__ import annotations

from importlib import import_module

from checkpoints.extension import Extension


class ChannelExtension(Extension):
    """An extension that is one channel, `CHANNEL` of its module `channel`."""

    def ready(self) -> None:
        from hitl.channels import registry  # here: models are not there before

        registry.register(import_module(f"{self.name}.channel").CHANNEL)
