"""Templates as Django has them, whose text can always be sent."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.template import Context, TemplateDoesNotExist
from django.template.backends.django import DjangoTemplates, Template
from django.template.base import Parser, Token
from django.templatetags import i18n
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from checkpoints.state import codec
from hitl.rendering import places

OWN = "waystation:"
"""Before a name that any project may have: ours of that name."""
SHARED = {"403.html", "403_csrf.html", "404.html", "500.html", "base.html", "registration"}
OUR_ADMIN = {"admin", "unfold"}
"""Pages of the admin are one whole: ours are included by those of its theme."""


class Sendable(Template):
    """Renders what no client could read, half a surrogate pair in somebody's JSON, as a replacement
    sign.
    """

    def render(
        self, context: dict[str, Any] | None = None, request: HttpRequest | None = None
    ) -> SafeString:
        text = super().render(context, request)
        try:
            text.encode()
        except UnicodeEncodeError:
            return SafeString(codec.readable(text))  # it was rendered, and is as safe as before
        return SafeString(text)


class SendableTemplates(DjangoTemplates):
    """The one place that all pages come from, the admin's and the pieces that are sent live too."""

    def from_string(self, template_code: str) -> Sendable:
        return Sendable(super().from_string(template_code).template, self)

    def get_template(self, template_name: str) -> Sendable:
        return Sendable(super().get_template(template_name).template, self)


class OwnTemplates(SendableTemplates):
    """Beside the engine of a project that our pages are part of: gives what is ours, and leaves
    names that any project may have, such as `base.html` and `404.html`, to that.
    """

    def get_template(self, template_name: str) -> Sendable:
        own = template_name.removeprefix(OWN)
        top = own.partition("/")[0]
        is_ours = top in OUR_ADMIN or (top not in SHARED and (places.TEMPLATES / own).is_file())
        if own == template_name and not is_ours:
            raise TemplateDoesNotExist(template_name, backend=self)
        return super().get_template(own)


class Words(i18n.TranslateNode):
    """Words that stand in a template, looked up in half of the calls: they are text and safe as
    they are, whatever language they come in.
    """

    def render(self, context: Context) -> str:
        literal = self.filter_expression.var.literal
        text = SafeString(gettext(literal.replace("%", "%%")).replace("%%", "%"))
        if not self.asvar:
            return text
        context[self.asvar] = text
        return ""


def translate(parser: Parser, token: Token) -> i18n.TranslateNode:
    """The tag as Django has it."""
    node = i18n.do_translate(parser, token)
    said, is_more = node.filter_expression, node.message_context or node.noop
    if is_more or said.filters or not isinstance(getattr(said.var, "literal", None), str):
        return node
    return Words(said, noop=False, asvar=node.asvar)
