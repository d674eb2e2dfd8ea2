"""`ask mcp serve` with the client of the official SDK, over standard input and output."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import anyio
import pytest

from tests import wire
from tests.lazy_module import LazyModule
from tests.model_server import HOLD, ModelServer, Reply
from tests.program import ASK, Ask, Home, wait_for_end

if TYPE_CHECKING:
    import mcp
    import mcp_types as types
    from mcp import Client
else:
    mcp, types = LazyModule("mcp"), LazyModule("mcp_types")


def use(ask: Ask, home: Home, action: Callable[[Client], Awaitable[Any]], *args: str, **options: Any) -> Any:
    """Start the server and call `action` with a client of it."""

    async def connect() -> Any:
        command = mcp.StdioServerParameters(
            command=str(ASK), args=["mcp", "serve", *args], env=dict(ask.env), cwd=str(home.work)
        )
        # Its default is the standard error of the moment of the import, which may be that of a run in this process.
        transport = mcp.stdio_client(command, errlog=sys.stderr)
        async with mcp.Client(transport, **options) as client:
            return await action(client)

    return asyncio.run(asyncio.wait_for(connect(), 60))


class RawClient:
    """A client that can send what the SDK's does not, connected to `ask mcp serve`.

    Its protocol version is 2025-11-25, or without a handshake 2026-07-28.
    """

    def __init__(
        self,
        ask: Ask,
        home: Home,
        *args: str,
        capabilities: dict[str, Any] | None = None,
        has_handshake: bool = True,
    ) -> None:
        self.process = subprocess.Popen(
            [ASK, "mcp", "serve", *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(ask.env),
            cwd=home.work,
        )
        self._meta: dict[str, Any] = {}
        if not has_handshake:
            self._meta[types.PROTOCOL_VERSION_META_KEY] = "2026-07-28"
            self._meta[types.CLIENT_CAPABILITIES_META_KEY] = capabilities or {}
            return
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": capabilities or {}, "clientInfo": info}
        self.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        self.read_until(lambda message: message.get("id") == 0)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        self.send_line(json.dumps(message).encode())

    def send_line(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def call(self, message_id: int, name: str, arguments: dict[str, Any]) -> None:
        params = {"name": name, "arguments": arguments, "_meta": self._meta}
        self.send({"jsonrpc": "2.0", "id": message_id, "method": "tools/call", "params": params})

    def read_until(self, is_last: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        assert self.process.stdout
        messages = [json.loads(self.process.stdout.readline())]
        while not is_last(messages[-1]):
            messages.append(json.loads(self.process.stdout.readline()))
        return messages

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self.process:  # closes the pipes
            assert self.process.stdin
            self.process.stdin.close()
            self.process.wait(20)


def read_raw_text(message: dict[str, Any]) -> str:
    [content] = message["result"]["content"]
    return str(content["text"])


def read_text(result: Any) -> str:
    [content] = result.content
    text: str = content.text
    return text


def test_a_question_is_answered_without_tools_and_continued(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("one"), wire.says("two"))
    (home.work / "note.txt").write_text("a note")

    async def action(client: Client) -> Any:
        tools = await client.list_tools()
        first = await client.call_tool("ask", {"prompt": "hi", "files": ["note.txt"]})
        conversation = first.structured_content["conversation"] if first.structured_content else ""
        second = await client.call_tool("ask", {"prompt": "more", "conversation": conversation})
        return [tool.name for tool in tools.tools], first, second

    names, first, second = use(ask, home, action)
    assert names == ["ask", "map_rows"]
    assert [read_text(first), read_text(second)] == ["one", "two"]
    assert first.structured_content["exit_code"] == 0
    assert not server.requests[0].json.get("tools")
    assert "a note" in str(server.requests[0].json)
    assert [message["role"] for message in server.requests[1].json["messages"]][:2] == ["system", "user"]
    assert "hi" in str(server.requests[1].json["messages"])


@pytest.mark.slow
def test_what_a_caller_may_not_have_is_refused(ask: Ask, home: Home, server: ModelServer) -> None:
    (home.path / "secret").write_text("secret")
    (home.work / "link").symlink_to(home.path / "secret")
    for name in (".env", "prod.env"):
        (home.work / name).write_text("secret")
    (home.work / "folder").mkdir()
    files = ("../secret", "link", ".env", "prod.env", "https://example.org", "folder", "a\0b", "")
    calls: list[tuple[str, dict[str, Any]]] = [
        *(("ask", {"prompt": "hi", "files": [name]}) for name in files),
        *(("map_rows", {"prompt": "{{text}}", "file": name}) for name in files),
        ("ask", {"prompt": "hi", "conversation": "abc"}),
        ("ask", {"prompt": "hi", "base_url": "http://127.0.0.1:1"}),
        ("ask", {"prompt": 1}),
        ("ask", {"prompt": " "}),
        ("ask", {"prompt": "x" * 11_000_000}),
        ("map_rows", {"prompt": "x" * 200_000, "rows": ["a"]}),
        ("map_rows", {"prompt": "a\0b", "rows": ["a"]}),
        ("ask", {}),
        ("map_rows", {"prompt": "{{text}}"}),
        ("map_rows", {"prompt": "{{text}}", "rows": ["a"], "file": "b"}),
        ("map_rows", {"prompt": "{{text}}", "rows": [1]}),
    ]

    async def action(client: Client) -> Any:
        for name, call in (("search_history", {"query": "a"}), ("bash", {"command": "true"})):
            with pytest.raises(mcp.MCPError, match="unknown tool"):
                await client.call_tool(name, call)
        return [(await client.call_tool(name, call)).is_error for name, call in calls]

    assert use(ask, home, action) == [True] * len(calls)
    assert not server.requests


@pytest.mark.slow
def test_an_empty_argument_is_none(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("one"), wire.says("two"))
    (home.work / "a.txt").write_text("a line\n")
    nothing = {"model": "", "conversation": "", "files": None}
    rows: dict[str, Any] = {"rows": [], "file": "a.txt", "schema": "", "model": None}

    async def action(client: Client) -> Any:
        return (
            await client.call_tool("ask", {"prompt": "hi", **nothing}),
            await client.call_tool("map_rows", {"prompt": "{{line}}", **rows}),
        )

    assert [result.is_error for result in use(ask, home, action, "-m", "mine")] == [False, False]
    assert [request.json["model"] for request in server.requests] == ["mine", "mine"]


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["home", "."])
def test_no_files_are_attached_from_a_folder_with_the_home_directory(
    ask: Ask, home: Home, server: ModelServer, folder: str
) -> None:
    (home.path / "home/taxes.txt").write_text("secret")
    in_home = Home(home.path, home.path / folder, home.env)
    name = "taxes.txt" if folder == "home" else "home/taxes.txt"

    async def action(client: Client) -> Any:
        return (
            await client.call_tool("ask", {"prompt": "hi", "files": [name]}),
            await client.call_tool("map_rows", {"prompt": "{{line}}", "file": name}),
        )

    assert all(result.is_error for result in use(ask, in_home, action))
    assert not server.requests


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("answer", ["accept", "decline", None])
def test_an_approval_is_an_elicitation(ask: Ask, home: Home, server: ModelServer, answer: Any, mode: Any) -> None:
    told = {"accept": "", "decline": "declined"}.get(answer, "cannot ask its user")
    server.reply(*(wire.calls(("bash", {"command": f"touch made{number}"})) for number in range(2)), wire.says("done"))
    asked = []

    async def elicit(_: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action=answer, content={"allow": True} if answer == "accept" else None)

    async def action(client: Client) -> Any:
        return await client.call_tool("ask", {"prompt": "go"})

    options: dict[str, Any] = {"elicitation_callback": elicit} if answer else {}
    result = use(ask, home, action, "--tools", "--confirm", mode=mode, **options)
    made = [path.name for path in sorted(home.work.glob("made*"))]
    assert (read_text(result), made) == ("done", ["made0", "made1"] if answer == "accept" else [])
    assert len(asked) == (2 if answer else 0)
    assert all(f"touch made{number}" in message for number, message in enumerate(asked))
    assert told in json.dumps(server.requests[-1].json["messages"][-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "response",
    [{"error": {"code": -1, "message": "no"}}, {"error": "\ud800"}, {"result": {"action": "maybe"}}, {"result": None}],
)
def test_an_approval_that_the_client_cannot_answer_is_denied(
    ask: Ask, home: Home, server: ModelServer, response: dict[str, Any]
) -> None:
    server.reply(wire.calls(("bash", {"command": "touch made"})), wire.says("done"))
    with RawClient(ask, home, "--tools", "--confirm", capabilities={"elicitation": {}}) as client:
        client.call(1, "ask", {"prompt": "go"})
        [question] = client.read_until(lambda message: message.get("method") == "elicitation/create")
        client.send({"jsonrpc": "2.0", "id": question["id"], **response})
        [answer] = client.read_until(lambda message: message.get("id") == 1)
    assert read_raw_text(answer) == "done"
    assert not (home.work / "made").exists()


@pytest.mark.slow
def test_an_approval_belongs_to_one_call(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "echo $$ > made"})), wire.says("done"))
    allowed: dict[str, types.InputResponse] = {"approval": types.ElicitResult(action="accept", content={"allow": True})}

    async def action(client: Client) -> Any:
        async def call(prompt: str, state: str | None, responses: Any = allowed) -> Any:
            return await client.session.call_tool(
                "ask", {"prompt": prompt}, input_responses=responses, request_state=state, allow_input_required=True
            )

        first = await call("go", None, None)
        assert isinstance(first, types.InputRequiredResult)
        again = await call("go", first.request_state, {})
        refused = [await call("stop", again.request_state), await call("go", "made up")]
        made = (home.work / "made").exists()
        done = await call("go", again.request_state)
        late = await call("go", again.request_state)
        return [result.is_error for result in (*refused, done, late)], made, read_text(done)

    async def elicit(_: Any, params: Any) -> types.ElicitResult:
        raise AssertionError(params)

    results, made, text = use(ask, home, action, "--tools", "--confirm", mode="2026-07-28", elicitation_callback=elicit)
    assert (results, made, text) == ([True, True, False, True], False, "done")
    assert (home.work / "made").exists()


@pytest.mark.slow
def test_invalid_messages_are_answered(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("one"))
    with RawClient(ask, home) as client:
        for line in (b"garbage", b"", b"[]", b"{}", b"[" * 100_000, b'{"jsonrpc":"2.0","id":7,"method":["\\ud800"]}'):
            client.send_line(line)
        for message_id in (None, 1.5):
            client.send({"jsonrpc": "2.0", "id": message_id, "method": "tools/list"})
        client.send({"jsonrpc": "2.0", "id": 8, "method": "ping", "params": []})
        client.send({"id": "nine", "method": "ping"})
        client.send_line(
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call",'
            b'"params":{"name":"ask","arguments":{"prompt":"half \\ud83d pair"}}}'
        )
        *errors, answer = client.read_until(lambda message: message.get("id") == 1)
    assert [(error["id"], error["error"]["code"]) for error in errors] == [
        (None, types.PARSE_ERROR),
        (None, types.INVALID_REQUEST),
        (None, types.INVALID_REQUEST),
        (None, types.PARSE_ERROR),
        (7, types.INVALID_REQUEST),
        (None, types.INVALID_REQUEST),
        (None, types.INVALID_REQUEST),
        (8, types.INVALID_REQUEST),
        ("nine", types.INVALID_REQUEST),
    ]
    assert read_raw_text(answer) == "one"
    assert "half ? pair" in str(server.requests[0].json)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_also_while_it_reads(ask: Ask, home: Home, number: int) -> None:
    with RawClient(ask, home) as client:
        for message_id in range(1, 200):
            client.send({"jsonrpc": "2.0", "id": message_id, "method": "ping"})
        client.process.send_signal(number)
        assert client.process.wait(10) == 128 + number


@pytest.mark.slow
def test_the_server_ends_although_its_client_no_longer_reads(ask: Ask, home: Home) -> None:
    with RawClient(ask, home) as client:
        for message_id in range(1, 200):
            client.send({"jsonrpc": "2.0", "id": message_id, "method": "tools/list"})
        client.process.stdin.close()  # type: ignore[union-attr]
        assert client.process.wait(20) == 0


@pytest.mark.slow
def test_what_a_command_writes_to_its_parent_is_not_read_as_an_event(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "echo printed > /proc/$PPID/fd/1"})), wire.says("done"))

    async def action(client: Client) -> Any:
        return await client.call_tool("ask", {"prompt": "go"})

    assert read_text(use(ask, home, action, "--tools")) == "done"


@pytest.mark.slow
def test_a_schema_does_not_name_a_file(ask: Ask, home: Home, server: ModelServer) -> None:
    (home.work / "schema.json").write_text('{"type": "object", "properties": {"secret": {"type": "string"}}}')
    (home.work / "notes.txt").write_text("secret")

    async def action(client: Client) -> Any:
        calls = [
            {"prompt": "hi", "rows": ["a"], "schema": f"{prefix}{name}"}
            for prefix in ("", "@", f"{home.work}/")
            for name in ("schema.json", "notes.txt")
        ]
        return [await client.call_tool("map_rows", call) for call in calls]

    results = use(ask, home, action)
    assert all(result.is_error for result in results)
    assert not any("secret" in read_text(result) for result in results)
    assert not server.requests


def priced_answer(_: Any) -> Reply:
    return wire.streams(wire.text("ok"), wire.finish(), wire.usage(cost=0.1))


@pytest.mark.slow
def test_the_cost_limit_is_that_of_all_calls(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(priced_answer)
    rows = [{"text": str(number), "cost": -5, "error": "none"} for number in range(2)]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("ask", {"prompt": "1"}),
        ("map_rows", {"prompt": "{{text}}", "rows": rows}),
        ("map_rows", {"prompt": "{{text}}", "rows": rows}),  # costs nothing
        ("ask", {"prompt": "2"}),
        ("ask", {"prompt": "3"}),
        ("map_rows", {"prompt": "{{text}}!", "rows": rows}),
    ]

    async def action(client: Client) -> Any:
        return [await client.call_tool(name, call) for name, call in calls]

    results = use(ask, home, action, "--max-cost", "0.35")
    assert [result.structured_content["exit_code"] for result in results] == [0, 0, 0, 0, 11, 11]
    assert results[1].structured_content["failed"] == 0
    assert len(server.requests) == 4


@pytest.mark.slow
def test_a_call_that_is_repeated_without_saving_counts_again(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(priced_answer)

    async def action(client: Client) -> Any:
        return [await client.call_tool("map_rows", {"prompt": "{{text}}", "rows": ["a"]}) for _ in range(4)]

    results = use(ask, home, action, "--max-cost", "0.25", "--no-save")
    assert [result.structured_content["exit_code"] for result in results] == [0, 0, 11, 11]
    assert len(server.requests) == 3


@pytest.mark.slow
def test_a_canceled_call_counts_for_the_cost_limit(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(
        wire.streams(
            *wire.stream(None, [("bash", {"command": "echo $PPID > pid; exec sleep 60"})])[:-1], wire.usage(cost=1.0)
        )
    )
    pid = home.work / "pid"

    async def action(client: Client) -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "ask", {"prompt": "go"})
            while not (pid.exists() and pid.read_text().strip()):
                await anyio.sleep(0.05)
            group.cancel_scope.cancel()
        await anyio.to_thread.run_sync(wait_for_end, pid)  # the run, whose last line the server reads then
        await anyio.sleep(0.5)
        return await client.call_tool("ask", {"prompt": "go"})

    result = use(ask, home, action, "--tools", "--max-cost", "1")
    assert (result.is_error, result.structured_content["exit_code"]) == (True, 11)
    assert len(server.requests) == 1


@pytest.mark.slow
def test_a_failure_is_an_error_of_the_tool(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.fails(401, "bad key"))

    async def action(client: Client) -> Any:
        return (
            await client.call_tool("ask", {"prompt": "hi"}),
            await client.call_tool("ask", {"prompt": "hi", "model": "missing:m"}),
        )

    refused, unknown = use(ask, home, action)
    assert (refused.is_error, unknown.is_error) == (True, True)
    assert "bad key" in read_text(refused)
    assert refused.structured_content["exit_code"] == 6


@pytest.mark.slow
def test_calls_run_at_the_same_time_and_report_progress(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(
        wire.calls(("bash", {"command": "until [ -e second ]; do sleep 0.05; done"})),
        wire.says("first"),
    )
    messages: list[str | None] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message)

    async def action(client: Client) -> Any:
        async with anyio.create_task_group() as group:
            results: list[Any] = []

            async def call() -> None:
                results.append(await client.call_tool("ask", {"prompt": "go"}, progress_callback=note))

            group.start_soon(call)
            while len(server.requests) < 1:
                await anyio.sleep(0.05)
            server.reply(wire.says("first"))
            (home.work / "second").touch()
        return results[0]

    assert read_text(use(ask, home, action, "--tools")) == "first"
    assert "calls bash" in messages


@pytest.mark.slow
def test_a_canceled_call_ends_with_its_command(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "echo $$ > pid; exec sleep 60"})))
    pid = home.work / "pid"

    async def action(client: Client) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "ask", {"prompt": "go"})
            while not (pid.exists() and pid.read_text().strip()):
                await anyio.sleep(0.05)
            group.cancel_scope.cancel()
        await anyio.to_thread.run_sync(wait_for_end, pid)
        await client.list_tools()

    use(ask, home, action, "--tools")


@pytest.mark.slow
def test_nothing_is_left_when_the_client_goes(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "echo $$ > pid; exec sleep 60"})))
    pid = home.work / "pid"

    async def action(client: Client) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "ask", {"prompt": "go"})
            while not (pid.exists() and pid.read_text().strip()):
                await anyio.sleep(0.05)
            raise EOFError

    with pytest.raises(BaseException):  # noqa: B017 - the group of the EOFError
        use(ask, home, action, "--tools")
    wait_for_end(pid)


@pytest.mark.slow
@pytest.mark.parametrize("is_waiting", [False, True])
def test_calls_end_before_the_server_does(ask: Ask, home: Home, server: ModelServer, *, is_waiting: bool) -> None:
    server.reply(wire.calls(("bash", {"command": "trap '' INT TERM; touch begun; sleep 60"})))
    options = ["--tools", "--confirm"][: 1 + is_waiting]
    with RawClient(ask, home, *options, capabilities={"elicitation": {}}, has_handshake=False) as client:
        client.call(1, "ask", {"prompt": "go"})
        if is_waiting:
            [question] = client.read_until(lambda message: message.get("id") == 1)
            assert question["result"]["resultType"] == "input_required"
        while not (is_waiting or (home.work / "begun").exists()):
            time.sleep(0.05)
        client.process.stdin.close()  # type: ignore[union-attr]
        assert client.process.wait(20) == 0
        assert not [path for path in Path("/proc").glob("[0-9]*/environ") if has_text(path, str(home.path))]


def has_text(path: Path, text: str) -> bool:
    try:
        return text.encode() in path.read_bytes()
    except OSError:  # the process is gone, or another user's
        return False


@pytest.mark.slow
def test_hooks_at_the_end_of_a_run_are_not_interrupted(ask: Ask, home: Home, server: ModelServer) -> None:
    home.configure('[[hooks]]\nevent = "run_end"\ncommand = "sleep 0.5; touch ended"\n')
    server.reply(wire.says("one"))

    async def action(client: Client) -> Any:
        return await client.call_tool("ask", {"prompt": "go"})

    assert read_text(use(ask, home, action)) == "one"
    assert (home.work / "ended").exists()


def answer_row(request: Any) -> Reply:
    [part] = request.json["messages"][-1]["content"]
    return wire.says(part["text"].upper())


@pytest.mark.slow
def test_rows_are_answered_in_order_with_progress(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(answer_row)
    (home.work / "table.csv").write_text("name\nann\nbob\n")
    reported: list[tuple[float, float | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reported.append((progress, total))

    async def action(client: Client) -> Any:
        rows = [{"text": f"row {number}"} for number in range(20)]
        return (
            await client.call_tool("map_rows", {"prompt": "say {{text}}", "rows": rows}, progress_callback=note),
            await client.call_tool("map_rows", {"prompt": "say {{text}}", "rows": ["one"]}),
            await client.call_tool("map_rows", {"prompt": "say {{name}}", "file": "table.csv"}),
            await client.call_tool("map_rows", {"prompt": "say {{missing}}", "rows": ["one"]}),
            await client.call_tool("map_rows", {"prompt": "-x {{text}}", "rows": ["x" * 200_000]}),
        )

    many, text, table, broken, large = use(ask, home, action)
    assert [row["answer"] for row in many.structured_content["rows"]] == [f"SAY ROW {n}" for n in range(20)]
    assert (many.structured_content["count"], many.structured_content["failed"]) == (20, 0)
    assert reported[-1] == (20, 20)
    assert [row["answer"] for row in text.structured_content["rows"]] == ["SAY ONE"]
    assert [row["answer"] for row in table.structured_content["rows"]] == ["SAY ANN", "SAY BOB"]
    assert (broken.is_error, "missing" in read_text(broken)) == (True, True)
    [saved] = map(json.loads, Path(large.structured_content["file"]).read_text().splitlines())
    assert saved["answer"].startswith("-X XXX")


@pytest.mark.slow
@pytest.mark.parametrize("prompt", ["Summarize.", "Summarize {{input}}"])
def test_a_row_names_no_file_to_attach(ask: Ask, home: Home, server: ModelServer, prompt: str) -> None:
    server.reply(answer_row)
    (home.path / "secret").write_text("what only the user may read")

    async def action(client: Client) -> Any:
        return await client.call_tool("map_rows", {"prompt": prompt, "rows": [{"path": str(home.path / "secret")}]})

    [row] = use(ask, home, action).structured_content["rows"]
    assert row["path"].upper() in row["answer"]
    assert "what only the user may read" not in str([request.json for request in server.requests])


@pytest.mark.slow
def test_rows_have_the_fields_of_a_schema_and_failed_rows_say_why(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says('{"urgent": true}'), wire.fails(400, "too bad"))

    async def action(client: Client) -> Any:
        call = {"prompt": "Urgent? {{text}}", "rows": ["a", "b"], "schema": "urgent bool"}
        return await client.call_tool("map_rows", call)

    result = use(ask, home, action)
    assert sorted(str(row["urgent"]) for row in result.structured_content["rows"]) == ["None", "True"]
    assert (result.structured_content["failed"], result.is_error) == (1, False)


@pytest.mark.slow
def test_the_history_is_searched_only_if_the_user_allows_it(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("a fox"))
    ask("tell me about foxes")

    async def action(client: Client) -> Any:
        return (
            [tool.name for tool in (await client.list_tools()).tools],
            await client.call_tool("search_history", {"query": "foxes"}),
            await client.call_tool("search_history", {"query": "--help"}),
        )

    names, found, none = use(ask, home, action, "--history")
    assert "search_history" in names
    assert len(found.structured_content["conversations"]) == 1
    assert none.structured_content["conversations"] == []


@pytest.mark.slow
def test_an_interrupted_client_does_not_send_again(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(Reply((HOLD,)))

    async def action(client: Client) -> None:
        with anyio.move_on_after(3):
            await client.call_tool("map_rows", {"prompt": "say {{text}}", "rows": ["a"]})

    use(ask, home, action)
    assert len(server.requests) <= 1
