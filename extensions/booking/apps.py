from pathlib import Path
from typing import Any

from django.conf import settings

from checkpoints.extension import Extension
from extensions.booking.samples import DEMO, make_samples
from extensions.booking.words import WORDS


class BookingConfig(Extension):
    name = "extensions.booking"
    workflows = ("extensions.booking.templates",)
    words = WORDS

    def demo(self, by: Any) -> None:
        """Three invoices: one books itself, one waits for a bookkeeper, one for the supplier."""
        from runs import services as runs  # here: models are not loaded before

        for path in make_samples(
            Path(settings.WAYSTATION_SHARED) / "booking", Path(settings.WAYSTATION_DATA) / "inbox"
        ):
            if path.name in DEMO:
                runs.submit("smart-booking", by=by, input={"invoice": {"path": str(path)}})
