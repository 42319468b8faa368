"""docs/reference/limits.md says what runs/limits.py has, and each limit has a test that it acts."""

from __future__ import annotations

import re
from pathlib import Path

from django.conf import settings

from runs import limits

ROOT = Path(__file__).parents[3]
ROW = re.compile(r"^\| ([A-Z_]+) \| (\d+) \| (yes|`API_RATE`|) ?\|", re.MULTILINE)
ACTS = {
    "tests/hitl/http/test_incoming.py": [
        "BODY_BYTES",
        "ORDER_BYTES",
        "EVENT_BYTES",
        "IMPORT_PARTS",
        "BODY_PARTS",
        "BODY_DEPTH",
        "NUMBER_DIGITS",
    ],
    "tests/hitl/api/test_export.py": ["IMPORT_BYTES"],
    "tests/extensions/mail_replies/test_mail_replies.py": ["MAIL_BYTES"],
    "tests/hitl/rendering/test_word_diff.py": ["DIFF_WORK"],
    "tests/hitl/rendering/test_drawn_patches.py": ["COLOUR_WORK", "PATCH_WORDS"],
    "tests/hitl/decisions/test_answers_with_files.py": ["FILE_BYTES", "UPLOADS"],
    "tests/hitl/rendering/test_markdown_work.py": ["MARKDOWN_WORK", "MARKDOWN_PAGE"],
    "tests/runs/workflows/test_schemas.py": [
        "SCHEMA_BYTES",
        "SCHEMA_DEPTH",
        "SCHEMA_PARTS",
        "ANSWER_BYTES",
        "UNIQUE_ITEMS",
        "VALIDATION_WORK",
    ],
    "tests/hitl/live/test_streams.py": ["PERSON_STREAMS", "PROCESS_STREAMS"],
    "tests/hitl/wait_gate/test_requests.py": ["TOKEN_WAITS"],
    "tests/extensions/langgraph/api/test_assistants.py": [
        "ASSISTANTS",
        "ASSISTANT_VERSIONS",
        "ASSISTANT_BYTES",
    ],
    "tests/hitl/api/test_schedules.py": ["SCHEDULES", "START_BYTES"],
    "tests/extensions/langgraph/api/test_store.py": [
        "STORE_ITEMS",
        "STORE_BYTES",
        "STORE_VALUE_BYTES",
        "STORE_DEPTH",
    ],
    "tests/runs/engine/children/test_children_in_turn.py": ["GATHER_CHILDREN"],
    "tests/hitl/find/test_saved_views.py": ["SAVED_VIEWS"],
    "tests/hitl/outbound/test_quotas.py": ["MESSAGES_PER_HOUR", "MESSAGES_PER_DAY"],
    "tests/hitl/outbound/test_external_reviewers.py": ["OUTSIDE_CHARACTERS"],
    "tests/hitl/http/test_logins.py": [
        *(
            "LOGIN_FAILURES",
            "LOGIN_ADDRESS_FAILURES",
            "LOGIN_ACCOUNT_FAILURES",
            "LOGIN_MINUTES",
            "USER_RATE",
            "ANONYMOUS_RATE",
        ),
    ],
}
"""Where it is tested that a limit acts."""
SAID = {
    "SCHEMA_BYTES": "MAX_BYTES", "SCHEMA_DEPTH": "nested(", "SCHEMA_PARTS": "doubling(",
    "ANSWER_BYTES": "MAX_ANSWER",
    "BODY_DEPTH": "nested", "NUMBER_DIGITS": "too large",
}  # fmt: skip
"""How a test calls it that does not by its name."""


def test_the_page_has_every_limit_with_its_default():
    told = {
        name: (int(default), variable)
        for name, default, variable in ROW.findall((ROOT / "docs/reference/limits.md").read_text())
    }
    variables = {
        name: "`API_RATE`" if name == "USER_RATE" else "yes" if name in limits.SETTINGS else ""
        for name in limits.table()
    }
    assert told == {name: (default, variables[name]) for name, default in limits.table().items()}


def test_operators_can_change_those_that_the_page_says():
    fixed = [
        name
        for name in limits.SETTINGS
        if not isinstance(getattr(settings, f"WAYSTATION_{name}", None), int)
    ]
    assert fixed == []


def test_each_limit_has_a_test_that_it_acts():
    assert sorted(name for names in ACTS.values() for name in names) == sorted(limits.table())
    for path, names in ACTS.items():
        text = (ROOT / path).read_text()
        assert [name for name in names if SAID.get(name, name) not in text] == []
