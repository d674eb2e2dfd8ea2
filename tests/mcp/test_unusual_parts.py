"""One unusual part of what a server sends costs nothing beside it, and is named."""

from __future__ import annotations

import gzip
import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests import wire
from tests.mcp.setting import HERE, ask_with_calls, configure, offered, program, received
from tests.model_server import ModelServer, Reply, Request
from tests.program import Ask, Home

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
GOOD = {"name": "good", "description": "Does good.", "inputSchema": SCHEMA}
TEXT = {"type": "text", "text": "beside it"}
INFO = {"name": "web", "version": "1"}


def script(home: Home, name: str = "one", **responses: list[Any]) -> dict[str, Any]:
    """Write the responses of a server to a file and return its table; `tools_list` is the method tools/list."""
    path = home.path / f"{name}.json"
    path.write_text(json.dumps({method.replace("_", "/"): values for method, values in responses.items()}))
    return program(str(HERE / "scripted_server.py"), str(path), timeout=10)


def warnings(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line.startswith("ask: ")]


REPAIRED: Mapping[str, dict[str, Any]] = {
    "missing": {"name": "odd"},
    "null": {"name": "odd", "inputSchema": None},
    "empty": {"name": "odd", "inputSchema": {}},
    "array of properties": {"name": "odd", "inputSchema": {"type": "object", "properties": []}},
    "type in capitals": {"name": "odd", "inputSchema": {"type": "OBJECT", "properties": {}}},
    "text": {"name": "odd", "inputSchema": json.dumps(SCHEMA)},
    "required": {"name": "odd", "inputSchema": {**SCHEMA, "required": "text"}},
}
LEFT_OUT: Mapping[str, dict[str, Any]] = {
    "no name": {"inputSchema": SCHEMA},
    "number as name": {"name": 5, "inputSchema": SCHEMA},
    "words": {"name": "odd", "inputSchema": "takes a text"},
    "array": {"name": "odd", "inputSchema": {"type": "array", "items": {}}},
    "list of properties": {"name": "odd", "inputSchema": {"type": "object", "properties": [{"name": "a"}]}},
    "deep": {"name": "odd", "inputSchema": {"type": "object", "x": json.loads("[" * 500 + "]" * 500)}},
}
UNCHANGED: Mapping[str, dict[str, Any]] = {
    "union": {"name": "odd", "inputSchema": {"anyOf": [SCHEMA, {"type": "object", "properties": {"n": {}}}]}},
    "null description": {"name": "odd", "description": None, "inputSchema": SCHEMA},
    "number as description": {"name": "odd", "description": 5, "inputSchema": SCHEMA},
    "annotations": {"name": "odd", "annotations": [1], "inputSchema": SCHEMA, "icons": "x", "_meta": []},
    "read-only hint": {"name": "odd", "annotations": {"readOnlyHint": "yes"}, "inputSchema": SCHEMA},
    "null property": {"name": "odd", "inputSchema": {"type": "object", "properties": {"text": None}}},
    "output schema": {"name": "odd", "inputSchema": SCHEMA, "outputSchema": "x"},
    "execution": {"name": "odd", "inputSchema": SCHEMA, "execution": "sync"},
}


def test_unusual_tools_are_offered_with_the_others(ask: Ask, home: Home, server: ModelServer) -> None:
    """Each tool has the name of its case."""
    names = {case: case.replace(" ", "_") for case in [*REPAIRED, *UNCHANGED]}
    odd = [tool | {"name": names[case]} for case, tool in {**REPAIRED, **UNCHANGED}.items()]
    configure(home, {"one": script(home, tools_list=[{"tools": [*odd, GOOD]}], tools_call=[{"content": [TEXT]}])})
    offered_names = [f"one__{name}" for name in (*names.values(), "good")]
    result, answers = ask_with_calls(ask, server, [(name, {}) for name in offered_names])
    assert (result.code, answers) == (0, ["beside it"] * len(offered_names))
    assert list(offered(server.requests[0])) == offered_names
    lines = warnings(result.stderr)
    assert all("one" in line for line in lines)
    assert sum(int(re.findall(r"\d+", line)[0]) for line in lines) == len(REPAIRED)
    assert [case for case in UNCHANGED if any(f"'{names[case]}'" in line for line in lines)] == []
    ask_with_calls(ask, server, [])
    again, _ = ask_with_calls(ask, server, [])
    assert warnings(again.stderr) == [], "named when the server is started, not in each run"


def test_tools_without_a_meaning_are_left_out_and_named(ask: Ask, home: Home, server: ModelServer) -> None:
    """Each tool that has a name has that of its case."""
    names = {case: case.replace(" ", "_") for case, tool in LEFT_OUT.items() if tool.get("name") == "odd"}
    odd = [tool | ({"name": names[case]} if case in names else {}) for case, tool in LEFT_OUT.items()]
    tools = {"tools": [*odd, "odd", GOOD]}
    configure(home, {"one": script(home, tools_list=[tools], tools_call=[{"content": [TEXT]}])})
    result, answers = ask_with_calls(ask, server, [("one__good", {})])
    assert (result.code, answers) == (0, ["beside it"])
    assert list(offered(server.requests[0])) == ["one__good"]
    lines = warnings(result.stderr)
    assert all("one" in line for line in lines)
    assert sum(int(re.findall(r"\d+", line.replace("the", "1"))[0]) for line in lines) == len(odd) + 1
    assert [case for case, name in names.items() if any(name in line for line in lines)] == [*names]


RESULTS: Mapping[str, tuple[Any, list[str]]] = {
    "unknown type": ({"content": [{"type": "hologram", "data": "x" * 20_000}, TEXT]}, ["hologram", "beside it"]),
    "no type": ({"content": [{"words": "hi"}, TEXT]}, ["hi", "beside it"]),
    "null block": ({"content": [None, TEXT]}, ["beside it"]),
    "text block as string": ({"content": ["hi", TEXT]}, ["hi", "beside it"]),
    "number as text": ({"content": [{"type": "text", "text": 5}, TEXT]}, ["5", "beside it"]),
    "image without a type": ({"content": [{"type": "image", "data": "aGk="}, TEXT]}, ["image", "2 bytes", "beside it"]),
    "image without data": ({"content": [{"type": "image", "mimeType": "image/png"}, TEXT]}, ["image/png", "beside it"]),
    "link without a name": ({"content": [{"type": "resource_link", "uri": "file:///a"}, TEXT]}, ["file:///a"]),
    "link without a URI": ({"content": [{"type": "resource_link", "name": "a"}, TEXT]}, ["link", "beside it"]),
    "resource without a URI": ({"content": [{"type": "resource", "resource": {"text": "hi"}}, TEXT]}, ["hi"]),
    "resource of neither": ({"content": [{"type": "resource", "resource": {"uri": "a:b"}}, TEXT]}, ["a:b"]),
    "annotations": ({"content": [TEXT | {"annotations": {"priority": 9, "audience": "all"}}]}, ["beside it"]),
    "one block": ({"content": TEXT}, ["beside it"]),
    "only structured": ({"structuredContent": {"degrees": 21}}, ["21"]),
    "structured list": ({"content": [TEXT], "structuredContent": [1]}, ["beside it"]),
    "null content": ({"content": None, "structuredContent": {"degrees": 21}}, ["21"]),
    "old form": ({"toolResult": {"degrees": 21}}, ["21"]),
    "no object": ("beside it", ["beside it"]),
    "nothing": ({}, ["nothing"]),
    "error as text": ({"content": [TEXT], "isError": "true"}, ["beside it"]),
    "null error": ({"content": [TEXT], "isError": None}, ["beside it"]),
}


def test_unusual_results_keep_what_is_beside_them(ask: Ask, home: Home, server: ModelServer) -> None:
    output = {"type": "object", "properties": {"degrees": {"type": "string"}}, "required": ["degrees"]}
    tools = {"tools": [GOOD | {"outputSchema": output}]}
    configure(home, {"one": script(home, tools_list=[tools], tools_call=[sent for sent, _ in RESULTS.values()])})
    calls = [("one__good", {"text": case}) for case in RESULTS]
    result, answers = ask_with_calls(ask, server, calls, "--command-timeout", "10")
    for (case, (_, expected)), answer in zip(RESULTS.items(), answers, strict=True):
        assert all(part in answer for part in expected), (case, answer)
        assert len(answer) < 500, case
    assert not warnings(result.stderr)
    assert sum(message.get("method") == "tools/list" for message in received(home)) == 1


BAD_CURSOR = '{"jsonrpc": "2.0", "id": ID, "error": {"code": -32603, "message": "bad cursor"}}'


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("pages", "requests"),
    [
        ([{"tools": [GOOD], "nextCursor": ""}], 2),
        ([{"tools": [GOOD], "nextCursor": ""}, {"lines": [BAD_CURSOR]}], 2),
        ([{"tools": [GOOD], "nextCursor": "a"}], 2),
        ([{"tools": [GOOD], "nextCursor": 5}], 1),
        ([{"tools": [GOOD], "nextCursor": "a"}, {"tools": [], "nextCursor": "a"}], 2),
        ([{"tools": [GOOD, GOOD], "nextCursor": None}], 1),
        ([{"tools": None}], 1),
        ([{"tools": [GOOD], "nextCursor": "a"}, {"tools": [GOOD], "nextCursor": "b"}], 2),
    ],
)
def test_a_list_ends_when_its_cursor_is_missing_or_repeats(
    pages: list[Any], requests: int, ask: Ask, home: Home, server: ModelServer
) -> None:
    configure(home, {"one": script(home, tools_list=pages)})
    result, _ = ask_with_calls(ask, server, [])
    assert result.code == 0
    assert list(offered(server.requests[0])) == (["one__good"] if pages[0]["tools"] else [])
    assert sum(message.get("method") == "tools/list" for message in received(home)) == requests


@pytest.mark.parametrize("cursor", ["b", ""])
def test_an_empty_page_or_cursor_does_not_end_a_list(ask: Ask, home: Home, server: ModelServer, cursor: str) -> None:
    pages = [{"tools": [], "nextCursor": "a"}, {"tools": [], "nextCursor": cursor}, {"tools": [GOOD]}]
    configure(home, {"one": script(home, tools_list=pages)})
    ask_with_calls(ask, server, [])
    assert list(offered(server.requests[0])) == ["one__good"]


def test_resources_of_a_page_that_repeats_are_listed_once(ask: Ask, home: Home) -> None:
    pages = [{"resources": [{"uri": "note:a", "name": "a"}], "nextCursor": str(number)} for number in range(9)]
    configure(home, {"one": script(home, resources_list=pages)})
    result = ask("mcp", "resources")
    assert result.stdout.count(b"note:a") == 1
    assert sum(message.get("method") == "resources/list" for message in received(home)) == 2


def test_a_failing_page_keeps_the_others(ask: Ask, home: Home, server: ModelServer) -> None:
    pages = [{"tools": [GOOD], "nextCursor": "a"}, {"lines": [BAD_CURSOR]}]
    configure(home, {"one": script(home, tools_list=pages)})
    result, _ = ask_with_calls(ask, server, [])
    assert list(offered(server.requests[0])) == ["one__good"]
    [line] = warnings(result.stderr)
    assert "one" in line
    assert "bad cursor" in line


ENVELOPES = {
    "no version": '{"id": ID, "result": RESULT}',
    "text as ID": '{"jsonrpc": "2.0", "id": "ID", "result": RESULT}',
    "null error": '{"jsonrpc": "2.0", "id": ID, "result": RESULT, "error": null}',
    "batch": '[{"jsonrpc": "2.0", "method": "notifications/x"}, {"jsonrpc": "2.0", "id": ID, "result": RESULT}]',
    "after a title": '\x1b]0;server\x07{"jsonrpc": "2.0", "id": ID, "result": RESULT}',
    "after a text": 'Loading... {"jsonrpc": "2.0", "id": ID, "result": RESULT}',
    "byte order mark": '\ufeff{"jsonrpc": "2.0", "id": ID, "result": RESULT}',
    "invalid UTF-8": '{"jsonrpc": "2.0", "id": ID, "result": RESULT, "x": "\udcff"}',
    "logged": 'got {"jsonrpc": "2.0", "id": ID, "method": "x"}\n{"jsonrpc": "2.0", "id": ID, "result": RESULT}',
    "log with a result": 'done {"id": ID, "result": "ok"}\n{"jsonrpc": "2.0", "id": ID, "result": RESULT}',
    "banner": 'Starting...\n\n[INFO] ok\n{"level": "info"}\n{"jsonrpc": "2.0", "id": ID, "result": RESULT}',
    "odd notifications": '{"jsonrpc": "2.0", "method": "notifications/message", "params": [1]}\n'
    '{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "LOUD", "data": null}}\n'
    '{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": {}, "progress": "x"}}\n'
    '{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n'
    '{"jsonrpc": "2.0", "id": ID, "result": RESULT}',
    "odd requests": '{"jsonrpc": "2.0", "id": 77, "method": "no/such"}\n'
    '{"jsonrpc": "2.0", "id": 78, "method": "elicitation/create", "params": []}\n'
    '{"jsonrpc": "2.0", "id": 79, "method": "sampling/createMessage", "params": {"messages": 5}}\n'
    '{"jsonrpc": "2.0", "id": ID, "result": RESULT}',
}


def test_unusual_messages_are_understood(ask: Ask, home: Home, server: ModelServer) -> None:
    content = json.dumps({"content": [TEXT]})
    messages = [{"lines": [message.replace("RESULT", content)]} for message in ENVELOPES.values()]
    configure(home, {"one": script(home, tools_list=[{"tools": [GOOD]}], tools_call=messages)})
    calls = [("one__good", {"text": case}) for case in ENVELOPES]
    result, answers = ask_with_calls(ask, server, calls, "--command-timeout", "5")
    assert dict(zip(ENVELOPES, answers, strict=True)) == dict.fromkeys(ENVELOPES, "beside it")
    assert not warnings(result.stderr)
    errors = {one["id"]: one.get("error", {}).get("code") for one in received(home) if "method" not in one}
    assert errors == {77: -32601, 78: -32602, 79: -32602}


def test_unusual_errors_are_quoted(ask: Ask, home: Home, server: ModelServer) -> None:
    errors = ['"no such file"', '{"message": "no such file"}', '{"code": "E1", "message": "no such file"}']
    texts = [f'{{"jsonrpc": "2.0", "id": {number}, "error": {error}}}' for number in ("ID", "null") for error in errors]
    configure(
        home, {"one": script(home, tools_list=[{"tools": [GOOD]}], tools_call=[{"lines": [one]} for one in texts])}
    )
    start = time.monotonic()
    calls = [("one__good", {"text": text}) for text in texts]
    _, answers = ask_with_calls(ask, server, calls, "--command-timeout", "20")
    assert [text for text, answer in zip(texts, answers, strict=True) if "no such file" not in answer] == []
    assert time.monotonic() - start < 15


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    "handshake",
    [
        {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}},
        {"protocolVersion": "2025-06-18"},
        {"protocolVersion": "2025-06-18", "capabilities": {"tools": True, "x": 5}, "serverInfo": {"name": "a"}},
        {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": "a", "instructions": 5},
    ],
)
def test_an_incomplete_handshake_is_enough(handshake: Any, ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"one": script(home, initialize=[handshake], tools_list=[{"tools": [GOOD]}])})
    result, _ = ask_with_calls(ask, server, [])
    assert list(offered(server.requests[0])) == ["one__good"]
    assert not warnings(result.stderr)


@pytest.mark.slow_after_first
@pytest.mark.parametrize("version", ["1999-01-01", None, 5])
def test_an_unknown_protocol_revision_is_named_with_the_known_ones(version: Any, ask: Ask, home: Home) -> None:
    configure(home, {"one": script(home, initialize=[{"protocolVersion": version, "capabilities": {}}])})
    result = ask("mcp", "test", timeout=60)
    assert result.code == 4
    for value in (json.dumps(version), "2025-06-18", "2026-07-28"):
        assert value in result.text
    assert "exit status" not in result.text


def test_an_error_at_the_start_is_quoted(ask: Ask, home: Home) -> None:
    lines = {"lines": ['{"jsonrpc": "2.0", "id": ID, "error": {"code": -32000, "message": "no license"}}']}
    configure(home, {"one": script(home, initialize=[lines])})
    assert "no license" in ask("mcp", "test", timeout=60).text


@pytest.mark.slow
def test_unusual_resources_and_prompts_do_not_hide_the_others(ask: Ask, home: Home, server: ModelServer) -> None:
    resources = [{"uri": "note://a", "name": None, "size": "big"}, {"name": "no URI"}, "x", {"uri": "note://b"}]
    prompts: list[Any] = [{"name": "a", "arguments": "none"}, {"title": "no name"}, None]
    prompts += [{"name": "b", "arguments": [{"required": True}, {"name": "text", "required": None}]}]
    contents = [{"text": "first"}, {"uri": "note://a2", "mimeType": 5, "text": "second"}]
    messages: list[Any] = [
        {"role": "system", "content": {"type": "text", "text": "Be kind."}},
        {"role": "user", "content": "Fix it."},
        {"role": "user", "content": [{"type": "text", "text": "Now."}, {"type": "hologram"}]},
    ]
    table = script(
        home,
        resources_list=[{"resources": resources, "nextCursor": ""}],
        prompts_list=[{"prompts": prompts, "nextCursor": ""}],
        resources_read=[{"contents": contents}],
        prompts_get=[{"messages": messages, "description": 5}],
    )
    configure(home, {"one": table})
    assert ask("mcp", "resources", timeout=60).text.count("mcp://one/note://") == 2
    assert [line.split("\t")[:2] for line in ask("mcp", "prompts", timeout=60).text.splitlines()] == [
        ["mcp://one/a", ""],
        ["mcp://one/b", "text?"],
    ]
    server.reply(wire.says("done"))
    result = ask("-t", "mcp://one/b", "-f", "mcp://one/note://a", timeout=60)
    assert result.code == 0, result.stderr
    sent = json.dumps(server.requests[-1].json)
    for text in ("Be kind.", "Fix it.", "Now.", "hologram", "first", "second"):
        assert text in sent


# Over HTTP

Answer = Callable[[Request, int], Reply]


def serve(other: ModelServer, call: Answer, handshake: Callable[[int], Reply | None] = lambda number: None) -> None:
    """Let a server answer each request. `call` and `handshake` also get how many of theirs there were before."""
    counts = {"initialize": 0, "tools/call": 0}

    def answer(request: Request) -> Reply:
        method = request.json["method"] if request.method == "POST" else ""
        number = counts.get(method, 0)
        if method in counts:
            counts[method] += 1
        if method == "tools/call":
            return call(request, number)
        if method == "tools/list":
            return respond(request, {"tools": [GOOD]})
        if method == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": INFO}
            return handshake(number) or respond(request, result, {"Mcp-Session-Id": f"s{number}"})
        return Reply(status=202 if method.startswith("notifications/") else 405)

    other.reply(*[answer] * 60)


def respond(request: Request, result: Any, headers: Mapping[str, str] | None = None) -> Reply:
    body = json.dumps({"jsonrpc": "2.0", "id": request.json["id"], "result": result}).encode()
    return Reply((body,), headers=dict(headers or {}))


@pytest.fixture
def other(home: Home) -> Any:
    with ModelServer() as one:
        configure(home, {"web": {"url": f"{one.base_url}/mcp", "timeout": 10}})
        yield one


HEARTBEATS = [
    "data: ping\n\n",
    "data: {}\n\n",
    'data: {"type": "heartbeat"}\n\n',
    "event: ping\ndata: 1\n\n",
    "data:\n\n",
    ": comment\n\n",
    "event: message\ndata: [PING]\n\n",
    "id: 7\ndata: ping\n\n",
    "data: ping\r\n\r\n",
    "retry: 1000\n\n",
]


def test_heartbeats_are_skipped(ask: Ask, server: ModelServer, other: ModelServer) -> None:
    def call(request: Request, number: int) -> Reply:
        beat = request.json["params"]["arguments"]["text"]
        message = json.dumps({"jsonrpc": "2.0", "id": request.json["id"], "result": {"content": [TEXT]}}, indent=1)
        event = "event: message\n" + "".join(f"data: {line}\n" for line in message.splitlines()) + "\n"
        data = f"{beat}{beat}{event}{beat}".encode()
        chunks = [data[start : start + 7] for start in range(0, len(data), 7)]
        return Reply(tuple(chunks), content_type="text/event-stream")

    serve(other, call)
    calls = [("web__good", {"text": beat}) for beat in HEARTBEATS]
    _, answers = ask_with_calls(ask, server, calls, "--command-timeout", "10")
    assert dict(zip(HEARTBEATS, answers, strict=True)) == dict.fromkeys(HEARTBEATS, "beside it")


NOT_FOUND = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "Session not found"}}'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "body"),
    [(404, b""), (404, NOT_FOUND), (404, b'{"error": "unknown session"}'), (404, b"<html>"), (410, b"")],
)
def test_a_lost_session_is_renewed_each_time(
    status: int, body: bytes, ask: Ask, server: ModelServer, other: ModelServer
) -> None:
    def call(request: Request, number: int) -> Reply:
        is_lost = number % 2 == 0
        return Reply((body,), status=status) if is_lost else respond(request, {"content": [TEXT]})

    serve(other, call)
    _, answers = ask_with_calls(ask, server, [("web__good", {"text": f"{number}"}) for number in range(3)])
    assert answers == ["beside it"] * 3
    sessions = [one.headers["Mcp-Session-Id"] for one in other.requests if b"tools/call" in one.body]
    assert sessions == ["s0", "s1", "s1", "s2", "s2", "s3"]


def test_a_session_that_is_always_lost_is_renewed_once_for_each_call(
    ask: Ask, server: ModelServer, other: ModelServer
) -> None:
    serve(other, lambda request, number: Reply((NOT_FOUND,), status=404))
    _, answers = ask_with_calls(ask, server, [("web__good", {"text": f"{number}"}) for number in range(2)])
    assert all(answer.startswith("Error: ") and "Session not found" in answer for answer in answers)
    assert sum(b"tools/call" in one.body for one in other.requests) == 4


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_asks_to_wait_is_asked_again(
    status: int, ask: Ask, server: ModelServer, other: ModelServer
) -> None:
    busy = Reply((b"slow down",), status=status, headers={"Retry-After": "0"})

    def call(request: Request, number: int) -> Reply:
        return busy if number < 2 else respond(request, {"content": [TEXT]})

    serve(other, call, lambda number: busy if number < 2 else None)
    result, [answer] = ask_with_calls(ask, server, [("web__good", {})])
    assert (result.code, answer) == (0, "beside it"), result.stderr


@pytest.mark.parametrize("delay", ["3600", "1", "soon"])
def test_a_long_wait_fails_within_the_time_limit_of_the_call(
    delay: str, ask: Ask, server: ModelServer, other: ModelServer
) -> None:
    requests = []

    def call(request: Request, number: int) -> Reply:
        requests.append(request)
        return Reply((b"slow down",), status=429, headers={"Retry-After": delay})

    serve(other, call)
    result, [answer] = ask_with_calls(ask, server, [("web__good", {})], "--command-timeout", "0.5")
    assert (result.code, "429" in answer, len(requests)) == (0, True, 1), answer


def test_a_server_that_always_asks_to_wait_gets_ever_fewer_requests(
    ask: Ask, server: ModelServer, other: ModelServer
) -> None:
    requests = []

    def call(request: Request, number: int) -> Reply:
        requests.append(request)
        return Reply((b"slow down",), status=429, headers={"Retry-After": "0"})

    serve(other, call)
    result, [answer] = ask_with_calls(ask, server, [("web__good", {})], "--command-timeout", "2")
    assert (result.code, "429" in answer) == (0, True), answer
    assert 2 < len(requests) < 8


@pytest.mark.slow
def test_a_chat_uses_a_server_again_that_was_away(ask: Ask, server: ModelServer, other: ModelServer) -> None:
    def call(request: Request, number: int) -> Reply:
        return Reply(status=404) if number == 0 else respond(request, {"content": [TEXT]})

    serve(other, call, lambda number: Reply((b"starting",), status=503) if number in (1, 2) else None)
    server.reply(*[reply for _ in range(3) for reply in (wire.calls(("web__good", {})), wire.says("done"))])
    result = ask("chat", stdin=b"one\ntwo\nthree\n", timeout=60)
    assert result.text == "done\n" * 3
    first, second, third = (wire.asked(request.json) for request in server.requests[1::2])
    assert "503" in first
    assert "503" in second
    assert third == "beside it"


@pytest.mark.slow
@pytest.mark.parametrize("key", ["inputSchema", "outputSchema"])
def test_a_pathological_pattern_does_not_stop_the_run(key: str, ask: Ask, home: Home, server: ModelServer) -> None:
    slow = {"type": "object", "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}}}
    text = "a" * 40 + "b"
    result = {"content": [TEXT], "structuredContent": {"text": text}}
    configure(home, {"one": script(home, tools_list=[{"tools": [GOOD | {key: slow}]}], tools_call=[result])})
    calls: list[wire.Call] = [("one__good", {"text": text}), ("one__good", {"text": f"{text}b"})]
    start = time.monotonic()
    run, answers = ask_with_calls(ask, server, calls, "--command-timeout", "5")
    assert answers == ["beside it"] * 2
    assert time.monotonic() - start < 10
    assert run.stderr.count("^(a+)+$") == (key == "inputSchema"), "named once"


# Reports about other clients


def test_a_property_named_required_is_no_reason_to_reject_a_tool(ask: Ask, home: Home, server: ModelServer) -> None:
    """mastra#23731: `required` is nested in `properties`."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}, "required": ["text"]}}
    configure(home, {"one": script(home, tools_list=[{"tools": [GOOD | {"inputSchema": schema}]}], tools_call=[{}])})
    ask_with_calls(ask, server, [("one__good", {"text": "x"})])
    assert list(offered(server.requests[0])) == ["one__good"]


def test_a_server_may_know_no_method_of_its_capabilities(ask: Ask, home: Home) -> None:
    """gemini-cli#10365: tools are declared, but tools/list is unknown."""
    configure(home, {"one": script(home, prompts_list=[{"prompts": [{"name": "a"}]}])})
    result = ask("mcp", "prompts", timeout=60)
    assert (result.code, result.stderr) == (0, "")
    assert "mcp://one/a" in result.text


def test_a_server_that_refuses_questions_is_connected_to_without(ask: Ask, home: Home, server: ModelServer) -> None:
    """matchbox#455: older Java servers refuse `capabilities.elicitation.form`."""
    refusal = '{"jsonrpc": "2.0", "id": ID, "error": {"code": -32603, "message": "Unrecognized field \\"form\\""}}'
    responses: dict[str, Any] = {"tools_list": [{"tools": [GOOD]}], "tools_call": [{"content": [TEXT]}]}
    table = script(home, **responses)
    script(home, "refusing", initialize=[{"lines": [refusal]}], **responses)
    choice = f"mv {home.path}/refusing.json moved 2>&- && set -- $1 moved; exec {table['command']} $1 $2"
    configure(home, {"one": {"command": "sh", "args": ["-c", choice, "-", *table["args"]], "timeout": 10}})
    _, [answer] = ask_with_calls(ask, server, [("one__good", {})])
    assert answer == "beside it"
    first, second = [one["params"]["capabilities"] for one in received(home) if one.get("method") == "initialize"]
    assert "elicitation" in first
    assert "elicitation" not in second


REFUSALS = {
    "a list": {"code": -32602, "message": "Unsupported protocol version", "data": {"supported": ["2024-11-05"]}},
    "the code of newer servers": {"code": -32022, "message": "Unsupported", "data": {"supported": ["2024-11-05"]}},
    "words": {"code": -32602, "message": "Unsupported protocol version: 2025-11-25. Supported: 2024-11-05"},
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS.keys())
def test_a_server_that_refuses_the_newest_revision_gets_one_that_it_names(
    refusal: dict[str, Any], ask: Ask, home: Home, server: ModelServer
) -> None:
    """OpenMausBot#517: servers refuse a revision, as in the specification's example, and name their own."""
    handshake = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": INFO}
    responses: dict[str, Any] = {"tools_list": [{"tools": [GOOD]}], "tools_call": [{"content": [TEXT]}]}
    table = script(home, initialize=[handshake], **responses)
    error = json.dumps({"jsonrpc": "2.0", "id": 0, "error": refusal}).replace('"id": 0', '"id": ID')
    script(home, "refusing", initialize=[{"lines": [error]}], **responses)
    choice = f"mv {home.path}/refusing.json moved 2>&- && set -- $1 moved; exec {table['command']} $1 $2"
    configure(home, {"one": {"command": "sh", "args": ["-c", choice, "-", *table["args"]], "timeout": 10}})
    _, [answer] = ask_with_calls(ask, server, [("one__good", {})])
    assert answer == "beside it"
    versions = [one["params"]["protocolVersion"] for one in received(home) if one.get("method") == "initialize"]
    assert versions == ["2025-11-25", "2024-11-05"]


@pytest.mark.slow
def test_a_server_that_refuses_all_that_is_newer_is_connected_to_without(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    """It ignores the first request, does not know questions, and has an older revision."""
    responses: dict[str, Any] = {"tools_list": [{"tools": [GOOD]}], "tools_call": [{"content": [TEXT]}]}
    table = script(home, **responses)
    unknown = {"code": -32603, "message": 'Unrecognized field "form"'}
    for name, error in (("first", unknown), ("second", REFUSALS["words"])):
        line = json.dumps({"jsonrpc": "2.0", "id": 0, "error": error}).replace('"id": 0', '"id": ID')
        script(home, name, initialize=[{"lines": [line]}], **responses)
    moves = " || ".join(
        f"{{ mv {home.path}/{name}.json moved 2>&- && set -- $1 moved; }}" for name in ("first", "second")
    )
    choice = f"{moves}; exec {table['command']} $1 $2"
    start = {"command": "sh", "args": ["-c", choice, "-", *table["args"]], "timeout": 6}
    configure(home, {"one": start | {"env": {"IGNORES": "server/discover"}}})
    _, answers = ask_with_calls(ask, server, [("one__good", {})])
    assert answers == ["beside it"]
    params = [one["params"] for one in received(home) if one.get("method") == "initialize"]
    assert [one["protocolVersion"] for one in params] == ["2025-11-25", "2025-11-25", "2024-11-05"]
    assert ["elicitation" in one["capabilities"] for one in params] == [True, False, False]


def test_a_handshake_may_name_the_revision_without_one(ask: Ask, home: Home, server: ModelServer) -> None:
    """Servers return the newest revision that their SDK knows, whichever was requested."""
    handshake = {"protocolVersion": "2026-07-28", "capabilities": {"tools": {}}, "serverInfo": INFO}
    responses: dict[str, Any] = {"tools_list": [{"tools": [GOOD]}], "tools_call": [{"content": [TEXT]}]}
    configure(home, {"one": script(home, initialize=[handshake], **responses)})
    result, answers = ask_with_calls(ask, server, [("one__good", {})])
    assert answers == ["beside it"]
    assert not warnings(result.stderr)


@pytest.mark.slow_after_first
@pytest.mark.parametrize("case", [("IGNORES", 1), ("EXITS_ON", 2), ("NEITHER", 1)])
@pytest.mark.parametrize("delay", [0, 4.5])
def test_a_server_that_does_not_answer_the_first_request_gets_an_older_one(
    case: tuple[str, int], delay: float, ask: Ask, home: Home, server: ModelServer
) -> None:
    """go-sdk#1177: servers made with rmcp exit; those made with fastmcp for TypeScript stay silent."""
    variable, starts = case
    table = script(home, tools_list=[{"tools": [GOOD]}], tools_call=[{"content": [TEXT]}])
    start = {"command": "sh", "args": ["-c", f'echo >> starts; sleep {delay}; exec "$@"', "-", table["command"]]}
    start["args"] += table["args"]
    configure(home, {"one": table | start | {"env": {variable: "server/discover"}, "timeout": 6}})
    result, answers = ask_with_calls(ask, server, [("one__good", {})])
    assert answers == ["beside it"]
    assert not warnings(result.stderr)
    assert len((home.work / "starts").read_text()) == starts


def test_a_silent_server_is_started_once(ask: Ask, home: Home) -> None:
    configure(home, {"one": {"command": "sh", "args": ["-c", "echo >> starts; exec sleep 60"], "timeout": 1}})
    assert ask("mcp", "test", "one").code != 0
    assert len((home.work / "starts").read_text()) == 1


def respond_early(message_id: str, text: str, status: int = 200, content_type: str = "application/json") -> Reply:
    body = f'{{"jsonrpc": "2.0", "id": {message_id}, "error": {{"code": -32603, "message": "{text}"}}}}'
    event = f"event: message\ndata: {body}\n\n" if content_type == "text/event-stream" else body
    return Reply((event.encode(),), status=status, content_type=content_type)


def test_an_error_with_another_id_ends_the_request(ask: Ask, server: ModelServer, other: ModelServer) -> None:
    """python-sdk#1144, #2432."""
    content_types = ("application/json", "text/event-stream", "text/plain", "")
    cases = [(message_id, content_type) for message_id in ('"xxx"', "null") for content_type in content_types]
    replies = iter(cases)

    def call(request: Request, number: int) -> Reply:
        message_id, content_type = next(replies)
        return respond_early(message_id, "it broke", content_type=content_type)

    serve(other, call)
    calls = [("web__good", {"text": " ".join(case)}) for case in cases]
    _, answers = ask_with_calls(ask, server, calls, "--command-timeout", "20")
    assert [case for case, answer in zip(cases, answers, strict=True) if not answer.endswith("it broke")] == []
    assert sum(b"tools/call" in one.body for one in other.requests) == len(cases)


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("status", "content_type"), [(400, "application/json"), (200, "application/json"), (200, "text/event-stream")]
)
def test_an_unknown_session_is_recognized_without_its_status(
    status: int, content_type: str, ask: Ask, server: ModelServer, other: ModelServer
) -> None:
    """keryx#503; the examples of the TypeScript SDK answer 400."""

    def call(request: Request, number: int) -> Reply:
        is_lost = number == 0
        error = respond_early("null", "No valid session ID provided", status, content_type)
        return error if is_lost else respond(request, {"content": [TEXT]})

    serve(other, call)
    _, [answer] = ask_with_calls(ask, server, [("web__good", {})])
    assert answer == "beside it"


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
def test_a_redirect_to_another_path_is_followed(
    content_type: str, ask: Ask, server: ModelServer, other: ModelServer
) -> None:
    """FastMCP redirects from /mcp to /mcp/ with 307."""

    def answer(request: Request) -> Reply:
        if not request.path.endswith("/"):
            return Reply(status=307, headers={"Location": f"{request.path}/"})
        method = request.json["method"] if request.method == "POST" else ""
        handshake = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": INFO}
        results = {"initialize": handshake, "tools/list": {"tools": [GOOD]}, "tools/call": {"content": [TEXT]}}
        if method not in results:
            return Reply(status=202 if method.startswith("notifications/") else 405)
        body = json.dumps({"jsonrpc": "2.0", "id": request.json["id"], "result": results[method]})
        event = f"data: {body}\n\n" if content_type == "text/event-stream" else body
        return Reply((event.encode(),), content_type=content_type)

    other.reply(*[answer] * 60)
    _, answers = ask_with_calls(ask, server, [("web__good", {})])
    assert answers == ["beside it"]


def test_an_error_of_a_tool_about_a_session_is_no_lost_session(
    ask: Ask, server: ModelServer, other: ModelServer
) -> None:
    serve(other, lambda request, number: respond_early(str(request.json["id"]), "no browser session"))
    _, [answer] = ask_with_calls(ask, server, [("web__good", {})])
    assert answer.endswith("no browser session")
    assert sum(b"tools/call" in one.body for one in other.requests) == 1


@pytest.mark.parametrize("body", [b"", b"{}", b"<html>"])
def test_a_response_without_a_message_fails_in_one_line(
    body: bytes, ask: Ask, server: ModelServer, other: ModelServer
) -> None:
    serve(other, lambda request, number: Reply((body,)))
    _, [answer] = ask_with_calls(ask, server, [("web__good", {})])
    assert answer == "Error: the MCP server web failed: its response violates the protocol"


def test_a_compressed_response_is_called_so(ask: Ask, server: ModelServer, other: ModelServer) -> None:
    serve(other, lambda request, number: Reply((gzip.compress(b"{}"),), headers={"Content-Encoding": "gzip"}))
    _, [answer] = ask_with_calls(ask, server, [("web__good", {})])
    assert answer.endswith("it sent gzip data, which was not requested")


def test_a_charset_in_place_of_a_compression_is_ignored(ask: Ask, server: ModelServer, other: ModelServer) -> None:
    serve(other, lambda request, number: respond(request, {"content": [TEXT]}, {"Content-Encoding": "utf-8"}))
    _, answers = ask_with_calls(ask, server, [("web__good", {})])
    assert answers == ["beside it"]


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (406, b'{"message": "Accept must be application/xml"}', "406 Not Acceptable: Accept must be application/xml"),
        (500, NOT_FOUND, "500 Internal Server Error: Session not found"),
    ],
)
def test_the_reason_in_the_body_of_an_http_error_is_quoted(
    ask: Ask, other: ModelServer, *, status: int, body: bytes, expected: str
) -> None:
    """python-sdk#1212; the examples of the TypeScript SDK send a JSON-RPC error with 500."""
    serve(other, lambda request, number: Reply(), lambda number: Reply((body,), status=status))
    assert expected in ask("mcp", "test", timeout=60).text


def test_an_invalid_server_in_the_configuration_does_not_cost_the_others(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    good = script(home, tools_list=[{"tools": [GOOD]}])
    configure(
        home, {"bad": {"command": "x", "args": "--verbose"}, "both": {"command": "x", "url": "http://x/"}, "one": good}
    )
    result, _ = ask_with_calls(ask, server, [])
    assert list(offered(server.requests[0])) == ["one__good"]
    lines = [line for line in warnings(result.stderr) if "skipping" in line]
    assert len(lines) == 2
    assert "mcp.servers.bad.args" in lines[0]
    assert "mcp.servers.both" in lines[1]
