"""Coding orders as they ship: two planners and a person at each step, or straight through.

Who writes the code is a setting.
"""

from __future__ import annotations

from typing import Any

from extensions.coding import steps
from runs.workflows import deliver

LOOPS = 500
"""Of one step in one run, all rounds together: an agent of ours has limits of its own per round."""
SUB_STEPS: list[dict[str, Any]] = [
    {
        "step_type": "planning",
        "name": "design",
        "step_template_slug": "planner-design",
        "queue": "agents",
        "max_loops": LOOPS,
    },
    {
        "step_type": "planning",
        "name": "risks",
        "step_template_slug": "planner-risks",
        "queue": "agents",
        "max_loops": LOOPS,
    },
]
DESIGN = "The design: the smallest change that does it well, and where it belongs in what there is."
RISKS = "What could break, for whom, and how each of that is tested before it does."
STEP_TEMPLATES: dict[str, dict[str, Any]] = {
    "simple-planning": {"title": "Planning", "function": "coding.plan"},
    "planner-design": {
        "title": "Plan the design",
        "function": "coding.plan",
        "config": {"focus": DESIGN},
    },
    "planner-risks": {
        "title": "Plan against the risks",
        "function": "coding.plan",
        "config": {"focus": RISKS},
    },
    "multi-agent-planning": {
        "title": "Planning",
        "function": "coding.plan_together",
        "sub_steps": SUB_STEPS,
    },
    "standard-planning": {"title": "Planning", "function": "coding.plan"},
    "simple-execute": {"title": "Execute", "function": "coding.execute"},
    "standard-execute": {"title": "Execute", "function": "coding.execute"},
    "standard-review": {"title": "Review", "function": "coding.review"},
    "deliver": {"title": "Deliver", "function": "deliver"},
}
"""Their configurations are those of the first version; the next ones are the operators' own."""
PAUSING: list[dict[str, Any]] = [
    {
        "step_type": "planning",
        "step_template_slug": "multi-agent-planning",
        "pause_after": True,
        "pause_phase": "awaiting_plan_approval",
        "queue": "agents",
        "max_loops": LOOPS,
    },
    {
        "step_type": "execute",
        "step_template_slug": "standard-execute",
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
        "queue": "agents",
        "max_loops": LOOPS,
    },
    {
        "step_type": "review",
        "step_template_slug": "standard-review",
        "pause_after": True,
        "pause_phase": "awaiting_review_decision",
        "revise_to": "execute",
        "queue": "agents",
        "max_loops": LOOPS,
    },
    {"step_type": "deliver", "step_template_slug": "deliver", "retry": deliver.RETRY},
]
TEMPLATES: dict[str, dict[str, Any]] = {
    "advanced-dev-workflow": {
        "title": "Change a repository, with review",
        "description": "Two agents plan apart from each other, one makes the change, one reviews "
        "it; you "
        "approve each. "
        "Needs a language model or a command line agent.",
        "steps": PAUSING,
        "input_schema": steps.INPUT_SCHEMA,
        "reducers": steps.REDUCERS,
    },
    "quick-fix-workflow": {
        "title": "Change a repository, without pauses",
        "description": (
            "One agent plans, one makes the change, and nobody is asked. Needs a language model "
            "or a command line agent."
        ),
        "steps": [
            {
                "step_type": "planning",
                "step_template_slug": "simple-planning",
                "queue": "agents",
                "max_loops": LOOPS,
            },
            {
                "step_type": "execute",
                "step_template_slug": "simple-execute",
                "queue": "agents",
                "max_loops": LOOPS,
            },
            PAUSING[-1],
        ],
        "input_schema": steps.INPUT_SCHEMA,
        "reducers": steps.REDUCERS,
    },
}
