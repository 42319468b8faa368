"""The templates that come with Waystation."""

from __future__ import annotations

from typing import Any

from runs import definitions
from runs.models import StepTemplate, Template
from runs.workflows import booking, coding, repo_tidy

STEP_TEMPLATES = {
    "tidy-planning": ("Planning", "repo_tidy.plan"),
    "tidy-execute": ("Execute", "repo_tidy.execute"),
    "tidy-review": ("Review", "repo_tidy.review"),
    "tidy-deliver": ("Deliver", "repo_tidy.deliver"),
    "simple-planning": ("Planning", "coding.plan"),
    "planner-design": ("Plan the design", "coding.plan"),
    "planner-risks": ("Plan against the risks", "coding.plan"),
    "multi-agent-planning": ("Planning", "coding.plan_together"),
    "simple-execute": ("Execute", "coding.execute"),
    "standard-execute": ("Execute", "coding.execute"),
    "standard-review": ("Review", "coding.review"),
    "coding-deliver": ("Deliver", "coding.deliver"),
    "booking-extract": ("Extract", "booking.extract"),
    "booking-validate": ("Validate", "booking.validate"),
    "booking-enrich": ("Enrich", "booking.enrich"),
    "booking-decide": ("Decide", "booking.decide"),
    "booking-post": ("Post", "booking.post"),
}

CONFIGS: dict[str, dict[str, Any]] = {
    "planner-design": {"focus": "The design: the smallest change that does it well, and where it belongs in what there is."},
    "planner-risks": {"focus": "What could break, for whom, and how each of that is tested before it does."},
}
SUB_STEPS: dict[str, list[dict[str, Any]]] = {
    "multi-agent-planning": [
        {"step_type": "planning", "name": "design", "step_template_slug": "planner-design", "queue": "agents"},
        {"step_type": "planning", "name": "risks", "step_template_slug": "planner-risks", "queue": "agents"},
    ],
}
CODING: list[dict[str, Any]] = [
    {
        "step_type": "planning",
        "step_template_slug": "multi-agent-planning",
        "pause_after": True,
        "pause_phase": "awaiting_plan_approval",
        "queue": "agents",
    },
    {
        "step_type": "execute",
        "step_template_slug": "standard-execute",
        "pause_after": True,
        "pause_phase": "awaiting_implementation_review",
        "choices": [{"name": "skip_review", "label": "Approve and skip review", "to": "deliver"}],
        "queue": "agents",
    },
    {
        "step_type": "review",
        "step_template_slug": "standard-review",
        "pause_after": True,
        "pause_phase": "awaiting_review_decision",
        "revise_to": "execute",
        "queue": "agents",
    },
    {"step_type": "deliver", "step_template_slug": "coding-deliver", "retry": {"attempts": 5, "base": 5, "errors": ["push_rejected"]}},
]

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
    {"step_type": "deliver", "step_template_slug": "tidy-deliver", "pause_after": False},
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
        "description": "The same work from end to end, without asking. A result that fails its own review is not delivered.",
        "steps": [
            {key: value for key, value in step.items() if key not in {"choices", "pause_phase", "revise_to"}} | {"pause_after": False}
            for step in PAUSING
        ],
        "input_schema": repo_tidy.INPUT_SCHEMA,
    },
    "advanced-dev-workflow": {
        "title": "Change a repository, with review",
        "description": "Two agents plan apart from each other, one makes the change, one reviews it; you approve each. "
        "Needs a language model or a command line agent.",
        "steps": CODING,
        "input_schema": coding.INPUT_SCHEMA,
        "reducers": coding.REDUCERS,
    },
    "quick-fix-workflow": {
        "title": "Change a repository, without pauses",
        "description": "One agent plans, one makes the change, and nobody is asked. Needs a language model or a command line agent.",
        "steps": [
            {"step_type": "planning", "step_template_slug": "simple-planning", "queue": "agents"},
            {"step_type": "execute", "step_template_slug": "simple-execute", "queue": "agents"},
            CODING[-1],
        ],
        "input_schema": coding.INPUT_SCHEMA,
        "reducers": coding.REDUCERS,
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
}


def load() -> list[Template]:
    """Write what is shipped; what is there already in the same form stays as it is, and a version that a person edited stays current."""
    for slug, (title, function) in STEP_TEMPLATES.items():
        last = StepTemplate.objects.filter(slug=slug).order_by("-version").first()
        if last is None or last.function != function:  # else its title and configuration are the operator's
            sub_steps = SUB_STEPS.get(slug, [])
            definitions.edit_step_template(slug, title=title, function=function, config=CONFIGS.get(slug, {}), sub_steps=sub_steps)
    return [_load(slug, fields) for slug, fields in TEMPLATES.items()]


def _load(slug: str, fields: dict[str, Any]) -> Template:
    last = Template.objects.filter(slug=slug).order_by("-version").first()
    if last is not None and last.created_by_id is not None:
        return last
    return definitions.edit_template(slug, **fields)
