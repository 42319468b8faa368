"""What would ask?

Told over REST and on a page, by a template's rules or by rules to try (S2-26).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from runs import definitions
from runs.definitions import TemplateInvalid
from runs.models import StepTemplate

pytestmark = pytest.mark.django_db
RULES = [
    {
        "tool": "fetch",
        "when": {"argument": "/url", "op": "matches", "value": "^https://ours/"},
        "ask": False,
        "why": "It is ours.",
    },
    {"when": {"risk": "high"}, "ask": True, "why": "High risk."},
]


@pytest.fixture
def asker(templates: None) -> None:
    """A template whose agent has `fetch` and rules, beside a step that is no agent's."""
    config = {"model": "scripted", "tools": ["fetch", "clock"], "approvals": RULES}
    definitions.edit_step_template("asker", title="Asker", function="agent", config=config)
    steps = [
        {"name": "work", "step_template_slug": "asker"},
        {"name": "finish", "step_template_slug": "test-finish"},
    ]
    definitions.edit_template("asking", title="Asking", steps=steps, needs_repository=False)


def explain(client: Any, **body: Any) -> Any:
    return client.post("/api/v1/tools/explain", body, format="json")


def test_the_tools_are_listed_with_schema_risk_and_rules(api, ana):
    told = {tool["name"]: tool for tool in api(ana).get("/api/v1/tools").json()["tools"]}
    assert {
        "clock",
        "calculate",
        "fetch",
        "remember",
        "recall",
        "read_file",
        "write_file",
        "run_check",
    } <= told.keys()
    fetch = told["fetch"]
    assert (
        fetch["risk"],
        fetch["editable"],
        fetch["rules"][0]["when"],
        fetch["rules"][0]["ask"],
    ) == ("high", ["/url"], "always", True)
    assert fetch["parameters"]["required"] == ["url"]


def test_a_templates_rules_tell_whether_a_call_asks_and_why(api, ana, asker):
    client = api(ana)
    ours = explain(
        client, tool="fetch", arguments={"url": "https://ours/a"}, template="asking", step="work"
    ).json()
    assert ours == {
        "tool": "fetch",
        "risk": "high",
        "ask": False,
        "why": "It is ours.",
        "rule": RULES[0],
        "place": "approvals.0",
        "offered": True,
    }
    other = explain(
        client, tool="fetch", arguments={"url": "https://other/"}, template="asking", step="work"
    ).json()
    assert (other["ask"], other["why"], other["place"]) == (True, "High risk.", "approvals.1")
    assert (
        explain(
            client, tool="calculate", arguments={"expression": "1"}, template="asking", step="work"
        ).json()["offered"]
        is False
    )


def test_rules_are_tried_before_they_are_saved(api, ana):
    client = api(ana)
    assert (
        explain(client, tool="fetch", arguments={"url": "https://ours/"}, rules=RULES).json()["ask"]
        is False
    )
    bare = explain(client, tool="clock").json()
    assert (bare["ask"], bare["rule"], bare["place"]) == (False, None, "")


def test_what_cannot_be_explained_is_refused_with_a_code(api, ana, asker, subtests):
    cases: list[tuple[Any, ...]] = [
        ({"tool": "nothing"}, 404, "tool_not_found"),
        ({"tool": "fetch", "arguments": {}}, 422, "call_invalid"),
        ({"tool": "fetch", "arguments": []}, 400, "invalid"),
        ({"tool": "clock", "rules": [{"when": "always"}]}, 422, "rules_refused"),
        (
            {"tool": "clock", "rules": [{"tool": "clokc", "when": "always", "ask": True}]},
            422,
            "rules_refused",
        ),
        ({"tool": "clock", "template": "none", "step": "work"}, 404, "template_not_found"),
        ({"tool": "clock", "template": "asking", "step": "finish"}, 422, "call_invalid"),
        ({"tool": "clock", "template": "asking"}, 422, "invalid"),
        ({"tool": "clock", "template": "asking", "step": "work", "rules": []}, 422, "invalid"),
        ({}, 400, "invalid"),
    ]
    for body, status, code in cases:
        with subtests.test(ascii(body)[:60]):
            answer = explain(api(ana), **body)
            assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_step_template_with_rules_that_cannot_be_followed_is_not_saved(asker):
    """A rule on a tool that the agent does not have would silently never match."""
    for rules in (
        [{"when": "always"}],
        [{"tool": "fetsch", "when": "always", "ask": True}],
        "always",
    ):
        with pytest.raises(TemplateInvalid) as refused:
            definitions.edit_step_template(
                "asker",
                title="Asker",
                function="agent",
                config={"tools": ["fetch"], "approvals": rules},
            )
        assert "approvals" in next(iter(refused.value.errors))
    assert StepTemplate.objects.filter(slug="asker").count() == 1


def test_the_page_lists_the_tools_and_explains_a_call(page, asker):
    told = page.get("/tools/").content.decode()
    assert (
        "What would ask?" in told
        and "asking/work" in told
        and "It reaches outside this server" in told
    )
    query = {
        "tool": "fetch",
        "at": "asking/work",
        "arguments": json.dumps({"url": "https://ours/x"}),
    }
    answer = page.get("/tools/", query)
    text = answer.content.decode()
    assert (
        answer.status_code == 200
        and "This call is made without asking." in text
        and "It is ours." in text
    )
    asks = page.get("/tools/", {**query, "at": ""}).content.decode()
    assert "A person is asked before this call is made." in asks and "<code>tool.0</code>" in asks
    missing = page.get(
        "/tools/", {"tool": "clock", "at": "asking/work", "arguments": ""}
    ).content.decode()
    assert "does not have clock" not in missing
    assert (
        "does not have recall"
        in page.get("/tools/", {"tool": "recall", "at": "asking/work"}).content.decode()
    )


def test_the_page_says_what_is_wrong_beside_the_field(page, subtests):
    for query, words in [
        ({"tool": "fetch", "arguments": "{"}, "This is not JSON"),
        ({"tool": "fetch", "arguments": "[]"}, "Write an object"),
        ({"tool": "fetch", "arguments": '{"url": 1}'}, "do not fit"),
        ({"tool": "fetch", "arguments": "[" * 10_000}, "This is not JSON"),
        ({"tool": "<script>", "arguments": "{}"}, "Select a valid choice"),
        ({"tool": "fetch", "at": "no/where", "arguments": "{}"}, "Select a valid choice"),
    ]:
        with subtests.test(ascii(query)[:60]):
            answer = page.get("/tools/", query)
            assert (
                answer.status_code == 422
                and words in answer.content.decode()
                and "<script>" not in answer.content.decode()
            )
