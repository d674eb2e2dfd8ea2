"""A collector of traces: an OTLP/HTTP server that decodes what it receives."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue


class ReceivedSpan:
    """A span as a collector sees it."""

    def __init__(self, span: Any, resource: Mapping[str, Any]) -> None:
        self.name: str = span.name
        self.kind: int = span.kind
        self.trace_id: str = span.trace_id.hex()
        self.id: str = span.span_id.hex()
        self.parent: str = span.parent_span_id.hex()
        self.is_error: bool = span.status.code == 2
        self.attributes = {entry.key: read_value(entry.value) for entry in span.attributes}
        self.resource = resource


def read_value(value: AnyValue) -> Any:
    kind = str(value.WhichOneof("value"))
    return [read_value(item) for item in value.array_value.values] if kind == "array_value" else getattr(value, kind)


class Collector:
    """A collector on this machine.

    Attributes:
        status: the status of its responses.
        first_statuses: those of the first responses.
        body: the body of its responses.
        location: where it redirects to; "" if it does not.
        delay: the seconds before each response.
        spans: the received spans.
        headers: the headers of each request.
    """

    def __init__(self) -> None:
        self.status, self.location, self.delay = 200, "", 0.0
        self.first_statuses: list[int] = []
        self.body = b""
        self.spans: list[ReceivedSpan] = []
        self.headers: list[Mapping[str, str]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.receive(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
                time.sleep(collector.delay)
                self.send_response(collector.first_statuses.pop(0) if collector.first_statuses else collector.status)
                if collector.location:
                    self.send_header("Location", collector.location)
                self.send_header("Retry-After", "0")
                self.send_header("Content-Length", str(len(collector.body)))
                with suppress(ConnectionError):  # a run that has ended does not wait for a slow collector
                    self.end_headers()
                    self.wfile.write(collector.body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the method's parameter
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def receive(self, path: str, headers: Mapping[str, str], body: bytes) -> None:
        assert (path, headers["content-type"]) == ("/v1/traces", "application/x-protobuf")
        self.headers.append(headers)
        data = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        for group in ExportTraceServiceRequest.FromString(data).resource_spans:
            resource = {entry.key: read_value(entry.value) for entry in group.resource.attributes}
            self.spans += [ReceivedSpan(span, resource) for scope in group.scope_spans for span in scope.spans]

    def find(self, name: str) -> list[ReceivedSpan]:
        """Return the spans whose names begin so, in the order in which they ended."""
        return [span for span in self.spans if span.name.startswith(name)]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
