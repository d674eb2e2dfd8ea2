"""Problems with traces: what is reported if a collector or a variable is at fault, and what never gets out."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tests import wire
from tests.model_server import Reply
from tests.program import ASK, Running
from tests.traces.bench import KEY, TraceBench

PASSWORD = "hunter2-0123456789"


@pytest.mark.slow_after_first
@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_the_status_of_a_refusal_is_reported(bench: TraceBench, status: int) -> None:
    bench.server.reply(wire.says("hi"))
    bench.collector.status = status
    stderr = bench.ask("go").stderr
    assert "not sent" in stderr
    assert str(status) in stderr
    assert "retrying" not in stderr, "the process ends"


@pytest.mark.slow
def test_a_failure_after_which_a_retry_succeeds_is_not_reported(bench: TraceBench) -> None:
    bench.server.reply(wire.calls(("bash", {"command": "sleep 0.5"})), wire.says("Done."))
    bench.collector.first_statuses = [503]
    result = bench.ask("go", env={"OTEL_BSP_SCHEDULE_DELAY": "20"})
    assert len(bench.collector.headers) > 2
    assert bench.collector.find("invoke_agent")
    assert "traces" not in result.stderr


@pytest.mark.slow
def test_rejected_spans_are_reported(bench: TraceBench) -> None:
    bench.server.reply(wire.says("hi"))
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = 2
    response.partial_success.error_message = "the quota is used up"
    bench.collector.body = response.SerializeToString()
    result = bench.ask("go")
    assert (result.code, result.text) == (0, "hi\n")
    assert "2 spans" in result.stderr
    assert "the quota is used up" in result.stderr


@pytest.mark.slow
def test_a_warning_in_a_response_is_not_a_problem(bench: TraceBench) -> None:
    bench.server.reply(wire.says("hi"))
    response = ExportTraceServiceResponse()
    response.partial_success.error_message = "use another version"
    bench.collector.body = response.SerializeToString()
    assert bench.ask("go").stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_TRACES_SAMPLER", "foo"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "abc"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zip"),
        ("OTEL_RESOURCE_ATTRIBUTES", "foo"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "foo"),
    ],
)
def test_an_ignored_variable_does_not_mean_that_no_traces_are_sent(bench: TraceBench, name: str, value: str) -> None:
    bench.server.reply(wire.says("hi"))
    result = bench.ask("go", env={name: value})
    assert bench.collector.find("invoke_agent")
    assert "ignored" in result.stderr
    assert "not sent" not in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"])
def test_a_limit_of_attributes_is_not_a_problem(bench: TraceBench, name: str) -> None:
    bench.server.reply(wire.says("hi"))
    result = bench.ask("go", env={name: "5"})
    assert bench.collector.find("invoke")
    assert result.stderr == ""


@pytest.mark.slow
def test_an_attribute_that_cannot_be_sent_is_not_a_problem(bench: TraceBench) -> None:
    bench.server.reply(wire.says("hi"))
    assert bench.ask("go", env={"OTEL_SERVICE_NAME": "\udcff"}).stderr == ""
    assert bench.collector.find("invoke")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [("OTEL_BSP_MAX_QUEUE_SIZE", "0", "max_queue_size"), ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "many", "many")],
)
def test_an_invalid_variable_changes_only_one_line(bench: TraceBench, name: str, value: str, shown: str) -> None:
    bench.server.reply(wire.says("hi"))
    result = bench.ask("go", env={name: value})
    assert (result.code, result.text, result.stderr.count("\n")) == (0, "hi\n", 1)
    assert "no traces are sent: " in result.stderr
    assert shown in result.stderr


@pytest.mark.slow
def test_only_otlp_is_an_exporter(bench: TraceBench) -> None:
    bench.server.reply(wire.says("hi"))
    result = bench.ask("go", env={"OTEL_TRACES_EXPORTER": "console"})
    assert not bench.collector.headers
    assert "no traces are sent: " in result.stderr
    assert "console" in result.stderr
    bench.ask("go", env={"OTEL_TRACES_EXPORTER": "console, otlp"})
    assert bench.collector.headers


@pytest.mark.slow
def test_grpc_is_named_if_spans_are_lost(bench: TraceBench) -> None:
    bench.server.reply(wire.says("hi"))
    variables = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    assert bench.ask("go", env=variables).stderr == ""
    assert bench.collector.headers
    bench.collector.status = 400
    assert "grpc" in bench.ask("go", env=variables).stderr


@pytest.mark.slow
@pytest.mark.parametrize("address", ["foo://joe:{}@h", "joe:{}@h:4318", "http://joe:{}@h:99999", "http://{}@h:99999"])
def test_the_password_of_an_address_is_not_shown(bench: TraceBench, address: str) -> None:
    bench.server.reply(wire.calls(("bash", {"command": "env"})), wire.says("Done."))
    result = bench.ask("go", env={"OTEL_EXPORTER_OTLP_ENDPOINT": address.format(PASSWORD)})
    assert "not sent" in result.stderr
    assert PASSWORD not in result.stderr
    assert "4318" not in wire.asked(bench.server.requests[-1].json), "a command does not get the variable"
    assert PASSWORD.encode() not in bench.server.requests[-1].body


@pytest.mark.slow
def test_a_malformed_header_is_not_shown(bench: TraceBench) -> None:
    bench.server.reply(wire.says("hi"))
    result = bench.ask("go", env={"OTEL_EXPORTER_OTLP_HEADERS": f"a=b,Authorization: Bearer {PASSWORD}"})
    assert "ignored" in result.stderr
    assert PASSWORD not in result.stderr


@pytest.mark.slow
def test_only_secret_headers_are_redacted(bench: TraceBench) -> None:
    bench.server.reply(wire.says("hi"))
    headers = f"x-scope-orgid=production,Authorization=Basic%20{PASSWORD},x-honeycomb-team=hcaik-0123456789"
    bench.ask(f"production {PASSWORD} hcaik-0123456789", env={"OTEL_EXPORTER_OTLP_HEADERS": headers})
    assert wire.asked(bench.server.requests[-1].json) == "production [key removed] [key removed]"


@pytest.mark.slow
def test_commands_get_no_headers_of_other_signals(bench: TraceBench) -> None:
    bench.server.reply(wire.calls(("bash", {"command": "env"})), wire.says("Done."))
    names = [f"OTEL_EXPORTER_OTLP_{signal_name}_HEADERS" for signal_name in ("TRACES", "METRICS", "LOGS")]
    bench.ask("go", env=dict.fromkeys(names, f"api-key={PASSWORD}"))
    assert "_HEADERS" not in wire.asked(bench.server.requests[-1].json)


@pytest.mark.slow
def test_netrc_does_not_replace_the_headers(bench: TraceBench) -> None:
    bench.server.reply(wire.says("hi"))
    Path(bench.env["HOME"], ".netrc").write_text(f"default login joe password {PASSWORD}\n")
    bench.ask("go", env={"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20token"})
    bench.ask("go")
    assert [headers.get("authorization") for headers in bench.collector.headers] == ["Bearer token", None]


@pytest.mark.slow
def test_the_address_may_contain_credentials(bench: TraceBench) -> None:
    bench.server.reply(wire.says("hi"))
    bench.ask("go", env={"OTEL_EXPORTER_OTLP_ENDPOINT": bench.collector.url.replace("//", "//joe:pass@")})
    assert bench.collector.headers[0]["authorization"] == "Basic am9lOnBhc3M="


@pytest.mark.slow
def test_a_key_in_place_of_a_model_is_redacted(bench: TraceBench) -> None:
    bench.server.reply(wire.says("hi"))
    bench.ask("-m", KEY, "go")
    assert bench.collector.find("chat [key removed]")
    assert KEY not in repr([(span.name, span.attributes) for span in bench.collector.spans])


@pytest.mark.slow
def test_surrogates_and_large_numbers_do_not_lose_spans(bench: TraceBench) -> None:
    call = wire.chunk(
        {"tool_calls": [{"index": 0, "id": "i\ud83d", "function": {"name": "n\ud83d", "arguments": "{}"}}]}
    )
    bench.server.reply(wire.streams(json.dumps(call), wire.finish("tool_calls")), wire.says("Done."))
    result = bench.ask("-o", f"seed={10**30}", "go")
    assert "traces" not in result.stderr
    [tool] = bench.collector.find("execute_tool")
    assert tool.attributes["gen_ai.tool.name"] == "n\ufffd"


@pytest.mark.slow
def test_a_second_ctrl_c_ends_the_wait_for_the_collector(bench: TraceBench) -> None:
    bench.server.reply(Reply((wire.sse(wire.text("one"), done=False), 60.0), content_type="text/event-stream"))
    bench.collector.delay = 60
    with Running([ASK, "go"], env=bench.env, cwd=bench.home.work) as running:
        running.wait_for("one")
        running.signal()
        running.wait_for("interrupted")
        while running.process.poll() is None:  # at each point of the end of the process
            running.signal()
            time.sleep(0.002)
        result = running.finish()
    assert result.code == 130
    assert "Traceback" not in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_after_the_answer_ends_the_wait_for_the_collector(bench: TraceBench, number: int) -> None:
    bench.server.reply(wire.says("hi"))
    bench.collector.delay = 60
    with Running([ASK, "go"], env=bench.env, cwd=bench.home.work) as running:
        while not bench.collector.headers:
            time.sleep(0.01)
        running.signal(number)
        started = time.monotonic()
        result = running.finish()
    assert (result.code, result.text, result.stderr) == (0, "hi\n", "")
    assert time.monotonic() - started < 30


@pytest.mark.slow
def test_rows_with_tools_remember_that_the_collector_does_not_answer(bench: TraceBench) -> None:
    bench.server.reply(wire.says("hi"))
    command = ("map", "say {{line}}", "--tools", "--fresh", "-j", "1")
    seconds = bench.ask(*command, stdin=b"a\nb\nc\nd\n").seconds
    bench.collector.delay = 9
    result = bench.ask(*command, stdin=b"a\nb\nc\nd\n")
    assert (result.code, result.text.count("hi")) == (0, 4)
    assert result.stderr.count("traces were not sent: ") == 1
    assert result.seconds - seconds < 7.5, "only the first of four rows waits for 2 s"


@pytest.mark.slow
def test_rows_with_tools_report_a_refusal(bench: TraceBench) -> None:
    bench.server.reply(wire.says("hi"))
    bench.collector.status = 403
    result = bench.ask("map", "say {{line}}", "--tools", stdin=b"a\nb\n")
    assert result.text.count("hi") == 2
    assert result.stderr.count("traces were not sent: ") == 1
    assert "403" in result.stderr
