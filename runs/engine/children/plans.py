"""What a checkpoint keeps of a `Gather`: who its child runs are, and what follows them.

Where all are started at once, the checkpoint lists them with their runs (`children`). Where they
wait for their turn, it names pages of them (`pages`), each a blob that is written once: a page is
read to start some of its children, and once more for the join, so neither costs more the more there
are. The run of a child follows from its place (`run_id`), before it is made. So a child is started
once: another start of it would be another row with that key.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from checkpoints import ids, store
from checkpoints.models import Checkpoint
from checkpoints.state import codec, redaction
from runs.models import Run, RunQuerySet
from runs.workflows.base import Child
from runs.workflows.base.rates import Rate

PAGE = 200
"""Children of a page."""
PLACES = 1 << 32
"""Keys of runs that a gather has for its children; they ascend with their places."""

Kept = Mapping[str, Any]
"""As metadata hold it."""


class Entry(NamedTuple):
    """A child as a page has it."""

    name: str
    run_id: uuid.UUID
    """Of its run, also before there is one."""
    steps: list[str]
    update: dict[str, Any] | None
    """What its state begins with beside its parent's; None where no page says it."""
    again: uuid.UUID | None = None
    """The run that it goes on for, where it was taken up again."""
    starts: bool = True
    """False where it had completed before."""


def new_child(child: Child) -> dict[str, Any]:
    """A child that is yet to begin, as a page has it; raises codec.NotJson."""
    codec.check(child.update, f"children[{child.name}].update")
    return {
        "name": child.name,
        "steps": list(child.steps),
        "update": redaction.redact(dict(child.update)),
    }


def write(children: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Keep the pages of these children; give the part of a plan that names them."""
    pages: list[list[Any]] = []
    found, size = iter(children), 0
    while page := list(islice(found, PAGE)):
        size += len(page)
        starts = sum("done" not in child for child in page)
        pages.append([store.put_blob(codec.encode(page).encode()), starts])
    base = uuid.UUID(int=ids.new().int & ~(PLACES - 1))
    return {"pages": pages, "size": size, "base": ids.show(Run.PREFIX, base)}


def is_paged(kept: Kept) -> bool:
    return "pages" in kept


def of(head: Checkpoint | None) -> Kept | None:
    """The plan of a checkpoint whose run waits for child runs that are started in turn."""
    if head is None or head.next_step:
        return None
    kept: Kept = head.metadata.get("gather") or {}
    return kept if is_paged(kept) else None


def rate_of(kept: Kept) -> Rate | None:
    return Rate(*kept["rate"]) if kept.get("rate") else None


def starting(kept: Kept, first: int, count: int) -> list[Entry]:
    """Those of the children that are to be started, from the number `first` on."""
    found: list[Entry] = []
    passed = 0
    for page, (_, starts) in enumerate(kept["pages"]):
        if passed + starts > first and len(found) < count:
            own = [entry for entry in _read(kept, page) if entry.starts]
            found += own[max(0, first - passed) :][: count - len(found)]
        passed += starts
    return found


def to_start(kept: Kept) -> int:
    """How many of its children had not completed when it was written."""
    return sum(starts for _, starts in kept["pages"])


def batches(kept: Kept) -> Iterator[list[Entry]]:
    """All children in their order, some at a time."""
    if is_paged(kept):
        yield from (_read(kept, page) for page in range(len(kept["pages"])))
        return
    listed = iter(kept["children"])
    while some := list(islice(listed, PAGE)):
        yield [
            Entry(child["name"], ids.parse(Run.PREFIX, child["run_id"]), [], None) for child in some
        ]


def runs(kept: Kept) -> RunQuerySet:
    """Their runs, as far as there are any."""
    if not is_paged(kept):
        listed = [ids.parse(Run.PREFIX, child["run_id"]) for child in kept["children"]]
        return Run.objects.filter(pk__in=listed)
    base = ids.parse(Run.PREFIX, kept["base"])
    return Run.objects.filter(pk__gte=base, pk__lt=uuid.UUID(int=base.int + PLACES))


def begun(kept: Kept, most: int) -> list[tuple[str, uuid.UUID]]:
    """Names and runs of the first of them, as many as are started at first."""
    if is_paged(kept):
        rate = rate_of(kept)
        most = min(most, kept["at_once"], rate.most if rate else most, PAGE)
        entries = starting(kept, 0, most)
    else:
        entries = next(batches({"children": kept.get("children", [])[:most]}), [])
    return [(entry.name, entry.run_id) for entry in entries]


def _read(kept: Kept, page: int) -> list[Entry]:
    base = ids.parse(Run.PREFIX, kept["base"]).int + page * PAGE
    return [
        _entry(child, uuid.UUID(int=base + place))
        for place, child in enumerate(_page(kept["pages"][page][0]))
    ]


@lru_cache(maxsize=2)
def _page(digest: str) -> list[dict[str, Any]]:
    """Whoever starts one of its children starts others of it soon."""
    found: list[dict[str, Any]] = json.loads(store.get_blob(digest))
    return found


def _entry(child: Mapping[str, Any], run_id: uuid.UUID) -> Entry:
    if "done" in child:
        return Entry(child["name"], ids.parse(Run.PREFIX, child["done"]), [], None, starts=False)
    if "again" in child:
        again = ids.parse(Run.PREFIX, child["again"])
        return Entry(child["name"], run_id, [], None, again)
    return Entry(child["name"], run_id, child["steps"], child["update"])
