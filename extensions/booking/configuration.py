"""What the configurations of these steps hold: the forms of their step templates, and what
`smart-booking` writes to a supplier where operators have written nothing else.
"""

from __future__ import annotations

from typing import Any

from runs.workflows import Letter

NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
FOLDER = {
    "type": "string",
    "title": "Folder of the books",
    "description": "Below the shared folder; booking where it is left empty.",
}
BOOKS: dict[str, Any] = {"type": "object", "properties": {"books": FOLDER}}
POSTING: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ledger": {
            "enum": ["csv", "rest"],
            "description": "rest: posted to WAYSTATION_LEDGER_URL first.",
        },
        "books": FOLDER,
    },
}
ACCOUNT = {"type": "string", "maxLength": 20}
DECIDING: dict[str, Any] = {
    "type": "object",
    "properties": {
        "threshold": {
            "type": ["number", "string"],
            "title": "Book by itself from this confidence on",
            "description": "From 0 to 1; 0.90 where it is left empty.",
        },
        "limit": {
            "type": ["number", "string"],
            "title": "Ask from this amount on",
            "description": "Gross, in the currency of the books; 10000 where it is left empty.",
        },
        "currency": {"type": "string", "maxLength": 3},
        "vat_account": {**ACCOUNT, "title": "VAT account"},
        "payables_account": ACCOUNT,
        "one_time": {**ACCOUNT, "title": "Supplier number of one-time suppliers"},
        "texts": {"type": "object", "description": "Texts to the supplier, by name."},
        "books": FOLDER,
    },
}
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
