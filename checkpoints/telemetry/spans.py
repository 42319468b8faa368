"""Spans of OpenTelemetry, where a process has been told to make them.

`tracing` is None where it has not: whoever would begin a span asks that first, and nothing of
OpenTelemetry is imported. What stands in a span names things and says nothing of what they hold: no
state, no question, no answer, no address of a request beyond its route.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

NAME = "waystation"
TRACE, SPAN = re.compile(r"(?!0{32})[0-9a-f]{32}"), re.compile(r"(?!0{16})[0-9a-f]{16}")
PARENT = "traceparent"


@dataclass(frozen=True, slots=True)
class SpanRef:
    """A span by its ids, in hexadecimal: another worker may go on below it."""

    trace: str
    span: str
    sampled: bool = True


def place(trace: Any, span: Any, *, sampled: bool = True) -> SpanRef | None:
    """A place as it was kept; None where that is none, since rows may hold anything."""
    known = (
        isinstance(trace, str)
        and isinstance(span, str)
        and TRACE.fullmatch(trace)
        and SPAN.fullmatch(span)
    )
    return SpanRef(str(trace), str(span), sampled) if known else None


class Tracing:
    """What makes spans, once OpenTelemetry is there."""

    def __init__(self, tracer: Tracer) -> None:
        from opentelemetry import trace  # here: optional, and slow to import
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._api, self._tracer = trace, tracer
        self._propagator = TraceContextTextMapPropagator()

    def root(
        self, name: str, attributes: Mapping[str, Any], *, link: SpanRef | None, began: float
    ) -> SpanRef:
        """A span that begins a trace and ends at once, from `began` (seconds of the epoch) till
        now; it tells of the trace before it by a link.
        """
        links = [self._api.Link(self._context(link))] if link else []
        now = time.time_ns()
        span = self._tracer.start_span(
            name,
            context=self._api.set_span_in_context(self._api.INVALID_SPAN),
            attributes=dict(attributes),
            links=links,
            start_time=min(int(began * 1e9), now),
        )
        span.end(now)
        return self._place(span)

    @contextmanager
    def below(self, parent: SpanRef, name: str, attributes: Mapping[str, Any]) -> Iterator[Span]:
        """A span below one of this or another process, current meanwhile."""
        above = self._api.set_span_in_context(self._api.NonRecordingSpan(self._context(parent)))
        with self._tracer.start_as_current_span(
            name,
            context=above,
            attributes=dict(attributes),
            record_exception=False,  # its words may hold what is nobody's business
            set_status_on_exception=False,
        ) as span:
            yield span

    @contextmanager
    def request(self, method: str, headers: Mapping[str, str]) -> Iterator[Span]:
        """A request's span, below the one that its caller names."""
        carrier = {PARENT: headers[PARENT]} if PARENT in headers else {}
        with self._tracer.start_as_current_span(
            method,
            context=self._propagator.extract(carrier),
            kind=self._api.SpanKind.SERVER,
            attributes={"http.request.method": method},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield span

    def note(self, name: str, value: str) -> None:
        """Say something of the current span's work."""
        self._api.get_current_span().set_attribute(name, value)

    def fail(self, kind: str, words: str = "") -> None:
        """Say that the current span's work failed."""
        span = self._api.get_current_span()
        span.set_attribute("error.type", kind)
        span.set_status(self._api.StatusCode.ERROR, words or None)

    def ids(self) -> dict[str, str]:
        """The current span, as OpenTelemetry names it in logs."""
        context = self._api.get_current_span().get_span_context()
        if not context.is_valid:
            return {}
        place = self._of(context)
        return {"trace_id": place.trace, "span_id": place.span}

    def _place(self, span: Span) -> SpanRef:
        return self._of(span.get_span_context())

    def _of(self, context: Any) -> SpanRef:
        return SpanRef(
            self._api.format_trace_id(context.trace_id),
            self._api.format_span_id(context.span_id),
            context.trace_flags.sampled,
        )

    def _context(self, place: SpanRef) -> Any:
        return self._api.SpanContext(
            trace_id=int(place.trace, 16),
            span_id=int(place.span, 16),
            is_remote=True,
            trace_flags=self._api.TraceFlags(place.sampled),
        )


tracing: Tracing | None = None


def install(tracer: Tracer | None) -> None:
    """Make spans with this tracer from now on; None makes none."""
    global tracing
    tracing = None if tracer is None else Tracing(tracer)
