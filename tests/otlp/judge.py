"""Receives what `unfazed run` exports with OpenTelemetry's own messages for Python, those of collectors that are written in it.

    python judge.py UNFAZED AGENT

Nothing may be in the messages that OTLP has no field for.
"""

import http.server
import os
import subprocess
import sys
import threading

from google.protobuf import unknown_fields
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

MESSAGES = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}
received = {path: [] for path in MESSAGES}


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        assert self.headers["content-type"] == "application/x-protobuf"
        body = self.rfile.read(int(self.headers["content-length"]))
        received[self.path].append(MESSAGES[self.path].FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def known(message):
    assert len(unknown_fields.UnknownFieldSet(message)) == 0, f"{message.DESCRIPTOR.name} has unknown fields"
    for field, value in message.ListFields():
        if field.message_type:
            for part in value if field.is_repeated else [value]:
                known(part)


def main(unfazed, agent):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    run = subprocess.run(
        [unfazed, "run", agent], env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": url}, capture_output=True, text=True,
    )
    assert run.returncode == 0, run.stderr
    for messages in received.values():
        for message in messages:
            known(message)
    spans = [
        span for message in received["/v1/traces"] for of in message.resource_spans for scope in of.scope_spans for span in scope.spans
    ]
    metrics = {
        metric.name: metric.WhichOneof("data")
        for message in received["/v1/metrics"] for of in message.resource_metrics for scope in of.scope_metrics for metric in scope.metrics
    }
    ids = {span.span_id for span in spans}
    roots = [span.name for span in spans if not span.parent_span_id]
    assert roots == ["invoke_agent"], roots
    assert all(len(span.span_id) == 8 and len(span.trace_id) == 16 for span in spans)
    assert all(span.parent_span_id in ids for span in spans if span.parent_span_id)
    operations = {a.value.string_value for span in spans for a in span.attributes if a.key == "gen_ai.operation.name"}
    assert operations >= {"invoke_agent", "chat", "execute_tool"}, operations
    assert metrics["gen_ai.client.operation.duration"] == "histogram", metrics
    assert metrics["gen_ai.client.token.usage"] == "histogram", metrics
    print(f"{len(spans)} spans and {len(metrics)} metrics are read by OpenTelemetry's messages for Python")


main(*sys.argv[1:])
