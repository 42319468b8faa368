"""Columns of admin pages, whose words are made for each reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from django.utils.safestring import SafeString
from unfold import decorators
from unfold.utils import _boolean_icon, display_for_label

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

F = TypeVar("F", bound=Callable[..., Any])


def display(
    *,
    description: StrOrPromise,
    label: Mapping[str, str] | None = None,
    boolean: bool = False,
    **how: Any,
) -> Callable[[F], F]:
    """Decorate as Unfold does; its types know no text that is translated later.

    A label or an icon is written once for each value: Unfold renders a template for each row.
    """

    def decorate(function: F) -> F:
        shown = cast(F, decorators.display(description=cast(str, description), **how)(function))

        @wraps(shown)
        def drawn(*given: Any) -> SafeString:
            value = function(*given)
            return _icon(value) if label is None else _label(value, label.get(value))

        return cast(F, drawn) if boolean or label is not None else shown

    return decorate


@lru_cache(maxsize=200)
def _label(value: str, kind: str | None) -> SafeString:
    return display_for_label(value, "-", {value: kind} if kind else {})


@lru_cache(maxsize=3)
def _icon(value: bool) -> SafeString:
    return SafeString(_boolean_icon(value))
