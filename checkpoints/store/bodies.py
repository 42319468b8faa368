"""Store the body of a checkpoint, its state, in the checkpoint's row or in the backend that the
settings name, with a reference in the row.

The row itself (lineage, status, node, digest, size) is in the database in any case, since runs,
lists and locks need it there; so are blobs and the stretches of long lists, which threads share. A
body that goes to a backend is written before the row, and so before the commit that makes the body
count: a crash or a rollback leaves a body that no row names (`manage.py drop_stray_bodies`), never
a row without its body.

A reference names its store and its key, and rows with a body and rows with a reference may follow
each other. So the setting can be changed at any time, as long as CHECKPOINTS_FALLBACKS names the
store that was used before. A body from a backend is checked like any other: the digest of the whole
state is in the row.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import transaction

from checkpoints.contract import configured
from checkpoints.contract.base import BodyStore, CheckpointDamaged, shown
from checkpoints.state import codec, encryption

REFERENCE = '{"elsewhere":['
"""How the canonical text of a reference begins.

No body of ours begins so: it has `set` and `unset`, or `state`.
"""
SEALED = "checkpoints_checkpoint.body"
"""The associated data of an encrypted body, the same in every store."""
BodyKey = tuple[str, uuid.UUID, uuid.UUID]
"""The name of the store's class, the thread and the checkpoint."""


def keep(thread_id: uuid.UUID, checkpoint_id: uuid.UUID, text: codec.Text) -> codec.Text:
    """Store a body, and give the text for its row: the body itself, or a reference to it.

    Raises StoreUnavailable.
    """
    store = configured.primary()
    if not isinstance(store, BodyStore):
        return text
    store.put_body(thread_id, checkpoint_id, encryption.seal_text(text, SEALED))
    return reference(store, thread_id, checkpoint_id)


def reference(store: BodyStore, thread_id: uuid.UUID, key: uuid.UUID) -> codec.Text:
    """Write the text that a row has for a body of that store."""
    return codec.Text(codec.encode({"elsewhere": [type(store).__name__, thread_id.hex, key.hex]}))


def elsewhere(body: Any) -> bool:
    """Whether a row's body, as text or decoded, is a reference."""
    return (
        body.startswith(REFERENCE)
        if isinstance(body, str)
        else isinstance(body, dict) and body.keys() == {"elsewhere"}
    )


def fetch(texts: Sequence[str]) -> list[str]:
    """Give the bodies that these texts are or refer to, in one trip per store.

    Raises StoreUnavailable, or CheckpointDamaged where a body is missing.
    """
    places = {text: _place(text) for text in texts if elsewhere(text)}
    bodies: dict[uuid.UUID, str] = {}
    for store in configured.readable():
        if isinstance(store, BodyStore):
            for thread_id, keys in _by_thread(places.values(), but=bodies).items():
                bodies |= {
                    key: encryption.opened_text(text, SEALED)
                    for key, text in store.get_bodies(thread_id, keys).items()
                }
    return [_body(bodies, places[text]) if text in places else text for text in texts]


def drop_on_commit(found: Iterable[Any]) -> None:
    """Forget the bodies that rows refer to, once the transaction that drops the rows is committed.

    `found`: the rows' bodies, as text or decoded.
    """
    if not any(isinstance(store, BodyStore) for store in configured.readable()):
        return
    texts = [
        body if isinstance(body, str) else codec.encode(body) for body in found if elsewhere(body)
    ]
    if texts:
        transaction.on_commit(lambda: _drop(texts), robust=True)


def _drop(texts: Sequence[str]) -> None:
    for store in configured.readable():
        if isinstance(store, BodyStore):
            for thread_id, keys in _by_thread(map(_place, texts), but={}).items():
                store.drop_bodies(thread_id, keys)


def _place(text: str) -> BodyKey:
    name, thread, key = json.loads(text)["elsewhere"]
    return name, uuid.UUID(thread), uuid.UUID(key)


def _by_thread(
    places: Iterable[BodyKey], *, but: dict[uuid.UUID, str]
) -> dict[uuid.UUID, list[uuid.UUID]]:
    by_thread: dict[uuid.UUID, list[uuid.UUID]] = defaultdict(list)
    for _, thread_id, key in places:
        if key not in but:
            by_thread[thread_id].append(key)
    return by_thread


def _body(found: dict[uuid.UUID, str], place: BodyKey) -> str:
    name, _, key = place
    if key not in found:
        raise CheckpointDamaged(
            f"The state of {shown(key)} is not in the {name} where it was put, nor in another "
            "store that is set up."
            " Nothing was resumed from it."
        )
    return found[key]
