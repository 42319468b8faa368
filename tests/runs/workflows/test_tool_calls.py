"""Tool calls that wait for a person: what is asked, what may be answered, and what a step may then
make.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.workflows import schemas, tool_calls
from runs.workflows.tool_calls import Call

MAIL = Call(
    id="c1",
    tool="send_mail",
    arguments={"to": ["ana@example.org"], "subject": "Hi", "body": {"text": "x", "html": True}},
    editable=["/subject", "/body/text"],
)
DROP = Call(id="c2", tool="drop_table", arguments={"name": "orders"}, risk="high")
KEPT = tool_calls.kept([MAIL, DROP])


def payload(**answers):
    return {"calls": answers}


def edited(**changes):
    return {"decision": "edit", "arguments": {**MAIL.arguments, **changes}}


OK = {"decision": "approve"}
NO = {"decision": "reject", "reason": "too risky"}


@pytest.mark.parametrize(
    ("answer", "paths"),
    [
        (payload(), {"calls.c1", "calls.c2"}),
        (payload(c1=OK), {"calls.c2"}),
        (payload(c1=OK, c2=OK, c3=OK), {"calls"}),
        (
            payload(c1=OK, c2={"decision": "edit", "arguments": {}}),
            {"calls.c2", "calls.c2.decision"},
        ),
        (payload(c1={"decision": "maybe"}, c2=OK), {"calls.c1.decision"}),
        ({"calls": [OK, OK]}, {"calls"}),
    ],
)
def test_an_answer_decides_every_call_and_no_other(answer, paths):
    """S2-26, F5."""
    assert (
        set(
            schemas.validate_resume_payload(schemas.check_inputs(tool_calls.required(KEPT)), answer)
        )
        == paths
    )


@pytest.mark.parametrize(
    ("answer", "path", "words"),
    [
        ({"decision": "reject"}, "c1.reason", "Say why"),
        ({"decision": "reject", "reason": "  "}, "c1.reason", "Say why"),
        ({"decision": "edit"}, "c1.arguments", "Say what"),
        (edited(to=["eve@example.org"]), "c1.arguments", "/to/0 may not be changed"),
        (edited(to=[]), "c1.arguments", "/to may not be changed"),
        (edited(bcc="eve@example.org"), "c1.arguments", "/bcc may not be changed"),
        (edited(body={"text": "y", "html": 1}), "c1.arguments", "/body/html may not be changed"),
        (
            edited(body={"html": True, "text": "y", "x": 1}),
            "c1.arguments",
            "/body/x may not be changed",
        ),
        (edited(subjects="Hi"), "c1.arguments", "/subjects may not be changed"),
        ({"decision": "edit", "arguments": {}}, "c1.arguments", "may not be changed"),
        (
            {"decision": "approve", "arguments": {**MAIL.arguments, "subject": "y"}},
            "c1.arguments",
            "keeps its arguments",
        ),
    ],
)
def test_what_is_outside_the_allow_list_is_refused(answer, path, words):
    """S2-26: edits within the allowed paths only, a rejection with its reason."""
    assert words in tool_calls.faults(KEPT, payload(c1=answer, c2=OK))[f"calls.{path}"][0]


def told(step, decided):
    """A step's context, of which nothing but this is needed."""
    return SimpleNamespace(decided_calls=lambda of: decided if of == step else {})


def test_what_was_decided_is_all_that_a_step_may_make():
    """F5: two approved, one of them with changes; the rejected one is in no list."""
    answer = payload(c1=edited(subject="Hello", body={"text": "y", "html": True}), c2=NO)
    assert not tool_calls.faults(KEPT, answer)
    context = told("act", tool_calls.decided(KEPT, answer))
    (call,) = tool_calls.approved(context, "act")
    assert (call.id, call.tool, call.arguments["subject"], call.edited) == (
        "c1",
        "send_mail",
        "Hello",
        True,
    )
    assert tool_calls.rejected(context, "act") == {"c2": "too risky"}
    assert tool_calls.approved(context, "other") == []


def test_an_approval_is_bound_to_the_arguments_that_were_shown():
    """F5, F16: another call under the same id was approved by nobody."""
    context = told("act", tool_calls.decided(KEPT, payload(c1=edited(subject="Hello"), c2=OK)))
    assert tool_calls.all_decided(context, "act", [MAIL, DROP])
    assert [call.id for call in tool_calls.approved(context, "act", [MAIL, DROP])] == ["c1", "c2"]
    for other in (
        Call(id="c2", tool="drop_table", arguments={"name": "users"}),
        Call(id="c2", tool="x", arguments={"name": "orders"}),
    ):
        assert not tool_calls.all_decided(context, "act", [other])
        assert tool_calls.approved(context, "act", [other]) == []


def test_an_edit_that_changes_nothing_is_an_approval():
    assert tool_calls.decided(KEPT, payload(c1=edited(), c2=OK))["c1"]["decision"] == "approve"


def test_edited_arguments_fit_the_tools_own_schema():
    schema = {"type": "object", "properties": {"subject": {"type": "string", "maxLength": 3}}}
    kept = tool_calls.kept(
        [Call(id="c1", tool="t", arguments={"subject": "a"}, editable=[""], schema=schema)]
    )
    found = tool_calls.faults(
        kept, payload(c1={"decision": "edit", "arguments": {"subject": "long"}})
    )
    assert found == {"calls.c1.arguments": ["subject: May have up to 3 characters."]}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab/~", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.text("ab/~", max_size=2), VALUES, max_size=3)


@given(ARGUMENTS, ARGUMENTS, st.data())
def test_whatever_is_edited_outside_of_the_allowed_places_is_found(before, after, data):
    """S2-26: nothing differs outside of the pointers exactly where the answer is taken."""
    changed = list(tool_calls._changes(before, after))
    assert (changed == []) == (
        json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True)
    )
    allowed = data.draw(st.lists(st.sampled_from(changed), unique=True)) if changed else []
    kept = tool_calls.kept(
        [Call(id="c", tool="t", arguments=before, editable=allowed or ["/none"])]
    )
    refused = tool_calls.faults(kept, payload(c={"decision": "edit", "arguments": after}))
    outside = [
        path
        for path in changed
        if not any(path == one or path.startswith(f"{one}/") for one in allowed)
    ]
    assert bool(refused) == bool(outside)


@pytest.mark.parametrize(
    "bad",
    [
        [Call(id="a", tool="t"), Call(id="a", tool="u")],
        [Call(id="", tool="t")],
        [Call(id="a\n", tool="t")],
        [Call(id="a" * 129, tool="t")],
        [Call(id="a", tool="")],
        [Call(id="a", tool="t", editable=["subject"])],
        [Call(id=str(number), tool="t") for number in range(51)],
    ],
)
def test_calls_that_cannot_be_told_apart_are_not_asked_about(bad):
    """F5: ids are unique."""
    with pytest.raises(tool_calls.CallsRefused):
        tool_calls.kept(bad)
