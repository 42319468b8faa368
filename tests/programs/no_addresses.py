"""The addresses of a project that has none."""

from typing import Any

urlpatterns: list[Any] = []
