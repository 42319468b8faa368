"""A server of the core with nothing switched on beside it: its commands, its pages, an order."""

from __future__ import annotations

import sys

import django

django.setup()

from celery import current_app  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import setup_test_environment  # noqa: E402

from checkpoints.database.people import User  # noqa: E402
from tests.programs.settings import drive, said  # noqa: E402
from tests.worlds import steps  # noqa: E402

PAGES = (
    "", "work-orders/", "work-orders/new", "templates/", "threads/", "schedules/", "schedules/new",
    "operations/", "decisions/", "inbound/", "admin/", "api/v1/templates/workflows",
)  # fmt: skip

setup_test_environment()
current_app.conf["broker_url"] = "memory://"
said("check")
said("migrate", "--verbosity", "0")
assert said("load_templates").startswith("There is none.")
user = User.objects.create_superuser("ada", "ada@example.org", "a long and odd one")
client = Client()
client.force_login(user)
for page in PAGES:
    assert (answer := client.get(f"/{page}")).status_code == 200, (page, answer)
assert not [name for name in sys.modules if name.startswith("extensions.")]
steps.load()
order = said("workorder", "--user", "ada", "create", "--template", "writing").strip()
assert drive(order) == "paused"
assert "writing" in client.get("/templates/").content.decode()
said("workorder", "--user", "ada", "approve", order)
print("whole")
