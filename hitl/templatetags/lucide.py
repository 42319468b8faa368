"""The icons of `lucide`, each drawn once: the library copies and writes its XML at every use, and a
page has a hundred.
"""

from __future__ import annotations

from functools import lru_cache

from django import template
from django.utils.safestring import SafeString
from lucide.templatetags.lucide import lucide as draw

register = template.Library()


@register.simple_tag
@lru_cache(maxsize=500)
def lucide(name: str, *, size: int | None = 24, **attributes: object) -> SafeString:
    """An icon as inline SVG, with these attributes."""
    return SafeString(draw(name, size=size, **attributes))
