"""As `exact_json`, one row a line."""

from __future__ import annotations

from django.core.serializers import jsonl
from django.core.serializers.jsonl import Deserializer as Deserializer

from checkpoints.text.exact_json import ExactEncoder


class Serializer(jsonl.Serializer):
    def _init_options(self) -> None:
        super()._init_options()  # type: ignore[misc]  # left out of the stubs
        self.json_kwargs.update(cls=ExactEncoder, ensure_ascii=True)
