"""Templates: which there are, and where each of them asks a person."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_safe

from hitl.forms.templates import TextsForm, pauses_of
from hitl.views.common import person
from runs import definitions
from runs.definitions import readiness, rights, shipped
from runs.models import Template, TemplateAccess


@require_safe
@login_required
def template_list(request: HttpRequest) -> HttpResponse:
    templates = Template.objects.current().order_by("title", "slug")
    refused, lacks = (
        rights.refusals(person(request)),
        readiness.lacking(templates, by=person(request)),
    )
    newer = shipped.outdated(templates)
    off = set(TemplateAccess.objects.filter(enabled=False).values_list("slug", flat=True))
    rows = [
        (
            template,
            pauses_of(template),
            refused.get(template.slug) or lacks.get(template.slug),
            template.slug in newer,
            template.slug in off,
        )
        for template in templates
    ]
    return render(
        request,
        "hitl/templates/templates.html",
        {"rows": rows, "may": person(request).has_perm("runs.add_template")},
    )


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def texts(request: HttpRequest, slug: str) -> HttpResponse:
    """The texts that a step sends.

    POST saves the step template's next version; who may add those may.
    """
    try:
        kind = definitions.current_step_template(slug)
    except definitions.TemplateNotFound as error:
        raise Http404(str(error)) from error
    may = person(request).has_perm("runs.add_steptemplate")
    form = TextsForm(request.POST if request.method == "POST" and may else None, kind=kind)
    status = (
        403
        if request.method == "POST" and not may
        else 422
        if form.is_bound and not form.is_valid()
        else 200
    )
    if form.is_bound and status == 200:
        given = {"title": kind.title, "function": kind.function, "sub_steps": kind.sub_steps}
        saved = definitions.edit_step_template(slug, **given, config=form.config_to_save())
        changed = gettext(
            "Saved as version %(version)s. Work that was ordered before keeps its own."
        ) % {"version": saved.version}
        messages.success(
            request,
            changed
            if saved.version != kind.version
            else gettext("Nothing was changed, so nothing was saved."),
        )
        return redirect("hitl:step_texts", slug)
    for field in form.fields.values():
        field.disabled = not may
    return render(
        request,
        "hitl/templates/step_texts.html",
        {"kind": kind, "form": form, "may": may, "refused": status == 403},
        status=status,
    )
