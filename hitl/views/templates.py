"""Templates: which there are, and where each of them asks a person."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from hitl.forms.templates import TemplateForm, TextsForm, pauses_of
from hitl.rendering.diagrams import workflow
from hitl.views.common import person
from runs import definitions
from runs.definitions import readiness, rights, shipped
from runs.models import Template


@require_safe
@login_required
def template_list(request: HttpRequest) -> HttpResponse:
    templates = Template.objects.current().order_by("title", "slug")
    refused, lacks = (
        rights.refusals(person(request)),
        readiness.lacking(templates, by=person(request)),
    )
    newer = shipped.outdated(templates)
    rows = [
        (
            template,
            pauses_of(template),
            refused.get(template.slug) or lacks.get(template.slug),
            template.slug in newer,
        )
        for template in templates
    ]
    return render(request, "hitl/templates/templates.html", {"rows": rows})


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def template(request: HttpRequest, slug: str) -> HttpResponse:
    """One template. POST saves its next version; who may add templates may."""
    try:
        current = definitions.current(slug)
    except definitions.TemplateNotFound as error:
        raise Http404(str(error)) from error
    may = person(request).has_perm("runs.add_template")
    if request.method == "POST" and not may:
        return _page(request, TemplateForm(template=current), may=False, status=403)
    if request.method != "POST":
        return _page(request, TemplateForm(template=current), may=may)
    form = TemplateForm(request.POST, template=current)
    saved = _save(form, request) if form.is_valid() else None
    if saved is None:
        return _page(request, form, may=True, status=409 if "version" in form.errors else 422)
    if saved.version == current.version:
        messages.info(request, "Nothing was changed, so nothing was saved.")
    else:
        messages.success(
            request,
            f"Saved as version {saved.version}. Work that was ordered before keeps its own.",
        )
        for warning in definitions.warnings_of(saved.steps):
            messages.warning(request, warning)
    return redirect("hitl:template", slug)


def _save(form: TemplateForm, request: HttpRequest) -> Template | None:
    """The template as it is now; None where it was refused, which the form then says."""
    given = form.fields_to_save()
    try:
        return definitions.edit_template(
            form.template.slug, by=person(request), after=form.cleaned_data["version"], **given
        )
    except definitions.TemplateInvalid as error:
        form.add_errors(error.errors)
        return None


def _page(
    request: HttpRequest, form: TemplateForm, *, may: bool, status: int = 200
) -> HttpResponse:
    if not may:
        for field in form.fields.values():
            field.disabled = True
    context: dict[str, Any] = {
        "template": form.template,
        "form": form,
        "may": may,
        "refused": status == 403,
        "picture": _picture(form.template),
    }
    context["cannot_run"] = readiness.lacking([form.template], by=person(request)).get(
        form.template.slug
    )
    context["newer"] = shipped.outdated([form.template]).get(form.template.slug)
    context["who_may_order"] = rights.who_may(rights.access_to(form.template.slug))
    return render(request, "hitl/templates/template.html", context, status=status)


def _picture(template: Template) -> workflow.Picture | None:
    """None where a step's template or function is gone: then nothing can be drawn truly."""
    try:
        return workflow.draw(definitions.freeze_steps(template.steps))
    except definitions.TemplateInvalid:
        return None


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
        changed = f"Saved as version {saved.version}. Work that was ordered before keeps its own."
        messages.success(
            request,
            changed
            if saved.version != kind.version
            else "Nothing was changed, so nothing was saved.",
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
