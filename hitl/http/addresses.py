"""What an address of the REST API asks of a request, known before its view is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import HttpRequest
from django.urls import Resolver404, resolve
from rest_framework.permissions import IsAuthenticated

if TYPE_CHECKING:  # whose import reads the throttles, which stand above this module
    from rest_framework.views import APIView

METHODS = ("get", "post", "put", "patch", "delete")


def view_of(request: HttpRequest) -> type[APIView] | None:
    """The view that will answer this request; None where it is none of the framework's."""
    try:
        view: type[APIView] | None = getattr(resolve(request.path_info).func, "cls", None)
    except Resolver404:
        return None
    return view


def takes(view: type[APIView] | APIView | None, method: str | None) -> bool:
    """Whether an address has this method; one that has none at all is no address, and says so
    itself.
    """
    if view is None or not any(hasattr(view, name) for name in METHODS):
        return True
    return hasattr(view, "get" if method == "HEAD" else str(method).lower())


def asks_who(view: type[APIView] | None) -> bool:
    """Whether nobody is served here without credentials."""
    return view is not None and IsAuthenticated in view.permission_classes
