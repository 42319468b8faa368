"""Runs whose steps have other code than they were asked for with: one line per template and reason,
and the runs of a line. Reads only.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, QuerySet

from hitl.rendering import paging
from hitl.rendering.paging import ListAddress, ListPage
from runs.definitions import compatibility
from runs.models import Run

HELD = "held"
REASONS = (HELD, "missing", "changed")
SHOWN = 50
OLDEST = paging.ListOrder(prefix=Run.PREFIX)


@dataclass(frozen=True, kw_only=True)
class CodeLine:
    """The live runs of one template for one reason."""

    template: str
    reason: str
    """One of `REASONS`."""
    steps: tuple[str, ...]
    """Names of the steps whose code is not as it was; none for what is held."""
    count: int


def lines() -> list[CodeLine]:
    """Held runs first, since an operator has to act; then by reason, the worst first."""
    held = compatibility.held().order_by().values_list("definition__template_slug")
    found = {
        (template, HELD): CodeLine(template=template, reason=HELD, steps=(), count=count)
        for template, count in held.annotate(Count("pk"))
    }
    for one in compatibility.report(verdicts=sorted(compatibility.BAD), names_runs=False):
        before = found.get((one.slug, one.verdict))
        found[one.slug, one.verdict] = CodeLine(
            template=one.slug,
            reason=one.verdict,
            steps=tuple(dict.fromkeys((*(before.steps if before else ()), *one.steps))),
            count=one.count + (before.count if before else 0),
        )
    return sorted(found.values(), key=lambda line: (REASONS.index(line.reason), line.template))


def listed(template: str, reason: str, here: ListAddress) -> ListPage[Run]:
    """The page of a line's runs that an address asks for, oldest first."""
    rows: QuerySet[Run] = Run.objects.none()
    if reason == HELD:
        rows = compatibility.held().filter(definition__template_slug=template)
    else:
        for verdict in compatibility.BAD:
            if verdict == reason:
                rows = compatibility.standing(template, verdict)
    whole = Run.objects.select_related("thread", "work_order", "definition")
    return paging.in_order(rows, OLDEST, here, "after", size=SHOWN, whole=whole)
