"""Templates of `repo-tidy` as they ship: with a person at each step, and straight through."""

from __future__ import annotations

from typing import Any

from extensions.repo_tidy.steps import INPUT_SCHEMA
from runs.workflows import deliver

STEP_TEMPLATES: dict[str, dict[str, Any]] = {
    "tidy-planning": {"title": "Planning", "function": "repo_tidy.plan"},
    "tidy-execute": {"title": "Execute", "function": "repo_tidy.execute"},
    "tidy-review": {"title": "Review", "function": "repo_tidy.review"},
    "tidy-deliver": {"title": "Deliver", "function": "repo_tidy.deliver"},
}

PAUSING: list[dict[str, Any]] = [
    {
        "step_type": "planning",
        "step_template_slug": "tidy-planning",
        "pause_after": True,
        "pause_phase": "awaiting_plan_approval",
    },
    {
        "step_type": "execute",
        "step_template_slug": "tidy-execute",
        "pause_after": True,
        "pause_phase": "awaiting_implementation_review",
        "choices": [
            {
                "name": "skip_review",
                "label": "Approve and skip review",
                "to": "deliver",
                "approves": True,
            }
        ],
    },
    {
        "step_type": "review",
        "step_template_slug": "tidy-review",
        "pause_after": True,
        "pause_phase": "awaiting_review_decision",
        "revise_to": "execute",
    },
    {
        "step_type": "deliver",
        "step_template_slug": "tidy-deliver",
        "pause_after": False,
        "retry": deliver.RETRY,
    },
]

TEMPLATES: dict[str, dict[str, Any]] = {
    "repo-tidy": {
        "title": "Tidy a repository",
        "description": (
            "Plans what ruff finds in a Python repository, fixes what you approve, one commit a "
            "rule, and proves it. Offline."
        ),
        "steps": PAUSING,
        "input_schema": INPUT_SCHEMA,
    },
    "repo-tidy-quick": {
        "title": "Tidy a repository, without pauses",
        "description": "The same work from end to end; it asks only where it understands nothing "
        "of the "
        "request. "
        "A result that fails its own review is not delivered.",
        "steps": [
            {
                key: value
                for key, value in step.items()
                if key not in {"choices", "pause_phase", "revise_to"}
            }
            | {"pause_after": False}
            for step in PAUSING
        ],
        "input_schema": INPUT_SCHEMA,
    },
}
