"""The versions of templates and step templates: looked up, copied, and taken over from the code."""

from __future__ import annotations

import re

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext

from runs.definitions import rights, templates
from runs.definitions.errors import SavedMeanwhile, TemplateInvalid, TemplateNotFound, refused
from runs.definitions.templates import EDITED, Kind
from runs.models import Template, TemplateAccess

SLUG = re.compile(r"[A-Za-z0-9_-]{1,80}")
NOT_A_SLUG = "Use up to 80 letters, digits, hyphens and underscores."


class TemplateExists(TemplateInvalid):
    """The name for a new template is taken; nothing was saved."""

    code = "template_exists"

    def __init__(self, slug: str) -> None:
        super().__init__(
            {
                "slug": [
                    gettext("There is a template %(slug)s already. Choose another name.")
                    % {"slug": repr(slug)}
                ]
            }
        )


def of(model: type[Kind], slug: str) -> QuerySet[Kind]:
    """All versions of one, the newest first; raises TemplateNotFound where there is none."""
    found = model._default_manager.filter(slug=slug).order_by("-version")
    if not found.exists():
        raise TemplateNotFound(
            gettext("There is no %(kind)s %(slug)s.")
            % {"kind": model._meta.verbose_name, "slug": repr(slug)}
        )
    return found


def one(model: type[Kind], slug: str, version: int | None = None) -> Kind:
    """One version, the newest where none is named; raises TemplateNotFound."""
    versions = of(model, slug)
    row = versions.first() if version is None else versions.filter(version=version).first()
    if row is None:
        raise TemplateNotFound(
            gettext("The %(kind)s %(slug)s has no version %(version)s.")
            % {"kind": model._meta.verbose_name, "slug": repr(slug), "version": version}
        )
    return row


def check_new(slug: str) -> None:
    """Raise TemplateInvalid where no new template can have this name."""
    if not SLUG.fullmatch(slug):
        raise refused("slug", NOT_A_SLUG)
    if Template.objects.filter(slug=slug).exists():
        raise TemplateExists(slug)


@transaction.atomic
def copy(
    slug: str, to: str, *, by: AbstractBaseUser, version: int | None = None, title: str = ""
) -> Template:
    """Save a template under another name, as its first version.

    Both name the same step templates. Where only some groups may order by the original, only they
    may by the copy.

    Raises:
        TemplateNotFound: there is no such original.
        TemplateExists, TemplateInvalid: nothing was saved.
    """
    original = one(Template, slug, version)
    check_new(to)
    fields = {name: getattr(original, name) for name in EDITED}
    fields["title"] = title.strip() or f"{original.title} (copy)"[:120]
    if len(fields["title"]) > 120:
        raise refused("title", "Up to 120 characters.")
    try:
        made = templates.edit_template(to, by=by, after=0, **fields)
    except SavedMeanwhile as error:
        raise TemplateExists(to) from error
    keep_to_groups(slug, to)
    return made


def keep_to_groups(slug: str, to: str) -> None:
    """Let only those order by a new template who may by the one that it was made from.

    Call inside a transaction.
    """
    access = rights.access_to(slug)
    if access is not None and access.restricted:
        narrowed, _ = TemplateAccess.objects.get_or_create(slug=to)
        rights.settle(narrowed, "groups", "restricted", access.groups.all())


@transaction.atomic
def switch(slug: str, *, on: bool) -> Template:
    """Let work be ordered by a template again, or by nobody. Work under way goes on either way.

    Raises TemplateNotFound.
    """
    template = one(Template, slug)
    access, _ = TemplateAccess.objects.get_or_create(slug=slug)
    TemplateAccess.objects.filter(pk=access.pk).update(enabled=on)
    return template
