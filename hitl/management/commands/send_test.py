from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from checkpoints import ids
from checkpoints.checks import OURS
from checkpoints.database.people import active
from checkpoints.management.shown import PlainCommand
from hitl.models.outbound import Delivery, Endpoint
from hitl.outbound import endpoints, sending


class Command(PlainCommand):
    help = "Send a test message now, to a user's mail or to an endpoint, and say what came of it."
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="whose mail is tried; with --endpoint, who tries it")
        parser.add_argument("--endpoint", help="an end_ id")

    def handle(self, *args: Any, **options: Any) -> None:
        user = active(options["user"])
        if user is None:
            raise CommandError(f"There is no active user {options['user']!r}.")
        delivery = endpoints.send_test(user, self._endpoint(options["endpoint"]))
        if delivery is None:
            raise CommandError("A test was sent within the last ten seconds; wait a moment.")
        sending.send_now(delivery)
        delivery = Delivery.objects.get(pk=delivery.pk)
        if delivery.status != "sent":
            raise CommandError(f"{delivery}: {delivery.status}. {delivery.error}")
        folder: str = getattr(settings, "EMAIL_FILE_PATH", "")  # of that backend only
        where = (
            f" It was written to {folder}; set EMAIL_URL to send mail."
            if folder and delivery.channel == "email"
            else ""
        )
        self.stdout.write(f"{delivery}: sent.{where}")

    def _endpoint(self, shown: str | None) -> Endpoint | None:
        if not shown:
            return None
        try:
            return Endpoint.objects.get(pk=ids.parse("end", shown))
        except (ValueError, Endpoint.DoesNotExist):
            raise CommandError(f"There is no endpoint {shown[:60]!r}.") from None
