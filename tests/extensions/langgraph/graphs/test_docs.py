"""The example of docs/how-to/langgraph.md runs as it stands there."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from tests.conftest import drive, pause_of, state_at_head
from tests.databases.whole import file_database as file_database
from tests.extensions.langgraph.graphs.ordered import template

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = Path(__file__).resolve().parents[4] / "docs" / "how-to" / "langgraph.md"


def block(kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def test_the_example_sends_the_mail_that_a_person_edited(
    file_database, make_order, ana, settings, tmp_path: Path, monkeypatch: Any
):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "graphs.py").write_text(block("python"))
    monkeypatch.syspath_prepend(tmp_path)
    setting = re.search(r"^WAYSTATION_GRAPHS=(.*)$", PAGE.read_text(), re.MULTILINE)
    assert setting
    settings.WAYSTATION_GRAPHS = json.loads(setting[1])
    template(**json.loads(block("json")), slug="mail")
    order = drive(make_order("mail", input={"topic": "tea"}))
    (call,) = pause_of(order).calls
    assert (call["tool"], call["arguments"]) == ("send_mail", {"text": "All about tea"})
    payload = {"calls": {call["id"]: {"decision": "edit", "arguments": {"text": "Tea, briefly"}}}}
    services.decide(pause_of(order).pk, Answer("answer", Via.PAGE, payload=payload), by=ana)
    order = drive(order)
    assert order.status == "completed", order.latest_run.error
    assert state_at_head(order.thread_id)["mails"] == ["Tea, briefly"]
    for name in ("shop.graphs", "shop"):
        sys.modules.pop(name, None)
