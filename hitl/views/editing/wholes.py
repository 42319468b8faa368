"""Templates as wholes: their versions side by side, a dry run, switched off, taken over."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from hitl.forms.json_schema import SchemaForm
from hitl.rendering.own_words import in_words
from hitl.views.common import person, posted
from runs import definitions
from runs.definitions import rights, shipped
from runs.definitions.editing import comparing, versions
from runs.definitions.templates import Kind
from runs.models import StepTemplate, Template
from runs.services import dry_runs
from runs.workflows import schemas

CODE = "code"
"""What the newer side of a comparison is called where it is the declaration that waits."""
LISTED = 200
"""Versions that may be chosen."""


@require_safe
@login_required
def template_versions(request: HttpRequest, slug: str) -> HttpResponse:
    """Two versions of a template, side by side: `old` and `new`."""
    return _versions(request, Template, slug)


@require_safe
@login_required
def step_versions(request: HttpRequest, slug: str) -> HttpResponse:
    """The same of a step template."""
    return _versions(request, StepTemplate, slug)


def _versions(request: HttpRequest, model: type[Kind], slug: str) -> HttpResponse:
    current = _one(model, slug)
    waits = shipped.waiting(current)
    wanted = request.GET.get("new", "")
    if wanted == CODE and waits is not None:
        fields, new = shipped.fields_declared(current, waits), None
    else:
        new = _one(model, slug, _number(wanted))
        fields = comparing.fields_of(new)
    before = _number(request.GET.get("old", ""))
    old = _one(model, slug, before or (max(1, new.version - 1) if new else current.version))
    context = {
        "current": current,
        "is_template": model is Template,
        "old": old,
        "new": new,
        "waits": waits,
        "versions": list(versions.of(model, slug)[:LISTED]),
        "found": comparing.compare(comparing.fields_of(old), fields),
        "may": person(request).has_perm(_right(model)),
    }
    return render(request, "hitl/templates/versions.html", context)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _right(model: type[Template] | type[StepTemplate]) -> str:
    return "runs.add_template" if model is Template else "runs.add_steptemplate"


def _one(model: type[Kind], slug: str, version: int | None = None) -> Kind:
    try:
        return versions.one(model, slug, version)
    except definitions.TemplateNotFound as error:
        raise Http404(str(error)) from error


@require_POST
@login_required
def template_do(request: HttpRequest, slug: str) -> HttpResponse:
    """Switch a template `off` or `on`, make it the `default` or `no-default`, or `take` over what
    the code declares.
    """
    template = _one(Template, slug)
    what = request.POST.get("do", "")
    if what == "take":
        _take_over(request, template)
    elif what in {"default", "no-default"}:
        _make_default(request, template, default=what == "default")
    elif what in {"on", "off"}:
        if not person(request).has_perm(rights.SWITCH):
            raise PermissionDenied(gettext("You may not say who orders by templates."))
        versions.switch(slug, on=what == "on")
        messages.success(
            request,
            gettext("Work may be ordered by it again.")
            if what == "on"
            else gettext(
                "It is switched off: nobody begins new work by it. Work under way goes on."
            ),
        )
    return redirect("hitl:template", slug)


def _make_default(request: HttpRequest, template: Template, *, default: bool) -> None:
    if not person(request).has_perm(_right(Template)):
        raise PermissionDenied(gettext("You may not change this, so nothing was saved."))
    try:
        definitions.make_default(template.slug, default=default)
    except definitions.TemplateInvalid as error:
        messages.error(request, str(error))
        return
    messages.success(
        request,
        gettext("Orders that name no template go by this one now.")
        if default
        else gettext("It is the default no longer."),
    )


@require_POST
@login_required
def step_do(request: HttpRequest, slug: str) -> HttpResponse:
    """Take over what the code declares of a step template."""
    _take_over(request, _one(StepTemplate, slug))
    return redirect("hitl:step_template", slug)


def _take_over(request: HttpRequest, row: Kind) -> None:
    if not person(request).has_perm(_right(type(row))):
        raise PermissionDenied(gettext("You may not change this, so nothing was saved."))
    after = _number(request.POST.get("version", "")) or 0
    try:
        saved = shipped.take_over(row, after=after)
    except (shipped.NothingNewer, definitions.TemplateInvalid) as error:
        messages.error(request, str(error))
        return
    messages.success(
        request,
        gettext("The code's declaration is version %(version)s now.") % {"version": saved.version},
    )


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def dry_run(request: HttpRequest, slug: str) -> HttpResponse:
    """What an order by a template would meet. POST looks at what is filled in; nothing is kept."""
    template = _one(Template, slug)
    form = _form(request, template)
    given: dict[str, Any] = {}
    if request.method == "POST" and "change" not in request.POST:
        given = {"input": form.payload if form else {}, "request": request.POST.get("request", "")}
    tried = dry_runs.dry_run(slug, by=person(request), **given)
    if form is not None:
        errors = {
            finding.field: [finding.text]
            for finding in tried.findings
            if finding.code == "input_invalid"
        }
        form.add_errors(errors)
        form.mark_first()
    context = {"template": template, "form": form, "tried": tried, "given": given}
    return render(request, "hitl/templates/dry_run.html", context)


def _form(request: HttpRequest, template: Template) -> SchemaForm | None:
    try:
        schema = schemas.check(template.input_schema)
    except schemas.SchemaRefused:
        return None
    if not schema.get("properties"):
        return None
    return SchemaForm(in_words(schema), posted(request))
