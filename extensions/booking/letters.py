"""What `smart-booking` writes to a supplier where operators have written nothing else."""

from __future__ import annotations

from runs.workflows import Letter

_ABOUT = ("supplier", "invoice", "issued")
LETTERS = {
    "request_subject": Letter(
        title="Missing data: subject",
        usual="Missing on your {{invoice}}: {{names}}",
        places=(*_ABOUT, "names"),
        line=True,
    ),
    "request": Letter(
        title="Missing data: text",
        usual="Dear {{supplier}},\n\n{{again}}\n\nwe cannot book your {{invoice}} of {{issued}} "
        "yet:\n"
        "\n{{missing}}\n\n"
        "Please send what is missing, or a corrected invoice.",
        places=(*_ABOUT, "again", "names", "missing"),
        needs="missing",
    ),
    "lines_subject": Letter(
        title="Lines sent back: subject",
        usual="A question about {{count}} of your {{invoice}}",
        places=(*_ABOUT, "count"),
        line=True,
    ),
    "lines": Letter(
        title="Lines sent back: text",
        usual="Dear {{supplier}},\n\nwe cannot book your {{invoice}} of {{issued}} in full. Please "
        "say "
        "what holds of {{count}}:"
        "\n\n{{lines}}",
        places=(*_ABOUT, "count", "lines"),
        needs="lines",
    ),
}
"""By their names in the configuration."""
