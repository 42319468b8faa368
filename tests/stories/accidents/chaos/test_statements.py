"""The statements at which `make chaos` strikes are ones that the product makes: else a fault waits
for nothing, and proves nothing.
"""

from __future__ import annotations

import re

import pytest
from django.db import connection

from bench.chaos.faults import commit, silence
from runs.models import WorkOrder
from runs.workflows import registry
from tests.conftest import drive, pause_of

OF_BEAT = {"renewal", "sweep", "housekeeping"}
"""Rounds that come by themselves; the others belong to an order, from its key to its end."""


@pytest.mark.django_db(transaction=True)
def test_an_order_makes_every_statement_at_which_a_host_falls_silent_or_is_cut_off(
    templates, ana, team, api, monkeypatch
):
    """That of a decision was looked for with quotes around its table's name, which the product had
    long left out: no host ever fell silent, and no commit was cut, in a decision.
    """
    finish = registry._STEPS["test.finish"]

    def speaks(state, context):
        context.once("effect", lambda: 1)
        context.log("once")
        return finish(state, context)

    monkeypatch.setitem(registry._STEPS, "test.finish", speaks)
    said = []

    def hear(run, sql, params, many, context):
        said.append(sql)
        return run(sql, params, many, context)

    client, key = api(ana), {"Idempotency-Key": "one"}
    body = {"template": "writing", "title": "One", "team": team.name}
    with connection.execute_wrapper(hear):
        made = client.post("/api/v1/work-orders", body, format="json", headers=key)
        assert made.status_code == 201, made.json()
        while drive(order := WorkOrder.objects.get()).status == "paused":
            path = f"/api/v1/pauses/{pause_of(order).shown_id}/decisions"
            answer = client.post(path, {"decision": "approve"}, format="json")
            assert answer.status_code == 201, answer.json()
    missed = {
        kind
        for kinds in (silence.WORKER, silence.WEB, commit.WORKER, commit.WEB)
        for kind, pattern in kinds.items()
        if kind not in OF_BEAT and not any(re.search(pattern, sql, re.DOTALL) for sql in said)
    }
    assert missed == set(), [one[:100] for one in said if "INSERT" in one or "UPDATE" in one]
