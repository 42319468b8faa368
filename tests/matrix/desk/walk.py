"""Addresses of the admin with rows in them that there are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from django.contrib import admin
from django.db.models import Model
from django.template.response import SimpleTemplateResponse

from checkpoints import ids
from tests.matrix.world import World, row_of

ARGUMENT = re.compile(r"<(?:path:)?(?:object_id|id)>")
MODELS = {
    f"{model._meta.app_label}_{model._meta.model_name}": model for model in admin.site._registry
}


def url_of(world: World, path: str) -> str:
    """The address with a row in it that there is; the same one each time."""
    if path not in world.urls:
        world.urls[path] = _url_of(world, path)
    return world.urls[path]


def _url_of(world: World, path: str) -> str:
    model = next(
        (MODELS[key] for key in MODELS if path.startswith(f"admin/{key.replace('_', '/', 1)}/")),
        None,
    )
    row = chosen(world, model._meta.label, "paused") if model else None
    url = ARGUMENT.sub(str(row.pk) if row else "1", path).replace("<path:content_type_id>", "1")
    url = url.replace("^(?P<app_label>checkpoints|runs|hitl|auth)/$", "runs/").replace(
        "(?P<url>.*)$", "nothing"
    )
    return f"/{url}" + (
        f"?new={world.states['paused']['checkpoint_id']}" if path.endswith("/diff/") else ""
    )


@contextmanager
def without_words() -> Iterator[None]:
    """Pages are answered, and not rendered: for whoever asks what another role was shown, or by
    another method, and wants to know whether it opens.
    """
    with (
        patch.object(SimpleTemplateResponse, "rendered_content", ""),
        patch.object(type(admin.site), "each_context", lambda site, request: {}),
    ):
        yield


def chosen(world: World, label: str, state: str) -> Model:
    """A row of a model that belongs to this state of the world."""
    names = {
        "runs.WorkOrder": "order_id",
        "runs.Run": "run_id",
        "runs.Pause": "pause_id",
        "checkpoints.Checkpoint": "checkpoint_id",
    }
    name = {**names, "checkpoints.Thread": "thread_id"}.get(label)
    if name is None or not state:
        return row_of(label)
    shown = world.states[state][name]
    found: Model = row_of(label)._meta.default_manager.get(
        pk=ids.parse(shown.partition("_")[0], shown)
    )
    return found
