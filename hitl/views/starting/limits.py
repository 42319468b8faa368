"""How much is at work at once: the limits, how many work and wait, and their form."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_http_methods

from hitl.rendering.own_words import own
from hitl.views.common import person, posted
from runs.models import Template, WorkLimit
from runs.services import limits as work_limits


class LimitForm(forms.Form):
    template = forms.ChoiceField(choices=[], label=gettext_lazy("Template"))
    most = forms.IntegerField(
        min_value=1,
        max_value=work_limits.MANY,
        initial=1,
        label=gettext_lazy("At work at once"),
        help_text=gettext_lazy("Work that waits for a person is not counted."),
    )
    rate = forms.CharField(
        max_length=20,
        required=False,
        label=gettext_lazy("Begin in a time"),
        help_text=gettext_lazy("How many begin, such as 60/min, 1/s or 500/h."),
    )
    pointer = forms.CharField(
        max_length=200,
        required=False,
        label=gettext_lazy("For each value of"),
        help_text=gettext_lazy(
            "A JSON pointer into the input, such as /customer: each has so many places."
        ),
    )
    name = forms.SlugField(
        max_length=80,
        required=False,
        label=gettext_lazy("Shared as"),
        help_text=gettext_lazy("Limits of one name share their places: gpu, crm."),
    )
    priority = forms.IntegerField(
        min_value=-1000,
        max_value=1000,
        initial=0,
        help_text=gettext_lazy("Of work that waits for the same places higher ones go first."),
        label=gettext_lazy("Priority"),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["template"]
        assert isinstance(field, forms.ChoiceField)
        known = Template.objects.current().order_by("title", "slug")
        field.choices = [(one.slug, f"{own(one.title)} ({one.slug})") for one in known]


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def limit_list(request: HttpRequest) -> HttpResponse:
    """All limits; POST makes one."""
    form = LimitForm(posted(request))
    saved = _save(request, form, WorkLimit())
    if saved is not None:
        return saved
    context = {
        "limits": work_limits.counted().order_by("template", "pk")[: work_limits.MOST],
        "form": form,
    }
    return render(request, "hitl/limits/limits.html", context, status=_status(form))


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def limit(request: HttpRequest, limit_id: int) -> HttpResponse:
    """One limit; POST changes it, removes it, or goes back to what the code declares."""
    found = work_limits.counted().filter(pk=limit_id).first()
    if found is None:
        raise Http404(gettext("There is no such limit."))
    if request.method == "POST" and request.POST.get("do") == "remove":
        try:
            work_limits.remove(found, by=person(request))
        except work_limits.MayNotLimit as error:
            return _page(request, found, _of(found), refused=str(error))
        messages.success(request, gettext("The limit was removed. What waited under it goes on."))
        return redirect("hitl:limits")
    if request.method == "POST" and request.POST.get("do") == "declared":
        try:
            work_limits.save(found, by=person(request), as_declared=True)
        except (work_limits.MayNotLimit, work_limits.LimitInvalid) as error:
            return _page(request, found, _of(found), refused=str(error))
        messages.success(request, gettext("The limit is what the code declares."))
        return redirect("hitl:limits")
    form = LimitForm(request.POST) if request.method == "POST" else _of(found)
    saved = _save(request, form, found)
    return saved if saved is not None else _page(request, found, form)


def _of(found: WorkLimit) -> LimitForm:
    return LimitForm(initial={name: getattr(found, name) for name in LimitForm.base_fields})


def _page(
    request: HttpRequest, found: WorkLimit, form: LimitForm, *, refused: str = ""
) -> HttpResponse:
    context = {
        "limit": found,
        "form": form,
        "refused": refused,
        "changed": work_limits.stands_over_code(found),
    }
    status = 403 if refused else _status(form)
    return render(request, "hitl/limits/limit.html", context, status=status)


def _status(form: LimitForm) -> int:
    if not form.errors:
        return 200
    return 403 if form.has_error("__all__", "may_not") else 422


def _save(request: HttpRequest, form: LimitForm, limit: WorkLimit) -> HttpResponse | None:
    """Where it leads once it is saved; None with the reasons on the form."""
    if request.method != "POST":
        return None
    user = person(request)
    if not user.has_perm(work_limits.SET):
        form.add_error(None, forms.ValidationError(work_limits.MAY_NOT, code="may_not"))
        return None
    if not form.is_valid():
        return None
    try:
        work_limits.save(limit, by=user, **form.cleaned_data)
    except work_limits.LimitInvalid as error:
        form.add_error(error.field, str(error))
        return None
    messages.success(request, gettext("The limit was saved. It holds from the next claim on."))
    return redirect("hitl:limits")
