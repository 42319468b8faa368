"""The templates that come with Waystation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runs import definitions
from runs.agents import chat
from runs.models import StepTemplate, Template
from runs.workflows import booking, coding_templates, deliver, letters, repo_tidy

STEP_TEMPLATES = {
    "tidy-planning": ("Planning", "repo_tidy.plan"),
    "tidy-execute": ("Execute", "repo_tidy.execute"),
    "tidy-review": ("Review", "repo_tidy.review"),
    "tidy-deliver": ("Deliver", "repo_tidy.deliver"),
    "deliver": ("Deliver", "deliver"),
    "booking-extract": ("Extract", "booking.extract"),
    "booking-validate": ("Validate", "booking.validate"),
    "booking-enrich": ("Enrich", "booking.enrich"),
    "booking-decide": ("Decide", "booking.decide"),
    "booking-post": ("Post", "booking.post"),
    "chat-agent": ("Agent", "agent"),
    **coding_templates.STEP_TEMPLATES,
}
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "chat-agent": chat.CONFIG,
    "booking-decide": {"texts": {name: letter.usual for name, letter in letters.LETTERS.items()}},
    **coding_templates.CONFIGS,
}
"""Configurations of step templates at their first version; the next ones are the operators' own."""

PAUSING: list[dict[str, Any]] = [
    {"step_type": "planning", "step_template_slug": "tidy-planning", "pause_after": True, "pause_phase": "awaiting_plan_approval"},
    {
        "step_type": "execute",
        "step_template_slug": "tidy-execute",
        "pause_after": True,
        "pause_phase": "awaiting_implementation_review",
        "choices": [{"name": "skip_review", "label": "Approve and skip review", "to": "deliver"}],
    },
    {
        "step_type": "review",
        "step_template_slug": "tidy-review",
        "pause_after": True,
        "pause_phase": "awaiting_review_decision",
        "revise_to": "execute",
    },
    {"step_type": "deliver", "step_template_slug": "tidy-deliver", "pause_after": False, "retry": deliver.RETRY},
]

TEMPLATES: dict[str, dict[str, Any]] = {
    "repo-tidy": {
        "title": "Tidy a repository",
        "description": "Plans what ruff finds in a Python repository, fixes what you approve, one commit a rule, and proves it. Offline.",
        "steps": PAUSING,
        "input_schema": repo_tidy.INPUT_SCHEMA,
    },
    "repo-tidy-quick": {
        "title": "Tidy a repository, without pauses",
        "description": "The same work from end to end; it asks only where it understands nothing of the request. "
        "A result that fails its own review is not delivered.",
        "steps": [
            {key: value for key, value in step.items() if key not in {"choices", "pause_phase", "revise_to"}} | {"pause_after": False}
            for step in PAUSING
        ],
        "input_schema": repo_tidy.INPUT_SCHEMA,
    },
    "smart-booking": {
        "title": "Book an invoice",
        "description": "Reads an EN 16931 e-invoice, checks it, and books it by itself when it is sure. "
        "Else it asks: the supplier for what is missing, a bookkeeper about what is doubtful. Offline.",
        "steps": [
            *({"step_type": name, "step_template_slug": f"booking-{name}"} for name in ("extract", "validate", "enrich", "decide")),
            {
                "step_type": "post",
                "step_template_slug": "booking-post",
                "retry": {"attempts": 8, "base": 5, "cap": 600, "errors": ["ledger_away", "ledger_busy"]},
            },
        ],
        "input_schema": booking.INPUT_SCHEMA,
        "needs_repository": False,
    },
    "chat-agent": chat.TEMPLATE,
    **coding_templates.TEMPLATES,
}


def load() -> list[Template]:
    """Write what is shipped; what is there already in the same form stays as it is, and a version that a person edited stays current."""
    for slug, (title, function) in STEP_TEMPLATES.items():
        last = StepTemplate.objects.filter(slug=slug).order_by("-version").first()
        if last is None or last.function != function:  # else its title and configuration are the operator's
            sub_steps = coding_templates.SUB_STEPS.get(slug, [])
            definitions.edit_step_template(slug, title=title, function=function, config=CONFIGS.get(slug, {}), sub_steps=sub_steps)
    return [_load(slug, fields) for slug, fields in TEMPLATES.items()]


def _load(slug: str, fields: dict[str, Any]) -> Template:
    last = Template.objects.filter(slug=slug).order_by("-version").first()
    if last is not None and last.created_by_id is not None:
        return last
    return definitions.edit_template(slug, **fields)
