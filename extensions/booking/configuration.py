"""What the configurations of these steps hold: the forms of their step templates."""

from __future__ import annotations

from typing import Any

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
