"""A run's traces: a span for each step, below one that begins a trace when the run begins and each
time it goes on.

A trace of its own for each stretch between two waits: a question that was open for three days is a
link between two traces, not a span of three days. Where the next step's span belongs is in the
metadata of the checkpoint that it begins from, so that any worker finds it; a stretch that ends
says so there, and the next one links to it. Without OpenTelemetry nothing of this is done, and no
step reads any of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from checkpoints.models import Checkpoint
from checkpoints.telemetry import spans
from checkpoints.telemetry.spans import SpanRef, Tracing
from runs.models import Run

TRACE = "trace"
"""Key of a checkpoint's metadata: `trace` and `span` by their ids, the `run`, and `over` where the
stretch ended.
"""


def enter(tracing: Tracing, run: Run, head: Checkpoint) -> SpanRef:
    """The span below which the run's next steps stand: that of the stretch that it is in, or of one
    that begins here.
    """
    kept = head.metadata.get(TRACE)
    known: Mapping[str, Any] = kept if isinstance(kept, Mapping) else {}
    before = spans.place(known.get("trace"), known.get("span"), sampled=not known.get("unsampled"))
    if before and known.get("run") == run.shown_id and not known.get("over"):
        return before
    begins = before is None and not head.parent_id
    return tracing.root(
        f"{'begin' if begins else 'resume'} {run.definition.template_slug}",
        {**_of(run), "waystation.template": str(run.frozen)},
        link=before,
        began=run.due_at.timestamp(),
    )


def metadata(place: SpanRef, run: Run, *, over: bool) -> dict[str, Any]:
    """What a checkpoint keeps of it; `over` where nothing follows without somebody, or for a
    while.
    """
    known: dict[str, Any] = {"trace": place.trace, "span": place.span, "run": run.shown_id}
    marks = {"over": over, "unsampled": not place.sampled}
    return {TRACE: {**known, **{name: True for name, so in marks.items() if so}}}


@contextmanager
def step(
    tracing: Tracing, place: SpanRef, run: Run, name: str, *, loop: int, attempts: int
) -> Iterator[Any]:
    """The span of one step, from its beginning to its commit."""
    about = {**_of(run), "waystation.step": name, "waystation.step.loop": loop}
    if attempts:
        about["waystation.step.attempt"] = attempts + 1
    with tracing.below(place, f"step {name}", about) as span:
        try:
            yield span
        except BaseException as error:
            tracing.fail(type(error).__name__)
            raise


def _of(run: Run) -> dict[str, str]:
    return {
        "waystation.run.id": run.shown_id,
        "waystation.thread.id": run.thread.shown_id,
    }
