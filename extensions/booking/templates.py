"""The template of `smart-booking` as it ships."""

from __future__ import annotations

from typing import Any

from extensions.booking.configuration import LETTERS
from extensions.booking.steps import INPUT_SCHEMA

STEP_TEMPLATES: dict[str, dict[str, Any]] = {
    f"booking-{name}": {"title": name.capitalize(), "function": f"booking.{name}"}
    for name in ("extract", "validate", "enrich", "decide", "post")
}
STEP_TEMPLATES["booking-decide"]["config"] = {
    "texts": {name: letter.usual for name, letter in LETTERS.items()}
}
TEMPLATES: dict[str, dict[str, Any]] = {
    "smart-booking": {
        "title": "Book an invoice",
        "description": "Reads an EN 16931 e-invoice, checks it, and books it by itself when it is "
        "sure. "
        "Else it asks: the supplier for what is missing, a bookkeeper about what is doubtful. "
        "Offline.",
        "steps": [
            *(
                {"step_type": name, "step_template_slug": f"booking-{name}"}
                for name in ("extract", "validate", "enrich")
            ),
            {
                "step_type": "decide",
                "step_template_slug": "booking-decide",
                "may_pass": "Nothing is in doubt, and the confidence is not below the threshold.",
            },
            {
                "step_type": "post",
                "step_template_slug": "booking-post",
                "retry": {
                    "attempts": 8,
                    "base": 5,
                    "cap": 600,
                    "errors": ["ledger_away", "ledger_busy"],
                },
            },
        ],
        "input_schema": INPUT_SCHEMA,
        "needs_repository": False,
    },
}
