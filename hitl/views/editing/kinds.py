"""Step templates: which there are, and one of them with the form of its configuration."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_safe

from hitl.forms.configurations import KindForm
from hitl.views.common import person
from runs import definitions
from runs.definitions import shipped
from runs.definitions.editing import catalog, versions
from runs.models import StepTemplate

ADD = "runs.add_steptemplate"


@require_safe
@login_required
def kinds(request: HttpRequest) -> HttpResponse:
    """The step templates, and the functions that further ones can be made of."""
    rows = catalog.current_kinds()
    context = {
        "rows": rows,
        "newer": shipped.outdated(rows),
        "functions": catalog.functions(),
        "may": person(request).has_perm(ADD),
        "may_compose": person(request).has_perm("runs.add_template"),
    }
    return render(request, "hitl/templates/kinds.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def kind(request: HttpRequest, slug: str) -> HttpResponse:
    """One step template. POST saves its next version; who may add those may."""
    try:
        current = versions.one(StepTemplate, slug)
    except definitions.TemplateNotFound as error:
        raise Http404(str(error)) from error
    return _worked_on(request, current, new=False)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def new_kind(request: HttpRequest) -> HttpResponse:
    """A step template that is not saved yet, of the function that the address names."""
    if not person(request).has_perm(ADD):
        raise PermissionDenied(gettext("You may not make step templates."))
    name = request.GET.get("function", "")
    if not name:
        return redirect("hitl:step_templates")
    try:
        catalog.function(name)
    except catalog.FunctionNotFound as error:
        raise Http404(str(error)) from error
    return _worked_on(request, StepTemplate(version=0, function=name), new=True)


def _worked_on(request: HttpRequest, row: StepTemplate, *, new: bool) -> HttpResponse:
    may = person(request).has_perm(ADD)
    posted = request.method == "POST"
    if not may and (posted or new):
        return _page(request, KindForm(kind=row, new=new), row, status=403)
    form = KindForm(request.POST if posted else None, kind=row, new=new)
    if not posted or form.changes_only:
        return _page(request, form, row)
    saved = _save(form, row) if form.is_valid() else None
    if saved is None:
        return _page(request, form, row, status=409 if "version" in form.errors else 422)
    changed = saved.version != row.version
    said = gettext("Saved as version %(version)s. Work that was ordered before keeps its own.") % {
        "version": saved.version
    }
    messages.success(
        request, said if changed else gettext("Nothing was changed, so nothing was saved.")
    )
    return redirect("hitl:step_template", saved.slug)


def _save(form: KindForm, row: StepTemplate) -> StepTemplate | None:
    given = form.cleaned_data
    slug = given.get("slug") or row.slug
    try:
        return definitions.edit_step_template(
            slug,
            title=given["title"],
            function=row.function,
            sub_steps=row.sub_steps or (),
            config=form.config_to_save(),
            after=given["version"],
        )
    except definitions.SavedMeanwhile as error:
        if form.new:
            form.add_error(
                "slug", gettext("There is a step template of this name. Choose another one.")
            )
        else:
            form.add_errors(error.errors)
    except definitions.TemplateInvalid as error:
        form.add_errors(error.errors)
    return None


def _page(
    request: HttpRequest, form: KindForm, row: StepTemplate, *, status: int = 200
) -> HttpResponse:
    may = person(request).has_perm(ADD)
    if not may:
        for field in form.fields.values():
            field.disabled = True
    context: dict[str, Any] = {
        "kind": row,
        "form": form,
        "may": may,
        "refused": status == 403 and request.method == "POST",
        "function": next((one for one in catalog.functions() if one.name == row.function), None),
        "users": [] if form.new else catalog.users_of(row.slug),
        "newer": None if form.new else shipped.outdated([row]).get(row.slug),
    }
    return render(request, "hitl/templates/kind.html", context, status=status)
