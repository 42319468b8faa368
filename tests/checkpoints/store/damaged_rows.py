"""Threads with checkpoints, and rows that were damaged behind their back."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import connection
from hypothesis import strategies as st

from checkpoints.models import Thread
from tests.checkpoints.state.random_states import passes, values

updates = st.dictionaries(
    st.sampled_from(["a", "b", "drafts", "long"]), values | st.just("x" * 500)
).filter(passes)


def make_thread() -> Thread:
    owner, _ = User.objects.get_or_create(username="owner")
    return Thread.objects.create(owner=owner)


def damage(checkpoint, text):
    """Change stored bytes behind the product's back."""
    with connection.cursor() as cursor:
        key = checkpoint.pk if connection.vendor == "postgresql" else checkpoint.pk.hex
        cursor.execute("UPDATE checkpoints_checkpoint SET body = %s WHERE id = %s", [text, key])
