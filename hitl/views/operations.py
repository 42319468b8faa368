"""For operators: what waits, what works, what is stuck, and whether the promises hold."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required, permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from hitl import invariants, operating


@login_required
@permission_required("runs.view_run", raise_exception=True)
@require_safe
def operations(request: HttpRequest) -> HttpResponse:
    """`?invariants` also asks the database whether each invariant holds, which reads whole tables."""
    now = timezone.now()
    results = list(invariants.check(now=now)) if "invariants" in request.GET else None
    broken = [result for result in results or () if result.count]
    context = {"now": now, "standing": operating.standing(now=now), "results": results, "broken": broken}
    return render(request, "hitl/operations.html", context)
