"""Columns of admin pages, whose words are made for each reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from unfold import decorators

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

F = TypeVar("F", bound=Callable[..., Any])


def display(*, description: StrOrPromise, **how: Any) -> Callable[[F], F]:
    """Decorate as Unfold does, whose types know no words that are translated later."""
    return cast(Callable[[F], F], decorators.display(description=cast(str, description), **how))
