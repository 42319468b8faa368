"""Which models there are to ask, and where: as templates name them, and what operators settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runs.agents.config import HISTORY, SCRIPTED
from runs.security import ssrf
from runs.workflows.base import ConfigInvalid

ANTHROPIC = "anthropic"
ADDRESSES = {"openai": "https://api.openai.com/v1", ANTHROPIC: "https://api.anthropic.com"}
"""Provider → its own endpoint. Always named: else its library takes one from the environment."""
ALLOWED_BY = "WAYSTATION_MODEL_ALLOW"


@dataclass(frozen=True, kw_only=True)
class ModelEndpoint:
    """A model, and where it is asked."""

    model: str
    """`provider:name`, or `scripted`."""
    base_url: str = ""
    """ "" is the provider's own."""
    credential: str = ""
    """Name of the key; "" for none."""

    @property
    def provider(self) -> str:
        return self.model.partition(":")[0]

    @property
    def address(self) -> str:
        """Where requests, and the key with them, are sent."""
        return self.base_url or ADDRESSES.get(self.provider, "")


@dataclass(frozen=True, kw_only=True)
class Price:
    """US dollars per million tokens."""

    input: float
    output: float


@dataclass(frozen=True, kw_only=True)
class ModelServer:
    """What operators settled for all agents (`configure`)."""

    default: ModelEndpoint = ModelEndpoint(model=SCRIPTED)
    prices: Mapping[str, Price] = field(default_factory=dict)
    """By `provider:name`; others are priced by genai-prices, which comes with pydantic-ai."""
    silence: float = 60.0
    """Seconds that an endpoint may be silent in the middle of an answer."""
    history: int = HISTORY
    """About how many tokens of a conversation are given to a model whose template does not say."""
    allow: Sequence[str] = ()
    """Hosts, addresses and networks inside that endpoints named by templates may be at
    (`runs.security.ssrf`).
    """


_server = ModelServer()


def configure(server: ModelServer) -> None:
    """From now on agents whose template names no model ask this one."""
    global _server
    _server = server


def server() -> ModelServer:
    """What operators settled."""
    return _server


def name_of(model: str) -> str:
    """Name the model that a template asks: the server's own where the template names none."""
    return model or _server.default.model


def check_address(base_url: str) -> None:
    """Refuse an endpoint at an address inside, where that is plain without looking its name up.

    Raises ConfigInvalid.
    """
    try:
        if base_url and base_url != _server.default.base_url:
            ssrf.check_literal(base_url, allow=_server.allow, setting=ALLOWED_BY)
    except ssrf.AddressRefused as error:
        raise ConfigInvalid.of("base_url", str(error)) from error


def endpoint_of(model: str, base_url: str, credential: str) -> ModelEndpoint:
    """The endpoint that a template names; the server's own where it names none."""
    return (
        ModelEndpoint(model=model, base_url=base_url, credential=credential)
        if model
        else _server.default
    )
