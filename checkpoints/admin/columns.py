"""Columns of admin pages, whose words are made for each reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from django.utils.safestring import SafeString
from unfold import decorators
from unfold.utils import _boolean_icon, display_for_label

from checkpoints.text.states import TONES, WORDS, state_words

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

OF_TONES = {"good": "success", "bad": "danger", "wait": "warning", "work": "info"}
STATES = {state: OF_TONES[tone] for state, tone in TONES.items()}
"""State of a run, a question and the like → the kind of its label."""
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
            if label is None:
                return _icon(value)
            return _label(state_words(value) if value in WORDS else value, label.get(value))

        return cast(F, drawn) if boolean or label is not None else shown

    return decorate


@lru_cache(maxsize=200)
def _label(value: str, kind: str | None) -> SafeString:
    return display_for_label(value, "-", {value: kind} if kind else {})


@lru_cache(maxsize=3)
def _icon(value: bool) -> SafeString:
    return SafeString(_boolean_icon(value))
