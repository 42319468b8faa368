"""Templates as Django has them, whose text can always be sent."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.template.backends.django import DjangoTemplates, Template
from django.utils.safestring import SafeString

from checkpoints.state import codec


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
