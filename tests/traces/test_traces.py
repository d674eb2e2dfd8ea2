"""Traces, as a collector receives them from the installed command."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from tests import wire
from tests.cli.test_cmd import CHOICES
from tests.missing_packages import make_command_without
from tests.model_server import HOLD, Reply
from tests.program import ASK, Running, run, run_on_terminal
from tests.traces.bench import COLLECTOR_KEY, KEY, TraceBench
from tests.traces.collector import Collector


def test_a_run_with_tools_is_one_trace_without_content(bench: TraceBench) -> None:
    two_calls = wire.calls(("bash", {"command": "echo secret-output"}), ("bash", {"command": "exit 3"}))
    bench.server.reply(two_calls, wire.says("Done."))
    result = bench.ask("-o", "temperature=0.5", "secret-question")
    assert (result.code, result.text) == (0, "Done.\n"), result.stderr
    assert "traces" not in result.stderr
    [run_span], chats, [good, bad] = map(bench.collector.find, ("invoke_agent ask", "chat m", "execute_tool bash"))
    assert len(bench.collector.spans) == 5
    assert {span.trace_id for span in bench.collector.spans} == {run_span.trace_id}
    assert {span.parent for span in (*chats, good, bad)} == {run_span.id}
    assert (run_span.parent, run_span.kind, chats[0].kind, good.kind) == ("", 1, 3, 1)
    assert run_span.resource["service.name"] == "ask"
    assert run_span.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert run_span.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert {span.attributes["gen_ai.conversation.id"] for span in (run_span, *chats)} == {result.conversation}
    chat = chats[0].attributes
    assert (chat["gen_ai.operation.name"], chat["gen_ai.provider.name"]) == ("chat", "openrouter")
    assert (chat["gen_ai.request.model"], chat["gen_ai.request.temperature"]) == ("m", 0.5)
    assert chat["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert chat["server.address"] == "127.0.0.1"
    assert f":{chat['server.port']}" in bench.server.base_url
    assert chats[1].attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert (good.attributes["gen_ai.tool.name"], good.is_error) == ("bash", False)
    assert good.attributes["gen_ai.tool.call.id"] != bad.attributes["gen_ai.tool.call.id"]
    sent = repr([span.attributes for span in bench.collector.spans])
    assert "secret" not in sent
    assert "echo" not in sent
    assert bench.collector.headers[0]["api-key"] == COLLECTOR_KEY


@pytest.mark.slow
def test_usage_and_the_response_are_described(bench: TraceBench) -> None:
    bench.server.reply(wire.streams(wire.text("hi"), wire.finish(), wire.usage(12, 7)))
    bench.ask("go")
    [chat], [run_span] = bench.collector.find("chat"), bench.collector.find("invoke_agent")
    for span in (chat, run_span):
        assert span.attributes["gen_ai.usage.input_tokens"] == 12
        assert span.attributes["gen_ai.usage.output_tokens"] == 7
    assert {"gen_ai.response.id", "gen_ai.response.model"} <= chat.attributes.keys()
    assert chat.attributes["gen_ai.response.time_to_first_chunk"] > 0


@pytest.mark.slow_after_first
@pytest.mark.parametrize("way", ["variable", "setting"])
def test_content_is_sent_redacted_if_asked(bench: TraceBench, way: str) -> None:
    bench.server.reply(
        wire.calls(("bash", {"command": "echo out; echo $OTEL_EXPORTER_OTLP_HEADERS"})), wire.says("Done.")
    )
    variables = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"} if way == "variable" else {}
    if way == "setting":
        bench.home.configure("trace_content = true\n")
    bench.ask(f"question {KEY} {COLLECTOR_KEY}", env=variables)
    [first, second], [tool], [run_span] = map(bench.collector.find, ("chat", "execute_tool", "invoke_agent"))
    assert json.loads(first.attributes["gen_ai.system_instructions"])[0]["type"] == "text"
    [question] = json.loads(first.attributes["gen_ai.input.messages"])
    text = "question [key removed] [key removed]"
    assert question == {"role": "user", "parts": [{"type": "text", "content": text}]}
    assert [each["role"] for each in json.loads(second.attributes["gen_ai.input.messages"])] == [
        "user",
        "assistant",
        "tool",
    ]
    [answer] = json.loads(second.attributes["gen_ai.output.messages"])
    assert answer == {"role": "assistant", "parts": [{"type": "text", "content": "Done."}], "finish_reason": "stop"}
    assert json.loads(run_span.attributes["gen_ai.output.messages"]) == [answer]
    [call] = json.loads(first.attributes["gen_ai.output.messages"])
    assert call["finish_reason"] == "tool_call", "the word of the JSON Schema"
    assert "echo out" in tool.attributes["gen_ai.tool.call.arguments"]
    assert "out" in tool.attributes["gen_ai.tool.call.result"]
    sent = repr([span.attributes for span in bench.collector.spans])
    assert KEY not in sent
    assert COLLECTOR_KEY not in sent, "a command gets no headers of the collector"


@pytest.mark.slow
def test_the_content_of_rows_is_redacted(bench: TraceBench) -> None:
    bench.server.reply(wire.says("hi"))
    bench.home.configure("trace_content = true\n")
    bench.ask("map", "say {{line}}", stdin=f"{KEY}\n".encode())
    [run_span] = bench.collector.find("invoke_agent")
    assert "[key removed]" in run_span.attributes["gen_ai.input.messages"]
    assert KEY not in repr([span.attributes for span in bench.collector.spans])


def test_each_try_and_each_model_is_a_span(bench: TraceBench) -> None:
    bench.server.reply(wire.fails(429), wire.fails(503), wire.says("hi"))
    bench.home.configure("[network]\ntries = 2\nbackoff = 0\n")
    result = bench.ask("--fallback", "openrouter:other", "go")
    assert result.text == "hi\n", result.stderr
    spans = bench.collector.find("chat")
    assert [span.attributes.get("error.type") for span in spans] == ["429", "503", None]
    assert [span.is_error for span in spans] == [True, True, False]
    assert [span.name for span in spans] == ["chat m", "chat m", "chat other"]


@pytest.mark.slow
def test_an_error_ends_the_run_with_its_type(bench: TraceBench) -> None:
    bench.server.reply(wire.fails(401, "no secret-text"))
    assert bench.ask("go").code == 6
    [run_span] = bench.collector.find("invoke_agent")
    assert (run_span.is_error, run_span.attributes["error.type"]) == (True, "401")


@pytest.mark.slow
def test_a_provider_that_does_not_answer_in_time_is_an_error(bench: TraceBench) -> None:
    bench.server.reply(Reply((HOLD,)))
    bench.home.configure("[network]\ntries = 1\n")
    assert bench.ask("--timeout", "0.3", "go").code == 5
    [chat], [run_span] = bench.collector.find("chat"), bench.collector.find("invoke_agent")
    assert (chat.attributes["error.type"], run_span.attributes["error.type"]) == ("NetworkError", "NetworkError")


@pytest.mark.slow
def test_errors_of_tool_calls_are_told_apart(bench: TraceBench) -> None:
    calls = [("bash", {"command": "sleep 9"}), ("nope", {}), ("bash", "{bad"), ("read_file", {"filepath": "none"})]
    bench.server.reply(wire.calls(*calls), wire.says("Done."))
    bench.ask("--command-timeout", "0.2", "go")
    errors = [span.attributes["error.type"] for span in bench.collector.find("execute_tool")]
    assert errors == ["tool_error", "unknown_tool", "invalid_arguments", "tool_error"]


@pytest.mark.slow
def test_a_denied_call_is_an_error(bench: TraceBench) -> None:
    bench.server.reply(wire.calls(("bash", {"command": "touch secret-file"})), wire.says("Done."))
    assert bench.ask("--confirm", "go").code == 8
    [tool], [run_span] = bench.collector.find("execute_tool"), bench.collector.find("invoke_agent")
    assert (tool.attributes["error.type"], run_span.attributes["error.type"]) == ("denied", "SafetyError")
    assert "secret-file" not in repr([span.attributes for span in bench.collector.spans])


@pytest.mark.slow
def test_commands_continue_the_trace(bench: TraceBench) -> None:
    bench.server.reply(wire.calls(("bash", {"command": "echo $TRACEPARENT"})), wire.says("Done."))
    bench.ask("go")
    [tool] = bench.collector.find("execute_tool")
    assert f"00-{tool.trace_id}-{tool.id}-" in wire.asked(bench.server.requests[-1].json)


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_safe_mode_is_traced_and_its_commands_get_no_variables(bench: TraceBench) -> None:
    bench.server.reply(wire.calls(("bash", {"command": "env"})), wire.says("Done."))
    result = bench.ask("--safe", "go")
    assert result.text == "Done.\n", result.stderr
    assert [span.is_error for span in bench.collector.find("execute_tool")] == [False]
    assert "OTEL" not in wire.asked(bench.server.requests[-1].json)


@pytest.mark.slow
def test_the_trace_of_the_caller_is_continued_and_standard_variables_apply(bench: TraceBench) -> None:
    bench.server.reply(wire.says("hi"))
    trace_id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    variables = {
        "TRACEPARENT": f"00-{trace_id}-{parent}-01",
        "OTEL_SERVICE_NAME": "bot",
        "OTEL_RESOURCE_ATTRIBUTES": "team=blue",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
    }
    bench.ask("go", env=variables)
    [run_span] = bench.collector.find("invoke_agent")
    assert (run_span.trace_id, run_span.parent) == (trace_id, parent)
    assert (run_span.resource["service.name"], run_span.resource["team"]) == ("bot", "blue")
    assert bench.collector.headers[0]["content-encoding"] == "gzip"


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    "variables",
    [
        {"ASK_OTEL": "0"},
        {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_TRACES_SAMPLER": "always_off"},
    ],
)
def test_nothing_is_sent_when_off(bench: TraceBench, variables: dict[str, str]) -> None:
    bench.server.reply(wire.says("hi"))
    bench.home.configure("traces = true\n")
    result = bench.ask("go", env=variables)
    assert (result.text, result.stderr.strip()) == ("hi\n", "")
    assert not bench.collector.headers


@pytest.mark.slow_after_first
@pytest.mark.parametrize("problem", ["refused", "unavailable", "forbidden", "slow", "redirect", "no host"])
def test_a_broken_collector_changes_only_one_line(bench: TraceBench, problem: str) -> None:
    bench.server.reply(wire.says("hi"))
    collector, variables = bench.collector, {}
    with Collector() as elsewhere:
        match problem:
            case "refused":
                variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:9"
            case "unavailable":
                collector.status = 503
            case "forbidden":
                collector.status = 403
            case "slow":
                collector.delay = 60
            case "redirect":
                collector.status, collector.location = 307, f"{elsewhere.url}/v1/traces"
            case "no host":
                variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://collector.invalid:4318"
        result = bench.ask("go", env=variables)
        assert (result.code, result.text) == (0, "hi\n")
        assert result.stderr.count("\n") == 1
        assert result.stderr.startswith("ask: traces were not sent: ")
        assert "HTTPConnection" not in result.stderr
        if endpoint := variables.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
            assert f"at {endpoint.removeprefix('http://')} (" in result.stderr
            assert "OTEL_EXPORTER_OTLP_ENDPOINT" in result.stderr
        assert result.seconds < 30
        assert not elsewhere.headers, "the headers may contain a key"


@pytest.mark.slow_after_first
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_spans(bench: TraceBench, number: int, code: int) -> None:
    bench.server.reply(Reply((wire.sse(wire.text("one"), done=False), HOLD), content_type="text/event-stream"))
    with Running([ASK, "go"], env=bench.env, cwd=bench.home.work) as running:
        running.wait_for("one")
        running.signal(number)
        assert running.finish().code == code
    [chat], [run_span] = bench.collector.find("chat"), bench.collector.find("invoke_agent")
    assert {chat.attributes["error.type"], run_span.attributes["error.type"]} == {"RunInterruptedError"}
    assert chat.attributes["gen_ai.response.finish_reasons"] == ["incomplete"]


def test_each_row_of_a_job_and_each_message_of_a_chat_is_a_trace(bench: TraceBench) -> None:
    bench.server.reply(*[wire.says("hi")] * 5)
    assert bench.ask("map", "say {{line}}", stdin=b"a\nb\nc\n").code == 0
    assert len({span.trace_id for span in bench.collector.find("invoke_agent")}) == 3
    assert len(bench.collector.find("chat")) == 3
    bench.collector.spans.clear()
    bench.ask("chat", stdin=b"one\ntwo\n")
    spans = bench.collector.find("invoke_agent")
    assert len({span.trace_id for span in spans}) == 2
    assert len({span.attributes["gen_ai.conversation.id"] for span in spans}) == 1


@pytest.mark.slow
def test_each_compared_model_is_a_trace(bench: TraceBench) -> None:
    bench.server.reply(wire.says("hi"))
    assert bench.ask("compare", "-m", "a", "-m", "b", "go").code == 0
    spans = bench.collector.find("invoke_agent")
    assert {span.attributes["gen_ai.request.model"] for span in spans} == {"a", "b"}
    assert len({span.trace_id for span in bench.collector.spans}) == 2


@pytest.mark.slow
def test_rows_with_tools_are_traced(bench: TraceBench) -> None:
    bench.server.reply(wire.says("hi"))
    result = bench.ask("map", "say {{line}}", "--tools", stdin=b"a\nb\n")
    assert (result.code, result.text.count("hi")) == (0, 2)
    assert len({span.trace_id for span in bench.collector.find("invoke_agent")}) == 2
    assert "traces" not in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--tools",)])
def test_workers_of_a_cluster_send_their_last_spans(bench: TraceBench, options: tuple[str, ...]) -> None:
    bench.server.reply(wire.says("hi"))
    arguments = ("map", "say {{line}}", "--engine", "dask", *options)
    assert bench.ask(*arguments, stdin=b"a\nb\n").code == 0
    assert len(bench.collector.find("invoke_agent")) == 2
    bench.collector.status = 403
    assert bench.ask(*arguments, stdin=b"c\nd\n").stderr.count("traces were not sent: ") == 1


@pytest.mark.slow
def test_a_job_reports_a_broken_collector(bench: TraceBench) -> None:
    bench.server.reply(*[wire.says("hi")] * 2)
    bench.collector.status = 403
    result = bench.ask("map", "say {{line}}", stdin=b"a\nb\n")
    assert (result.code, result.text.count("hi")) == (0, 2)
    assert result.stderr.count("traces were not sent: ") == 1


def test_a_missing_package_is_a_notice(bench: TraceBench) -> None:
    bench.server.reply(wire.says("hi"))
    command = make_command_without("opentelemetry", bench.home)
    result = run([*command, "go"], env=bench.env, cwd=bench.home.work)
    assert (result.code, result.text) == (0, "hi\n"), result.stderr
    assert "no traces are sent: opentelemetry" in result.stderr
    assert "[otel]" in result.stderr


def test_nothing_is_loaded_when_off(bench: TraceBench) -> None:
    bench.server.reply(wire.says("hi"))
    script = Path(bench.home.path, "script.py")
    script.write_text(
        "import sys\nfrom ask.__main__ import run_process\nsys.argv[1:] = ['go']\nrun_process()\n"
        "print([name for name in sys.modules if 'opentelemetry' in name or 'traces' in name])\n"
    )
    result = run([sys.executable, str(script)], env={**bench.env, "ASK_OTEL": "0"}, cwd=bench.home.work)
    assert result.text == "hi\n[]\n", result.stderr


@pytest.mark.slow
def test_a_command_that_replaces_ask_does_not_lose_the_spans(bench: TraceBench) -> None:
    bench.server.reply(wire.says("echo $((6 * 7)); exit 7"))
    env = {**bench.env, "TERM": "xterm-256color", "SHELL": "/bin/bash"}
    result = run_on_terminal([ASK, "--cmd", "count"], env=env, cwd=bench.home.work, answers=[(CHOICES, "r\n")])
    assert result.code == 7
    assert "42" in result.text
    assert bench.collector.find("invoke_agent")
