"""Several questions at once: what was chosen, looked over before anything is decided; and what came
of each.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from checkpoints import ids
from hitl.decisions import bulk
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.views.common import person
from runs.models import Pause
from runs.states import PauseStatus


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def several(request: HttpRequest) -> HttpResponse:
    """GET shows what would be answered; only POST from that page answers, each question in the
    revision that was shown.
    """
    try:
        if request.method != "POST":
            chosen = [each.pause_id for each in _chosen(request.GET.getlist("pause"))]
            return render(
                request,
                "hitl/inbox/bulk.html",
                {"preview": bulk.preview(chosen, by=person(request))},
            )
        seen = list(_chosen(request.POST.getlist("pause")))
        results = bulk.decide(
            seen, Answer(request.POST.get("action", ""), Via.PAGE), by=person(request)
        )
    except bulk.BulkInvalid as error:
        messages.info(request, str(error))
        return redirect("hitl:inbox")
    return render(
        request,
        "hitl/inbox/bulk_results.html",
        {
            "results": results,
            "done": sum(1 for result in results if result.decision),
            "again": [
                result.pause
                for result in results
                if result.pause and not result.decision and result.pause.status == PauseStatus.OPEN
            ],
        },
    )


def _chosen(values: list[str]) -> Iterator[bulk.Chosen]:
    """`pse_…` or `pse_…:<revision>`; raises BulkInvalid for anything else."""
    for value in values:
        shown_id, _, revision = value.partition(":")
        try:
            if revision and not (
                revision.isascii() and revision.isdecimal() and len(revision) < 10
            ):
                raise ValueError(
                    gettext("“%(value)s” is not a revision") % {"value": revision[:60]}
                )
            yield bulk.Chosen(ids.parse(Pause.PREFIX, shown_id), int(revision or 0))
        except ValueError as error:
            raise bulk.BulkInvalid(
                gettext("%(error)s. Nothing was decided.") % {"error": error}
            ) from error
