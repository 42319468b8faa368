"""Language models: which is asked, one request to it, and how its answer ended."""

from runs.agents.model.client import HIDDEN, Listener, ModelRequest, Reply, ask
from runs.agents.model.endpoints import (
    ADDRESSES,
    ModelEndpoint,
    ModelServer,
    Price,
    check_address,
    configure,
    endpoint_of,
    name_of,
    server,
)
from runs.agents.model.failures import TOO_LONG, WORTH_RETRYING

__all__ = [
    "ADDRESSES",
    "HIDDEN",
    "TOO_LONG",
    "WORTH_RETRYING",
    "Listener",
    "ModelEndpoint",
    "ModelRequest",
    "ModelServer",
    "Price",
    "Reply",
    "ask",
    "check_address",
    "configure",
    "endpoint_of",
    "name_of",
    "server",
]
