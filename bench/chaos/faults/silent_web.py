"""Web hosts that vanish without closing their connections."""

from __future__ import annotations

from bench.chaos.faults.silence import WEB, Silence


class SilentWeb(Silence):
    """As `silence`, of web hosts alone: one falls silent inside a decision, the ledger, an order or
    a key, with its cable pulled where
    hosts can be network namespaces; a balancer sends everybody to another one.
    """


FAULT = SilentWeb("silent_web", tuple(WEB))
