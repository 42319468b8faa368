"""Doors for machines that look after this one: `/livez`, `/readyz`.

They need no login and stand before sessions, hosts and rates: a load balancer calls a server by its
address, and asks while the database is away.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from hitl.http import problems
from hitl.operations import health
from runs.models import installation


@require_safe
@never_cache
def livez(request: HttpRequest) -> HttpResponse:
    """Say that this process answers; nothing else is asked, so that a database that is away ends no
    server.
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
    found = health.parts(dict.fromkeys(asked))
    ready = all(part.ok for part in found)
    answer = {
        "ready": ready,
        "version": installation.version(),
        "commit": installation.commit(),
        "parts": {part.name: {"ok": part.ok, "words": part.words} for part in found},
    }
    return JsonResponse(answer, status=200 if ready else 503)


PROBES = {"/livez": livez, "/readyz": readyz}


def middleware(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Answer probes before anything asks for a session, a host's name or a rate."""

    def handle(request: HttpRequest) -> HttpResponse:
        probe = PROBES.get(request.path_info)
        return get_response(request) if probe is None else probe(request)

    return handle
