"""The API as programs see it."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from hypothesis import strategies as st

ORDERS = "/api/v1/work-orders"
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=()), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
"""JSON of all kinds."""


def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    """The problem document of an answer, checked for its form (RFC 9457)."""
    body: dict[str, Any] = response.json()
    assert (response.status_code, body["code"]) == (status, code)
    assert response["Content-Type"] == "application/problem+json"
    assert body["type"] == "about:blank"
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    return body


@pytest.fixture
def ana_api(templates, ana, api):
    return api(ana)


@pytest.fixture
def editor_api(ana, ana_api):
    """Ana, who may also edit templates."""
    ana.user_permissions.add(Permission.objects.get(codename="add_template"))
    return ana_api
