"""What collects telemetry: a collector of others, what stands behind it (OTLP over HTTP, decoded by
the protocol's own package), and Sentry's envelopes.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.servers.private import answers, free_port
from tests.servers.stack import until


class Collector(ThreadingHTTPServer):
    """On a free port of the loopback."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Any] = []
        self.services: set[str] = set()
        self.reports: list[dict[str, Any]] = []
        self.raw = b""
        """All that came, to look for what must not be in it."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def dsn(self) -> str:
        return f"http://public@127.0.0.1:{self.server_port}/1"


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.raw += body
        if self.path == "/v1/traces":
            assert self.headers["Content-Type"] == "application/x-protobuf"
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.server.services.add(attributes(resource.resource)["service.name"])
                for scope in resource.scope_spans:
                    self.server.spans.extend(scope.spans)
        elif self.path.endswith("/envelope/"):
            for line in body.splitlines():
                item = json.loads(line)
                if "exception" in item or "logentry" in item:
                    self.server.reports.append(item)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def attributes(thing: Any) -> dict[str, Any]:
    """Of a span or a resource, by name."""
    return {
        pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in thing.attributes
    }


@contextmanager
def collecting() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)


@contextmanager
def rotel(behind: Collector, folder: Path) -> Iterator[str]:
    """A collector that nobody here wrote, before ours; yields where it listens.

    It decodes what comes, batches it, and sends it on as it understood it: what it takes for
    malformed never arrives.
    """
    port = free_port()
    agent = str(files("rotel") / "rotel-agent")
    command = [agent, "start", f"--otlp-http-endpoint=127.0.0.1:{port}"]
    command += [f"--otlp-grpc-endpoint=127.0.0.1:{free_port()}", "--exporter=otlp"]
    command += ["--otlp-exporter-protocol=http", f"--otlp-exporter-endpoint={behind.url}"]
    command += ["--otlp-exporter-batch-timeout=100ms"]
    with (folder / "collector.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        until(lambda: answers(port), what="the collector")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)
