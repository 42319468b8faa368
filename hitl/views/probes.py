"""Addresses for machines that watch this server: `/livez`, `/readyz`, `/metrics`.

The first two need no login; the third needs a token or an allowed address. All are answered before
sessions, host names and rate limits are looked at: a load balancer calls a server by its address,
and asks while the database is away.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Callable, Iterator
from typing import Any

from django.conf import settings
from django.db import connection
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from hitl.http import clients, problems
from hitl.live import hub
from hitl.operations import health, metrics
from runs.models import installation


@require_safe
@never_cache
def livez(request: HttpRequest) -> HttpResponse:
    """Say that this process answers. The database is not asked, so that a server is not restarted
    while the database is away.
    """
    return JsonResponse({"live": True})


@require_safe
@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """Say how each part is; 503 where one is not well. `?parts=database,redis` asks for some."""
    asked = [name for name in request.GET.get("parts", "").split(",") if name] or health.PARTS
    if unknown := set(asked) - set(health.PARTS):
        return problems.response(
            400,
            "unknown_part",
            f"There is no part {sorted(unknown)[0][:40]!r}: use {', '.join(health.PARTS)}.",
        )
    parts = health.parts(dict.fromkeys(asked))
    ready = all(part.ok for part in parts)
    answer = {
        "ready": ready,
        "version": installation.version(),
        "commit": installation.commit(),
        "parts": {part.name: {"ok": part.ok, "words": part.words} for part in parts},
    }
    return JsonResponse(answer, status=200 if ready else 503)


def may_scrape(request: HttpRequest) -> bool:
    """Whether the caller sends WAYSTATION_METRICS_TOKEN, or has an address of
    WAYSTATION_METRICS_ALLOW. Without either setting nobody may scrape.
    """
    kind, _, given = request.headers.get("Authorization", "").partition(" ")
    token: str = settings.WAYSTATION_METRICS_TOKEN
    if token and kind.lower() == "bearer" and hmac.compare_digest(given.encode(), token.encode()):
        return True
    # an IPv6 client is known by its network of 64 bits
    address = ipaddress.ip_address(clients.address_of(request))
    return any(address in network for network in settings.WAYSTATION_METRICS_ALLOW)


@require_safe
@never_cache
def scrape(request: HttpRequest) -> HttpResponse:
    """Answer with metrics; 404 for callers who may not scrape, 503 if the database is too slow."""
    if not may_scrape(request):
        raise Http404
    families = metrics.families()
    if families is None:
        return HttpResponse(
            "The database does not give the numbers in time.\n",
            status=503,
            content_type="text/plain",
        )
    registry = CollectorRegistry()
    registry.register(_Families([*families, *metrics.broken_invariants(), *_of_this_process()]))
    ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(registry), content_type=content_type)


class _Families(Collector):
    """Hands over metrics that were read before."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families


def _of_this_process() -> Iterator[Metric]:
    """Yield the metrics that differ from server to server."""
    watching = GaugeMetricFamily(
        "waystation_watchers", "Sockets and streams open at this server.", labels=["of"]
    )
    for kind, count in hub.watchers().items():
        watching.add_metric([kind], count)
    yield watching
    pool: Any = getattr(connection, "pool", None)  # SQLite has none, whose numbers are 0
    stats = {} if pool is None else pool.get_stats()
    sizes = GaugeMetricFamily(
        "waystation_database_pool", "Connections of this server's pool.", labels=["state"]
    )
    for state, name in (
        ("most", "pool_max"),
        ("open", "pool_size"),
        ("free", "pool_available"),
        ("waited_for", "requests_waiting"),
    ):
        sizes.add_metric([state], stats.get(name, 0))
    yield sizes


PROBES = {"/livez": livez, "/readyz": readyz}


def middleware(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Answer probes before anything asks for a session, a host's name or a rate."""

    def handle(request: HttpRequest) -> HttpResponse:
        if (probe := PROBES.get(request.path_info)) is not None:
            return probe(request)
        if request.path_info == "/metrics" and may_scrape(request):
            return scrape(request)
        return get_response(request)

    return handle
