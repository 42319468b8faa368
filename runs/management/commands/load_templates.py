from typing import Any

from django.core.management.base import BaseCommand

from runs.definitions import shipped


class Command(BaseCommand):
    help = "Write the templates that come with Waystation. Safe to repeat."

    def handle(self, *args: Any, **options: Any) -> None:
        for template in shipped.load():
            self.stdout.write(str(template))
