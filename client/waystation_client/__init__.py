"""The client of Waystation: ask people, wait for their answers, answer, order work, follow it."""

from waystation_client.aio import AsyncWaystation
from waystation_client.errors import (
    Conflict,
    Denied,
    Forbidden,
    Invalid,
    NotAnswered,
    NotFound,
    NotWaystation,
    Refused,
    TimedOut,
    TooMany,
    Unauthorized,
    Unavailable,
    Unreachable,
    WaystationError,
    WebhookInvalid,
)
from waystation_client.questions import Answer, Question
from waystation_client.stream import Event
from waystation_client.sync import Waystation
from waystation_client.webhooks import Webhook, verify_webhook

__all__ = [
    "Answer",
    "AsyncWaystation",
    "Conflict",
    "Denied",
    "Event",
    "Forbidden",
    "Invalid",
    "NotAnswered",
    "NotFound",
    "NotWaystation",
    "Question",
    "Refused",
    "TimedOut",
    "TooMany",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "Waystation",
    "WaystationError",
    "Webhook",
    "WebhookInvalid",
    "verify_webhook",
]
