"""The content of a question on pages of its own: a reviewer's edits, the changes of a revision, the
whole patch.
"""

from __future__ import annotations

import uuid

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from checkpoints import store
from checkpoints.models import Blob
from checkpoints.text import invisible
from hitl.decisions import revisions
from hitl.models import Decision
from hitl.rendering import word_diff
from hitl.views.common import find_pause, place_of


@require_safe
@login_required
def pause_edits(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """What a reviewer changed in the content that was approved: `?view=side` for both next to each
    other.
    """
    pause = find_pause(pause_id, request)
    decision = (
        Decision.objects.select_related("decided_by")
        .filter(pause=pause)
        .exclude(edited_content="")
        .first()
    )
    if decision is None:
        raise Http404(gettext("Nothing was edited in the answer to this question."))
    context = {
        "pause": pause,
        "decision": decision,
        "lines": word_diff.compare(pause.content, decision.edited_content),
        "headings": (gettext("As it was asked"), gettext("As it was approved")),
        "side": request.GET.get("view") == "side",
        "home": place_of(pause),
    }
    return render(request, "hitl/pauses/pause_edits.html", context)


@require_safe
@login_required
def pause_changes(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """What a revision changed against an earlier one: `?from=<revision>`, `?view=side` for both
    next to each other.
    """
    pause = find_pause(pause_id, request)
    wanted = request.GET.get("from", "")
    before = revisions.earlier(
        pause, int(wanted) if wanted.isascii() and wanted.isdecimal() and len(wanted) < 6 else None
    )
    if before is None:
        raise Http404(gettext("There is no such earlier revision."))
    context = {
        "pause": pause,
        "before": before,
        "lines": revisions.changes(before, pause),
        "others": range(1, pause.revision),
        "headings": (
            gettext("Revision %(revision)s") % {"revision": before.revision},
            gettext("Revision %(revision)s") % {"revision": pause.revision},
        ),
        "side": request.GET.get("view") == "side",
        "home": place_of(pause),
    }
    return render(request, "hitl/pauses/pause_changes.html", context)


@require_safe
@login_required
def pause_patch(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """The whole patch under review, as text, with what a screen does not show made visible;
    `?exact` gives its very bytes to keep.
    """
    pause = find_pause(pause_id, request)
    if not pause.patch_digest:
        raise Http404(gettext("There is no such patch."))
    try:
        content = store.get_blob(pause.patch_digest)
    except (store.CheckpointDamaged, Blob.DoesNotExist) as error:
        raise Http404(
            gettext("The patch cannot be shown: %(error)s.") % {"error": error}
        ) from error
    exact = "exact" in request.GET
    shown = content if exact else _visible_lines(content.decode("utf-8", "surrogateescape"))
    response = HttpResponse(shown, content_type="text/plain; charset=utf-8")
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Disposition"] = (
        f'{"attachment" if exact else "inline"}; filename="{pause.shown_id}.patch"'
    )
    return response


def _visible_lines(text: str) -> str:
    """Line by line, so that a carriage return at the end of one is seen too."""
    return "\n".join(invisible.plain(line) for line in text.split("\n"))
