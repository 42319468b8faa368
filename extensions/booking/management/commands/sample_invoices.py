from pathlib import Path
from typing import Any

from django.conf import settings

from checkpoints.checks import OURS
from checkpoints.management.shown import PlainCommand
from extensions.booking.samples import make_samples


class Command(PlainCommand):
    help = (
        "Write sample books and e-invoices to try smart-booking on; prints the invoices' paths. "
        "What is there stays."
    )
    requires_system_checks = OURS

    def handle(self, *args: Any, **options: Any) -> None:
        for path in make_samples(
            Path(settings.WAYSTATION_SHARED) / "booking", Path(settings.WAYSTATION_DATA) / "inbox"
        ):
            self.stdout.write(str(path))
