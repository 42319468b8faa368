"""Decisions: the receipt of one, to read or print, and taking one back."""

from __future__ import annotations

import datetime as dt
import json
import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from hitl.decisions import receipts, tool_calls
from hitl.decisions import undo as undoing
from hitl.models import Via, Vote
from hitl.rendering.patches import sheets
from hitl.rendering.patches.drawing import Look
from hitl.views.cards import contents, lines
from hitl.views.common import home_of, person


@require_safe
@login_required
def receipt(request: HttpRequest, decision_id: uuid.UUID) -> HttpResponse:
    proof = receipts.receipt(decision_id, by=person(request))
    pause = proof.decision.pause
    patch, damage = contents.patch_of(pause) if pause is not None else (None, "")
    context = {
        "receipt": proof,
        "decision": proof.decision,
        "shown": proof.document,
        "standing": proof.standing,
        "votes": list(
            Vote.objects.filter(pause=pause).select_related("voter", "seat").order_by("pk")
        )
        if proof.decision.votes
        else [],
        "said": lines.said_by(proof.decision),
        "answers": tool_calls.answers(proof.decision),
        "undone": getattr(proof.decision, "undone_by", None),
        "labels": pause.labels if pause else {},
        "home": home_of(pause.run) if pause else "",
        "patch": patch,
        "sheet": sheets.draw(patch, Look(), whole=True) if patch else None,
        "damage": damage,
        "data": json.dumps(proof.decision.payload, indent=2, ensure_ascii=False),
        "asked_at": dt.datetime.fromisoformat(proof.document["opened_at"])
        if proof.document
        else None,
    }
    return render(request, "hitl/pauses/receipt.html", context)


@require_POST
@login_required
def undo(request: HttpRequest, decision_id: uuid.UUID) -> HttpResponse:
    """Take an answer back; who comes too late is told so on the page that it is about."""
    try:
        decision = receipts.find(decision_id, by=person(request))
        undoing.undo(decision_id, by=person(request), via=Via.PAGE)
    except (undoing.TooLate, undoing.NotYourAnswer) as error:
        messages.info(request, str(error))
    return (
        redirect(home_of(decision.pause.run))
        if decision.pause
        else redirect("hitl:receipt", decision_id)
    )
