"""Django's serializer to JSON, with times as exact as they are stored: digests cover microseconds,
which Django's own cuts to thousandths.

`SERIALIZATION_MODULES` names it in place of Django's, so that `dumpdata` and `loaddata` carry every
row over as it is.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.core.serializers import json
from django.core.serializers.json import Deserializer as Deserializer
from django.core.serializers.json import DjangoJSONEncoder


class ExactEncoder(DjangoJSONEncoder):
    """Writes a time with all of its microseconds, in UTC offsets as ISO 8601 has them."""

    def default(self, o: Any) -> Any:
        return o.isoformat() if isinstance(o, dt.datetime | dt.time) else super().default(o)


class Serializer(json.Serializer):
    """ASCII only, so that any text of a row gets into any file."""

    def _init_options(self) -> None:
        super()._init_options()  # type: ignore[misc]  # left out of the stubs
        self.json_kwargs.update(cls=ExactEncoder, ensure_ascii=True)
