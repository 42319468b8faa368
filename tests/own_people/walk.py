"""One person's order from migration to its end, over REST and on the pages.

Its own process: a model of people is settled once in one.
"""

from __future__ import annotations

from typing import Any

import django

django.setup()

from django.contrib import admin  # noqa: E402  # after setup
from django.core.checks import run_checks  # noqa: E402  # after setup
from django.test import Client  # noqa: E402  # after setup
from django.test.utils import setup_test_environment  # noqa: E402  # after setup
from django.urls import reverse  # noqa: E402  # after setup

from checkpoints.database.people import User  # noqa: E402  # after setup
from tests.databases import cleaning  # noqa: E402  # after setup
from tests.programs.settings import Api, drive, said  # noqa: E402  # after setup

ADA = "ada@example.org"


def main() -> None:
    setup_test_environment()
    said("migrate", "--verbosity", "0")
    said("makemigrations", "--check", "--dry-run")
    assert not [one for one in run_checks() if one.is_serious()]
    assert User.__name__ == "Person"
    person: Any = User.objects.create_superuser(ADA, password="a long and odd one")
    cleaning.load_templates()
    token = said("api_token", ADA).split()[-1]
    pages = Client()
    assert (
        pages.post("/login", {"username": ADA, "password": "a long and odd one"}).status_code == 302
    )

    api = Api("/api/v1/", token)
    call = api.call

    kept = call("GET", "templates/workflows/writing")[1]["steps"]
    asking = next(step for step in kept if step.get("pause_after"))
    asking["review"] = {"reviewers": {"users": ["bob@example.org"]}}
    status, refused = call("PUT", "templates/workflows/writing", {"steps": kept})
    assert (status, "bob@example.org" in str(refused)) == (422, True), refused
    asking["review"] = {"reviewers": {"users": [ADA]}}
    assert call("PUT", "templates/workflows/writing", {"steps": kept})[0] == 200
    status, order = call("POST", "work-orders", {"template": "writing"})
    assert (status, order["created_by"]) == (201, ADA), order
    assert drive(order["id"]) == "paused"
    for page in (
        "/",
        f"/work-orders/{order['id']}/",
        reverse("hitl:templates"),
        reverse("hitl:delegations"),
        reverse("hitl:operations"),
    ):
        shown = pages.get(page)
        assert shown.status_code == 200, page
    assert "Ada" in pages.get(f"/work-orders/{order['id']}/").content.decode()
    for model, desk in admin.site._registry.items():
        for query in ("", "?q=ada") if desk.search_fields else ("",):
            listed = pages.get(
                reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
                + query
            )
            assert listed.status_code == 200, model
    assert api.approved(order["id"]) == "completed"
    assert "completed" in said("workorder", "--user", ADA, "list")
    decision = person.decisions.latest("pk")
    assert call("GET", f"decisions/{decision.shown_id}")[1]["decided_by"] == ADA
    assert "Ada" in pages.get(f"/decisions/{decision.shown_id}/").content.decode()


if __name__ == "__main__":
    main()
    print("whole")
