"""One template, or a new one, with its steps: the page on which it is put together."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import Group
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from checkpoints.database.people import NAME, User
from hitl.forms import drafts
from hitl.forms.templates import NewTemplateForm, TemplateForm
from hitl.rendering.diagrams import graph, workflow
from hitl.views.common import person
from runs import definitions
from runs.definitions import pictures, readiness, rights, shipped
from runs.definitions.editing import catalog, versions
from runs.definitions.templates import EDITED, usual_fields
from runs.models import Template
from runs.services import dry_runs

ADD = "runs.add_template"
NAMES = 500
"""People, and groups, that the page offers."""


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def template(request: HttpRequest, slug: str) -> HttpResponse:
    """One template. POST saves its next version; who may add templates may.

    With `change` it saves nothing, and gives the draft back as it is then.
    """
    try:
        current = definitions.current(slug)
    except definitions.TemplateNotFound as error:
        raise Http404(str(error)) from error
    may = person(request).has_perm(ADD)
    if request.method != "POST" or not may:
        status = 403 if request.method == "POST" else 200
        return _page(request, TemplateForm(template=current), current, status=status)
    seen = _seen(request, current)
    if change := request.POST.get("change", ""):
        return _changed(request, TemplateForm, seen, current, change)
    form = TemplateForm(request.POST, template=seen)
    saved = _save(form, request, current) if form.is_valid() else None
    if saved is None:
        return _page(request, form, current, status=409 if "version" in form.errors else 422)
    if saved.version == current.version:
        messages.info(request, gettext("Nothing was changed, so nothing was saved."))
    else:
        messages.success(
            request,
            gettext("Saved as version %(version)s. Work that was ordered before keeps its own.")
            % {"version": saved.version},
        )
        for warning in definitions.warnings_of(saved.steps):
            messages.warning(request, warning)
    return redirect("hitl:template", slug)


def _seen(request: HttpRequest, current: Template) -> Template:
    """The version that the form was made of: steps are named by their places in it."""
    number = request.POST.get("version", "")
    if not number.isdecimal() or len(number) > 9 or int(number) == current.version:
        return current
    found = Template.objects.filter(slug=current.slug, version=int(number)).first()
    return found or current


def _save(form: TemplateForm, request: HttpRequest, current: Template) -> Template | None:
    """The template as it is now; None where it was refused, which the form then says."""
    over = request.POST.get("over", "")
    seen = int(over) if over == str(current.version) else form.cleaned_data["version"]
    try:
        return definitions.edit_template(
            current.slug, by=person(request), after=seen, **form.fields_to_save()
        )
    except definitions.TemplateInvalid as error:
        form.add_errors(error.errors)
        return None


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def new(request: HttpRequest) -> HttpResponse:
    """A template that is not saved yet: empty, of the step templates `steps`, or a copy of `from`.

    Who may add templates may.
    """
    base = _base(request)
    may = person(request).has_perm(ADD)
    if not may:
        form: TemplateForm = NewTemplateForm(template=base)
        return _page(request, form, None, status=403)
    if request.method != "POST":
        return _page(request, _begun(request, base), None)
    if change := request.POST.get("change", ""):
        return _changed(request, NewTemplateForm, base, None, change)
    form = NewTemplateForm(request.POST, template=base)
    made = _make(form, request, base) if form.is_valid() else None
    if made is None:
        return _page(request, form, None, status=409 if form.taken else 422)
    messages.success(request, gettext("The template was made. Orders may name it from now on."))
    for warning in definitions.warnings_of(made.steps):
        messages.warning(request, warning)
    return redirect("hitl:template", made.slug)


def _base(request: HttpRequest) -> Template:
    """What a new template begins as; its version is 0, for there is none yet."""
    values = request.POST if request.method == "POST" else request.GET
    slug, _, number = values.get("from", "").partition("@")
    if slug and not versions.SLUG.fullmatch(slug):
        raise Http404(gettext("There is no such template."))
    if not slug:
        return Template(slug="", version=0, **{**usual_fields(), "steps": []})
    try:
        version = int(number) if number.isdecimal() and len(number) < 10 else None
        original = versions.one(Template, slug, version)
    except definitions.TemplateNotFound as error:
        raise Http404(str(error)) from error
    fields = {name: getattr(original, name) for name in EDITED}
    base = Template(slug=slug, version=0, **fields)
    base.copied = f"{slug}@{original.version}"  # type: ignore[attr-defined]  # what the page sends back
    return base


def _begun(request: HttpRequest, base: Template) -> TemplateForm:
    if not (kinds := request.GET.getlist("steps")[: drafts.MOST]):
        return NewTemplateForm(template=base)
    data = QueryDict(mutable=True)
    data["version"] = data["rows"] = "0"
    known = {kind.slug for kind in catalog.current_kinds()}
    for kind in kinds:
        if kind in known:
            drafts.add(data, kind)
    return NewTemplateForm(data, template=base, quiet=True)


def _make(form: NewTemplateForm, request: HttpRequest, base: Template) -> Template | None:
    slug = form.cleaned_data["slug"]
    kept = {name: getattr(base, name) for name in EDITED} if base.slug else {}
    try:
        versions.check_new(slug)
        with transaction.atomic():
            made = definitions.edit_template(
                slug, by=person(request), after=0, **{**kept, **form.fields_to_save()}
            )
            if base.slug:
                versions.keep_to_groups(base.slug, slug)
        return made
    except (versions.TemplateExists, definitions.SavedMeanwhile):
        form.taken = True
        form.add_error(
            "slug",
            gettext("There is a template “%(slug)s” already. Choose another name.")
            % {"slug": slug},
        )
    except definitions.TemplateInvalid as error:
        form.add_errors(error.errors)
    return None


def _changed(
    request: HttpRequest,
    kind: type[TemplateForm],
    base: Template,
    current: Template | None,
    change: str,
) -> HttpResponse:
    """The draft after one of its buttons; nothing is saved."""
    if change == "try":
        data = request.POST.copy()
        del data["change"]
        form = kind(data, template=base)
        tried = _tried(form, request, base) if form.is_valid() else None
        return _page(request, form, current, tried=tried, status=200 if tried else 422)
    data, focus = drafts.changed(request.POST, change)
    form = kind(data, template=base, quiet=True)
    if change == "add" and focus is not None and len(form.rows) > drafts.count(request.POST):
        form.focus_on_name(focus)
    return _page(request, form, current, focus=focus)


def _tried(form: TemplateForm, request: HttpRequest, base: Template) -> dry_runs.DryRun:
    slug = form.cleaned_data.get("slug") or base.slug
    fields = {**{name: getattr(base, name) for name in EDITED}, **form.fields_to_save()}
    return dry_runs.dry_run(slug, by=person(request), fields=fields)


def _page(
    request: HttpRequest,
    form: TemplateForm,
    current: Template | None,
    *,
    status: int = 200,
    focus: int | None = None,
    tried: dry_runs.DryRun | None = None,
) -> HttpResponse:
    """Needs the current version, None for a template that is not saved yet."""
    by = person(request)
    may = by.has_perm(ADD)
    if not may:
        for field in form.fields.values():
            field.disabled = True
    context: dict[str, Any] = {
        "template": current or form.template,
        "form": form,
        "may": may,
        "refused": status == 403 and request.method == "POST",
        "kinds": catalog.kinds_by_workflow() if may else [],
        "known": _known() if may else {},
        "focus": focus,
        "tried": tried,
        "draft": form.is_bound and form.quiet,
    }
    if current is None:
        return render(request, "hitl/templates/new.html", context, status=status)
    context |= _drawn(current)
    context["cannot_run"] = readiness.lacking([current], by=by).get(current.slug)
    context["newer"] = shipped.outdated([current]).get(current.slug)
    access = rights.access_to(current.slug)
    context["who_may_order"] = rights.who_may(access)
    context["off"] = access is not None and not access.enabled
    context["default"] = current.slug == rights.default_template()
    context["may_switch"] = by.has_perm(rights.SWITCH)
    context["version"] = current.version
    return render(request, "hitl/templates/template.html", context, status=status)


def _known() -> dict[str, Any]:
    """Names that the page offers where somebody is named; others may be typed."""
    people = User.objects.filter(is_active=True, service_account=None).order_by(NAME)[:NAMES]
    groups = Group.objects.order_by("name").values_list("name", flat=True)[:NAMES]
    return {
        "people": [(one.get_username(), one.get_full_name()) for one in people],
        "groups": list(groups),
    }


def _drawn(template: Template) -> dict[str, Any]:
    """Empty where a step's template or function is gone: then nothing can be drawn truly."""
    try:
        steps = definitions.freeze_steps(template.steps)
        endings = definitions.freeze_endings(template.steps)
    except definitions.TemplateInvalid:
        return {}
    return {
        "picture": workflow.draw(steps, endings=endings),
        "graphs": graph.draw_all(pictures.of_steps(steps)),
    }
