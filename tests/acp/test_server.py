"""`ask acp` with the client of the official SDK, over standard input and output."""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import wire
from tests.acp.editor import Editor, acp, use
from tests.mcp.setting import PIXEL, SDK
from tests.model_server import ModelServer
from tests.program import ASK, Ask, Home, wait_for_end
from tests.slow_parameters import mark_others_slow


def test_prompts_are_a_saved_conversation_that_is_loaded_again(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("one"), wire.says("two"))
    note = home.work / "note.txt"
    note.write_text("a note")
    result = {}

    async def action(agent: Any, session: Any) -> None:
        link = acp.resource_link_block("note", note.as_uri())
        embedded = acp.resource_block(acp.embedded_text_resource("file:///x/part.py", "a part"))
        first = await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("read "), link, embedded])
        await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("more")])
        result["stop"] = first.stop_reason
        result["list"] = (await agent.list_sessions(cwd=str(home.work))).sessions
        result["other"] = (await agent.list_sessions(cwd="/")).sessions
        editor.updates.clear()
        await agent.load_session(cwd=str(home.work), session_id=session.session_id, mcp_servers=[])
        result["modes"] = session.modes
        result["id"] = session.session_id

    editor = Editor()
    use(ask, home, action, editor)
    assert result["stop"] == "end_turn"
    first, second = (request.json["messages"] for request in server.requests)
    assert [message["role"] for message in first] == ["system", "user"]
    assert "a note" in str(first[1]["content"])
    assert "a part" in str(first[1]["content"])
    assert [message["role"] for message in second] == ["system", "user", "assistant", "user"]
    assert [each.session_id for each in result["list"]] == [result["id"]]
    assert not result["other"]
    assert editor.read_text() == "onetwo"
    assert editor.read_text("user_message_chunk").endswith("more")
    assert result["modes"].current_mode_id == "confirm"
    assert [mode.id for mode in result["modes"].available_modes] == ["confirm", "safe", "read-only"]


@pytest.mark.parametrize("choice", mark_others_slow(["allow", "reject", "fail"]))
def test_a_write_needs_permission_and_shows_its_diff(ask: Ask, home: Home, server: ModelServer, choice: str) -> None:
    server.reply(wire.calls(("write_file", {"filepath": "a.txt", "content": "new\n"})), wire.says("done"))
    file = home.work / "a.txt"
    file.write_text("old\n")
    editor = Editor(choice)

    async def action(agent: Any, session: Any) -> None:
        await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])

    use(ask, home, action, editor)
    [(call, kinds)] = editor.asked
    assert file.read_text() == ("new\n" if choice == "allow" else "old\n")
    assert kinds == ["allow_once", "allow_always", "reject_once"]
    [diff] = call.content
    assert (diff.path, diff.old_text, diff.new_text) == (str(file), "old\n", "new\n")
    assert (call.kind, call.locations[0].path) == ("edit", str(file))
    [start] = editor.find("tool_call")
    assert start.tool_call_id == call.tool_call_id
    last = editor.find("tool_call_update")[-1]
    assert last.status == ("completed" if choice == "allow" else "failed")
    assert editor.read_text() == "done"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("filepath", "is_outside"),
    [("notes.md", True), ("up/../a.txt", True), ("inside.md", False)],
)
def test_the_diff_of_a_write_through_a_link_names_the_file_that_is_written(
    ask: Ask, home: Home, server: ModelServer, *, filepath: str, is_outside: bool
) -> None:
    server.reply(wire.calls(("write_file", {"filepath": filepath, "content": "new\n"})), wire.says("done"))
    outside = home.path / "outside"
    (outside / "inner").mkdir(parents=True)
    for folder in (outside, home.work):
        (folder / "a.txt").write_text("old\n")
    for link, target in (("notes.md", outside / "a.txt"), ("up", outside / "inner"), ("inside.md", Path("a.txt"))):
        (home.work / link).symlink_to(target)
    editor = Editor()

    async def action(agent: Any, session: Any) -> None:
        await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])

    use(ask, home, action, editor)
    [(call, _)] = editor.asked
    written = (outside if is_outside else home.work) / "a.txt"
    assert written.read_text() == "new\n"
    assert (call.content[0].path, call.locations[0].path) == (str(written), str(written))


@pytest.mark.slow
def test_an_approval_for_the_folder_is_remembered(ask: Ask, home: Home, server: ModelServer) -> None:
    call = wire.calls(("bash", {"command": "echo hi"}))
    server.reply(call, wire.says("a"), call, wire.says("b"))
    editor = Editor("always")

    async def action(agent: Any, session: Any) -> None:
        for _ in range(2):
            await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])

    use(ask, home, action, editor)
    assert len(editor.asked) == 1
    assert editor.read_text() == "ab"


@pytest.mark.slow
def test_an_editor_that_ends_at_once_leaves_no_traceback(ask: Ask, home: Home) -> None:
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    second = {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": str(home.work), "mcpServers": []}}
    result = ask.process("acp", stdin="".join(f"{json.dumps(line)}\n" for line in (first, second)).encode())
    assert (result.code, result.stderr) == (0, "")
    assert {json.loads(line).get("id") for line in result.text.splitlines()} >= {1, 2}


@pytest.mark.slow
def test_stdin_and_stdout_that_are_no_pipes_are_an_error(ask: Ask, home: Home) -> None:
    (home.work / "in").write_text("")
    for redirection in ("< in", "< /dev/null", "<&-", "> out"):
        result = ask.shell(f": | {ASK} acp {redirection}")
        assert (result.code, result.stderr.count("\n")) == (2, 1), redirection
        assert "needs a pipe" in result.stderr


@pytest.mark.parametrize("mode", ["confirm", pytest.param("safe", marks=pytest.mark.slow)])
def test_no_mode_loosens_the_options(ask: Ask, home: Home, server: ModelServer, mode: str) -> None:
    outside = home.path / "outside"
    write = ("write_file", {"filepath": str(outside), "content": "x"})
    server.reply(wire.calls(write, ("bash", {"command": f"touch {outside}"})), wire.says("Done."))

    async def action(agent: Any, session: Any) -> None:
        await agent.set_session_mode(session_id=session.session_id, mode_id=mode)
        await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])

    use(ask, home, action, options=("--safe-files",))
    assert "bash" not in {tool["function"]["name"] for tool in server.requests[0].json["tools"]}
    assert not outside.exists()


@pytest.mark.slow
def test_the_read_only_mode_offers_no_tool_that_writes(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("a"), wire.says("b"))

    async def action(agent: Any, session: Any) -> None:
        await agent.set_session_mode(session_id=session.session_id, mode_id="read-only")
        await agent.set_config_option(config_id="model", session_id=session.session_id, value="other-model")
        await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])
        await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("/model third")])
        await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])
        with pytest.raises(acp.RequestError, match="unknown mode"):
            await agent.set_session_mode(session_id=session.session_id, mode_id="none")

    use(ask, home, action)
    names = {tool["function"]["name"] for tool in server.requests[0].json["tools"]}
    assert "read_file" in names
    assert not names & {"bash", "write_file", "edit_file"}
    assert [request.json["model"] for request in server.requests] == ["other-model", "third"]


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["allow", "wait"])
def test_a_canceled_prompt_ends_what_runs_and_is_saved(ask: Ask, home: Home, server: ModelServer, choice: str) -> None:
    call = wire.calls(("bash", {"command": "echo $$ > new; mv new pid; echo started; sleep 60"}))
    server.reply(call, wire.says("again"))
    editor = Editor(choice)
    reasons = []

    async def action(agent: Any, session: Any) -> None:
        prompt = asyncio.create_task(agent.prompt(session_id=session.session_id, prompt=[acp.text_block("go")]))
        await editor.wait_for("tool_call")
        while choice == "allow" and not (home.work / "pid").exists():
            await asyncio.sleep(0.02)
        with pytest.raises(acp.RequestError, match="still answering"):
            await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("second")])
        await agent.cancel(session_id=session.session_id)
        reasons.append((await prompt).stop_reason)
        reasons.append((await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("on")])).stop_reason)

    use(ask, home, action, editor)
    assert reasons == ["cancelled", "end_turn"]
    if choice == "allow":
        wait_for_end(home.work / "pid")
    with sqlite3.connect(home.data / "history.db") as connection:
        assert connection.execute("SELECT count(*) FROM conversations").fetchone() == (1,)


@pytest.mark.slow
def test_nothing_runs_or_is_lost_when_the_editor_dies(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "echo $$ > new; mv new pid; sleep 60"})))

    async def action(agent: Any, session: Any) -> None:
        prompt = asyncio.create_task(agent.prompt(session_id=session.session_id, prompt=[acp.text_block("go")]))
        while not (home.work / "pid").exists():
            await asyncio.sleep(0.02)
        prompt.cancel()

    use(ask, home, action)
    wait_for_end(home.work / "pid")
    with sqlite3.connect(home.data / "history.db") as connection:
        assert connection.execute("SELECT exit_code FROM runs").fetchone() == (130,)


@pytest.mark.slow
def test_wrong_lines_and_parameters_are_errors(ask: Ask, home: Home, server: ModelServer) -> None:
    lines: list[Any] = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
        {"id": 2, "method": "session/new", "params": {"cwd": "relative", "mcpServers": []}},
        {"id": 3, "method": "session/new", "params": {"cwd": 5}},
        {"id": 4, "method": "session/prompt", "params": {"sessionId": "x", "prompt": []}},
        {"id": 5, "method": "session/load", "params": {"sessionId": "x", "cwd": "/", "mcpServers": []}},
        {"id": 6, "method": "missing"},
        5,
        [],
        {"id": 7, "method": 5},
    ]
    text = "garbage\n" + "".join(json.dumps(line) + "\n" for line in lines)
    result = ask.process("acp", stdin=text.encode())
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    codes = {answer["id"]: answer["error"]["code"] for answer in answers if answer["id"] and "error" in answer}
    assert codes == {2: -32602, 3: -32602, 4: -32602, 5: -32002, 6: -32601}
    assert sorted(answer["error"]["code"] for answer in answers if answer["id"] is None) == [-32700, *[-32600] * 3]
    assert result.code == 0


@pytest.mark.slow
def test_servers_templates_and_files_of_the_editor_are_used(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("one"))
    templates = home.config / "templates"
    templates.mkdir(parents=True)
    (templates / "greet.md").write_text('+++\ndescription = "Greets"\n+++\nGreet {{input}}')
    (home.work / "AGENTS.md").write_text("an instruction")
    notes = acp.schema.McpServerStdio(name="notes", command=sys.executable, args=[SDK], env=[])
    missing = acp.schema.McpServerStdio(name="missing", command="/missing", args=[], env=[])
    pixel = acp.image_block(base64.b64encode(PIXEL).decode(), "image/png")
    data = base64.b64encode(b"%PDF-1.4").decode()
    outside = acp.resource_block(acp.embedded_blob_resource("file:///..", data, mime_type="application/pdf"))
    editor = Editor()

    async def action(agent: Any, _: Any) -> None:
        session = await agent.new_session(cwd=str(home.work), mcp_servers=[notes, missing])
        blocks = [acp.text_block("/greet Ann"), pixel, outside]
        await agent.prompt(session_id=session.session_id, prompt=blocks)
        for wrong in ([], [acp.image_block("$", "image/png")]):
            with pytest.raises(acp.RequestError):
                await agent.prompt(session_id=session.session_id, prompt=wrong)

    use(ask, home, action, editor)
    [request] = server.requests
    assert any(tool["function"]["name"].startswith("notes") for tool in request.json["tools"])
    text = json.dumps(request.json["messages"])
    assert "Greet Ann" in text
    assert "image/png" in text
    assert "application/pdf" in text
    assert "an instruction" not in text
    thoughts = editor.read_text("agent_thought_chunk")
    assert "AGENTS.md" in thoughts
    assert "missing" in thoughts
    commands = editor.find("available_commands_update")[-1].available_commands
    assert {"model", "greet"} <= {command.name for command in commands}


@pytest.mark.slow
def test_a_missing_key_and_a_failure_are_errors(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.fails(400, "bad request"))
    errors = []

    async def action(agent: Any, session: Any) -> None:
        for model in ("default", "openai:gpt"):
            await agent.set_config_option(config_id="model", session_id=session.session_id, value=model)
            with pytest.raises(acp.RequestError) as error:
                await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])
            errors.append(error.value)

    use(ask, home, action)
    assert [error.code for error in errors] == [-32603, -32000]
    assert "bad request" in str(errors[0])
    assert "ask keys set" in str(errors[1])
