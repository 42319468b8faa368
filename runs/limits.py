"""What one request, one row or one person may cost: the only place that says it.
docs/reference/limits.md says the same for people.

Plain numbers, so that every layer and the workflows can read them. Those in SETTINGS are defaults:
operators change them by the environment variable `WAYSTATION_<NAME>`, and code reads
`settings.WAYSTATION_<NAME>`.
"""

from __future__ import annotations

BODY_BYTES = 2_500_000
"""Body of a request, unless its address says otherwise."""
ORDER_BYTES = 8_000_000
"""Body of a request that orders work or answers a question: a file of 5 MB in base64, and what
stands around it.
"""
FILE_BYTES = 5_000_000
"""A file that comes with an order or an answer."""
UPLOADS = 20
"""Files that one person has uploaded and not sent yet; the oldest go first."""
EVENT_BYTES = 1_048_576
"""Body of a request that opens a wait, or answers one from outside."""
MAIL_BYTES = 2_000_000
"""A mail that replies to a question, with all that is attached to it."""
IMPORT_BYTES = 20_000_000
"""Document that a thread is imported from over REST."""
IMPORT_PARTS = 1_000_000
"""Values in an imported document, counted before it is read."""
BODY_PARTS = 200_000
"""Values in the JSON body of any other request, counted before it is read."""
BODY_DEPTH = 200
"""Lists and objects inside one another in the JSON of a request."""
NUMBER_DIGITS = 300
"""Digits of a whole number in the JSON of a request: any such number has a counterpart among the
floats.
"""

DIFF_WORK = 2_000_000
"""Pairs of words and lines that one comparison of two texts looks at; what is left then is shown as
taken out and put in.
"""
PATCH_WORDS = 200_000
"""The same of the lines of a patch that one request draws."""
COLOUR_WORK = 40_000
"""Characters of code that one request reads for their colours."""
MARKDOWN_WORK = 100_000
"""Work of rendering one text in Markdown: each block, cell, mark, line and piece of text, each look
for the end of a link, and each ten characters; a text that takes more is shown as it is written.
"""
MARKDOWN_PAGE = 300_000
"""The same of all texts of one page together; those after it are shown as they are written."""
SCHEMA_BYTES = 64 * 1024
"""Canonical text of a JSON Schema that somebody hands in."""
SCHEMA_DEPTH = 24
"""Schemas inside schemas."""
SCHEMA_PARTS = 2_000
"""Schemas in a schema, once its references are written out."""
ANSWER_BYTES = 512 * 1024
"""Canonical text of an answer."""
UNIQUE_ITEMS = 1_000
"""Items of a list for which `uniqueItems` and `contains` may be asked."""
VALIDATION_WORK = 200_000
"""Steps of one validation: each look of a keyword at a value or at one of its parts, and each
hundred characters read or said.
"""

GATHER_CHILDREN = 100_000
"""Child runs of one `Gather`, started and waiting."""
SCHEDULES = 100
"""Schedules that one person may have."""
SAVED_VIEWS = 100
"""Views of lists that one person may keep."""
ASSISTANTS = 100
"""Saved configurations of templates that one person keeps for LangGraph's clients."""
ASSISTANT_VERSIONS = 50
"""Versions that are kept of one; the oldest go first, never the one that counts."""
ASSISTANT_BYTES = 64 * 1024
"""Canonical text of the metadata of one."""
START_BYTES = 64 * 1024
"""Canonical text of the input that a schedule, or an inbound start, holds."""
STORE_ITEMS = 10_000
"""Items that one account keeps in the store of LangGraph's clients."""
STORE_BYTES = 10_000_000
"""Canonical text of their values together, which is what a search with a filter reads at most."""
STORE_VALUE_BYTES = 256 * 1024
"""Canonical text of one of them."""
STORE_DEPTH = 10
"""Labels of a namespace there."""

PERSON_STREAMS = 100
"""Server-sent streams and sockets that one person may have open in one server process."""
PROCESS_STREAMS = 5_000
"""Server-sent streams and sockets that one server process has open."""

TOKEN_WAITS = 100
"""Open questions that one token of an agent may have."""

MESSAGES_PER_HOUR = 200
"""Messages that one person may have sent to people of their choice in an hour."""
MESSAGES_PER_DAY = 1_000
"""The same in 24 hours."""
OUTSIDE_CHARACTERS = 4_000
"""Characters of a question's text in a mail to somebody without an account."""

LOGIN_FAILURES = 10
"""Wrong passwords for one account from one address, after which that pair waits."""
LOGIN_ADDRESS_FAILURES = 50
"""Wrong passwords from one address, whatever the account, after which the address waits."""
LOGIN_ACCOUNT_FAILURES = 200
"""Wrong passwords for one account from anywhere, after which addresses that it never logged in from
wait.
"""
LOGIN_MINUTES = 15
"""How long they wait, and in which time failures are counted."""
USER_RATE = 3_000
"""REST requests of one person in a minute."""
ANONYMOUS_RATE = 60
"""REST requests in a minute from one address that come without credentials, or with wrong ones."""

SETTINGS = frozenset(
    {
        "BODY_BYTES", "ORDER_BYTES", "IMPORT_BYTES", "PERSON_STREAMS", "PROCESS_STREAMS",
        "SCHEDULES", "STORE_ITEMS", "STORE_BYTES", "TOKEN_WAITS", "MESSAGES_PER_HOUR",
        "MESSAGES_PER_DAY", "OUTSIDE_CHARACTERS", "LOGIN_FAILURES", "LOGIN_ADDRESS_FAILURES",
        "LOGIN_ACCOUNT_FAILURES", "LOGIN_MINUTES",
        "USER_RATE", "ANONYMOUS_RATE",
    }
)  # fmt: skip
"""Those that operators may change."""


def table() -> dict[str, int]:
    """All limits by name."""
    return {
        name: value
        for name, value in globals().items()
        if name.isupper() and isinstance(value, int)
    }
