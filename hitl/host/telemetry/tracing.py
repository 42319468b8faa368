"""Send traces to a collector, by OpenTelemetry's protocol over HTTP.

The settings are OpenTelemetry's own (`OTEL_EXPORTER_OTLP_ENDPOINT`, `…_HEADERS`,
`OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, …): its library reads them. A thread of the library
sends the spans from a queue of limited length; while a collector is away, spans are lost, and no
step waits for it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from django.core.exceptions import ImproperlyConfigured

from checkpoints.telemetry import spans
from checkpoints.text import extras

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

SERVICE = "waystation"
SECONDS = 3
"""How long one attempt to send may take, unless a setting says otherwise: the end of a process
waits for the last attempt.
"""
_processor: BatchSpanProcessor | None = None


def begin(*, release: str) -> None:
    """Make spans in this process from now on, and send them.

    Raises ImproperlyConfigured where the package is missing.
    """
    try:
        import requests
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ImproperlyConfigured(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, and OpenTelemetry is not installed: "
            f"{extras.install('otel')}, or leave the setting out."
        ) from error
    os.environ.setdefault("OTEL_EXPORTER_OTLP_TIMEOUT", str(SECONDS))
    named = {"service.version": release} if release else {}
    if not os.environ.get("OTEL_SERVICE_NAME"):
        named["service.name"] = SERVICE
    provider = TracerProvider(resource=Resource.create(named))
    session = requests.Session()
    # an open connection would look like one that a body left behind in its process
    session.headers["Connection"] = "close"
    global _processor
    _processor = BatchSpanProcessor(OTLPSpanExporter(session=session))
    provider.add_span_processor(_processor)
    trace.set_tracer_provider(provider)
    spans.install(trace.get_tracer(spans.NAME))


def is_on() -> bool:
    """Whether spans are sent from here."""
    return _processor is not None


def flush() -> None:
    """Send the spans that were not sent yet: for a process that ends."""
    if _processor is not None:
        _processor.force_flush()
