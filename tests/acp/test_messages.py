"""What `ask acp` makes of messages that an editor should not send, and of its end."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import time
from typing import Any

import pytest

from tests import wire
from tests.acp.editor import Editor, acp, start_raw, use
from tests.model_server import ModelServer
from tests.program import ASK, Ask, Home, is_running, wait_for_end

INVALID_ANSWERS: dict[str, Any] = {
    "error of the wrong type": {"error": "no"},
    "no result": {"result": None},
    "result of the wrong type": {"result": "allow"},
    "unknown outcome": {"result": {"outcome": {"outcome": "yes", "optionId": "allow"}}},
    "outcome without its object": {"result": {"outcome": "selected", "optionId": "allow"}},
    "option of the wrong type": {"result": {"outcome": {"outcome": "selected", "optionId": 1}}},
    "unknown option": {"result": {"outcome": {"outcome": "selected", "optionId": "Allow"}}},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", INVALID_ANSWERS)
def test_an_invalid_answer_to_a_question_denies_the_call(ask: Ask, home: Home, server: ModelServer, name: str) -> None:
    server.reply(wire.calls(("bash", {"command": "touch ran"})), wire.says("done"))
    with start_raw(ask) as (editor, running):
        session = editor.open_session(home.work)
        editor.send({"id": 3, "method": "session/prompt", "params": {"sessionId": session, "prompt": PROMPT}})
        question = editor.wait_for_question()["id"]
        editor.send({"id": [], **INVALID_ANSWERS[name]}, {"id": question, **INVALID_ANSWERS[name]})
        answer = editor.wait_for(lambda message: message.get("id") == 3)
        editor.close()
        result = running.finish()
    assert answer["result"]["stopReason"] == "end_turn"
    assert "declined" in wire.asked(server.requests[1].json)
    assert (result.code, result.stderr) == (0, "")
    assert not (home.work / "ran").exists()


PROMPT = [{"type": "text", "text": "go"}]


@pytest.mark.slow
def test_a_dismissed_question_cancels_the_prompt(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "touch ran"})), wire.says("done"))
    editor = Editor("dismiss")
    reasons = []

    async def action(agent: Any, session: Any) -> None:
        reasons.append((await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])).stop_reason)

    use(ask, home, action, editor)
    assert reasons == ["cancelled"]
    assert editor.find("tool_call_update")[-1].status == "failed"
    assert len(server.requests) == 1
    assert not (home.work / "ran").exists()


@pytest.mark.slow
def test_metadata_and_missing_parameters_are_no_parameters(ask: Ask, home: Home) -> None:
    with start_raw(ask) as (editor, running):
        session = editor.request(1, "session/new", cwd=str(home.work), mcpServers=[], _meta={"self": 1, "cwd": "/"})
        editor.send({"id": 2, "method": "session/list"})
        sessions = editor.wait_for(lambda message: message.get("id") == 2)
        editor.close()
        result = running.finish()
    assert session["result"]["sessionId"]
    assert sessions["result"] == {"sessions": []}
    assert result.stderr == ""


@pytest.mark.slow
def test_a_text_that_was_cut_within_a_character_is_sent(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("done"))
    with start_raw(ask) as (editor, _):
        session = editor.open_session(home.work)
        answer = editor.request(3, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "cut \ud83d"}])
        editor.close()
    assert answer["result"]["stopReason"] == "end_turn"
    assert "cut \ufffd" in wire.asked(server.requests[0].json)


@pytest.mark.slow
def test_unknown_and_wrong_notifications_are_ignored_silently(ask: Ask, home: Home) -> None:
    methods = ["$/cancel_request", "missing", "session/prompt", "session/cancel"]
    lines = [{"method": method, "params": {"requestId": 1}} for method in methods]
    result = ask.process("acp", stdin="".join(f"{json.dumps(line)}\n" for line in lines).encode())
    assert (result.code, result.text, result.stderr) == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT, None])
@pytest.mark.parametrize("state", ["command", "question"])
def test_the_end_of_the_server_ends_everything_and_is_silent(
    ask: Ask, home: Home, server: ModelServer, ending: signal.Signals | None, state: str
) -> None:
    server.reply(wire.calls(("bash", {"command": "echo $$ > new; mv new pid; sleep 60"})))
    with start_raw(ask) as (editor, running):
        session = editor.open_session(home.work)
        editor.send({"id": 3, "method": "session/prompt", "params": {"sessionId": session, "prompt": PROMPT}})
        question = editor.wait_for_question()["id"]
        if state == "command":
            outcome = {"outcome": "selected", "optionId": "allow"}
            editor.send({"id": question, "result": {"outcome": outcome}})
            while not (home.work / "pid").exists():
                time.sleep(0.02)
        if ending is None:
            editor.close()
        else:
            running.signal(ending)
        result = running.finish()
    assert (result.code, result.stderr) == (128 + ending if ending else 0, "")
    if state == "command":
        wait_for_end(home.work / "pid")
    with sqlite3.connect(home.data / "history.db") as connection:
        assert connection.execute("SELECT exit_code FROM runs").fetchone() == (130,)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["cancel", "close"])
def test_nothing_interrupts_the_end_of_a_canceled_prompt(
    ask: Ask, home: Home, server: ModelServer, ending: str
) -> None:
    server.reply(wire.calls(("bash", {"command": "trap '' INT TERM; echo $$ > new; mv new pid; sleep 60"})))
    with start_raw(ask) as (editor, running):
        session = editor.open_session(home.work)
        editor.send({"id": 3, "method": "session/prompt", "params": {"sessionId": session, "prompt": PROMPT}})
        outcome = {"outcome": "selected", "optionId": "allow"}
        editor.send({"id": editor.wait_for_question()["id"], "result": {"outcome": outcome}})
        while not (home.work / "pid").exists():
            time.sleep(0.02)
        cancel = {"method": "session/cancel", "params": {"sessionId": session}}
        editor.send(cancel)
        time.sleep(0.3)
        if ending == "cancel":
            editor.send(cancel)
            answer = editor.wait_for(lambda message: message.get("id") == 3)
            assert answer["result"]["stopReason"] == "cancelled"
            assert not is_running(int((home.work / "pid").read_text()))
        editor.close()
        assert running.finish().code == 0
    assert not is_running(int((home.work / "pid").read_text()))
    with sqlite3.connect(home.data / "history.db") as connection:
        assert connection.execute("SELECT exit_code FROM runs").fetchone() == (130,)


@pytest.mark.slow
def test_a_broken_configuration_is_an_error_that_names_the_file(ask: Ask, home: Home) -> None:
    home.configure("[")
    with start_raw(ask) as (editor, running):
        answer = editor.request(1, "session/new", cwd=str(home.work), mcpServers=[])
        editor.close()
        result = running.finish()
    assert "config.toml" in answer["error"]["message"]
    assert result.stderr == ""


@pytest.mark.slow
def test_only_the_whole_id_of_a_conversation_loads_it(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("ok"))

    async def action(agent: Any, session: Any) -> None:
        await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])
        for name in ("1", session.session_id[:6], ""):
            for method in (agent.load_session, agent.resume_session):
                with pytest.raises(acp.RequestError) as error:
                    await method(cwd=str(home.work), session_id=name, mcp_servers=[])
                assert error.value.code == acp.RequestError.resource_not_found().code

    use(ask, home, action)


@pytest.mark.slow
def test_a_folder_that_was_removed_and_a_damaged_history_are_errors(ask: Ask, home: Home) -> None:
    home.data.mkdir()
    (home.data / "history.db").write_bytes(b"no database" * 1000)
    folder = home.path / "folder"
    folder.mkdir()
    with start_raw(ask) as (editor, running):
        session = editor.open_session(folder)
        folder.rmdir()
        prompted = editor.request(3, "session/prompt", sessionId=session, prompt=PROMPT)
        loaded = editor.request(4, "session/load", sessionId=session, cwd=str(home.work), mcpServers=[])
        listed = editor.request(5, "session/list")
        editor.close()
        result = running.finish()
    assert str(folder) in prompted["error"]["message"]
    assert "damaged" in loaded["error"]["message"]
    assert "damaged" in listed["error"]["message"]
    assert (result.code, result.stderr) == (0, "")


@pytest.mark.slow
def test_a_limit_is_explained(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.calls(("list_dir", {"dirpath": "."})))
    editor = Editor()
    reasons = []

    async def action(agent: Any, session: Any) -> None:
        reasons.append((await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])).stop_reason)

    use(ask, home, action, editor, ("--max-rounds", "1"))
    assert reasons == ["max_turn_requests"]
    assert "--max-rounds" in editor.read_text("agent_thought_chunk")
    [call] = editor.find("tool_call")
    assert (call.title, call.locations[0].path) == ("list_dir .", str(home.work))


@pytest.mark.slow
def test_texts_of_tools_are_code_blocks(ask: Ask, home: Home, server: ModelServer) -> None:
    command = "printf '\\033[1m# x\\033[0m\\n'; sleep 0.01; echo '````'; sleep 1"
    server.reply(wire.calls(("bash", {"command": command})), wire.says("done"))
    editor = Editor()

    async def action(agent: Any, session: Any) -> None:
        await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])

    use(ask, home, action, editor)
    [(question, _)] = editor.asked
    assert question.content[0].content.text.startswith("`````\nThe model wants to call bash")
    updates = [update for update in editor.find("tool_call_update") if update.content]
    assert updates[-2].content[0].content.text == "`````\n# x\n````\n`````"
    assert updates[-1].content[0].content.text.startswith("`````\nexit code: 0")


@pytest.mark.slow
def test_the_dollar_signs_of_the_editor_are_no_variables(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("done"))
    values = ["a$b", "$$", "${HOME}", "$${x}"]
    shell = acp.schema.McpServerStdio(
        name="shell",
        command="sh",
        args=["-c", 'printf "%s\\n" "$@" "$A" "$B" > values', "sh", *values],
        env=[acp.schema.EnvVariable(name="A", value="pa$$word$c"), acp.schema.EnvVariable(name="B", value="${HOME}")],
    )

    async def action(agent: Any, _: Any) -> None:
        session = await agent.new_session(cwd=str(home.work), mcp_servers=[shell])
        await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])

    use(ask, home, action)
    assert (home.work / "values").read_text().splitlines() == [*values, "pa$$word$c", "${HOME}"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {"args": ["-c", "echo $A > value"], "env": {"A": "1"}},
        {"type": "stdio", "command": "./server", "env": None},
        {"command": "./server"},
        {"command": None, "url": "http://127.0.0.1:1/mcp"},
    ],
)
def test_servers_without_empty_fields_are_used(
    ask: Ask, home: Home, server: ModelServer, fields: dict[str, Any]
) -> None:
    server.reply(wire.says("done"))
    script = home.work / "server"
    script.write_text("#!/bin/sh\necho 1 > value\n")
    script.chmod(0o755)
    table = {"name": "tickets", "command": "sh", **fields}
    with start_raw(ask) as (editor, _):
        session = editor.request(1, "session/new", cwd=str(home.work), mcpServers=[table, "wrong"])["result"][
            "sessionId"
        ]
        editor.request(2, "session/prompt", sessionId=session, prompt=PROMPT)
        thought = editor.wait_for(lambda message: "agent_thought_chunk" in str(message))
        editor.close()
    assert "tickets" in str(thought)
    assert "url" in fields or (home.work / "value").read_text() == "1\n"


@pytest.mark.slow
def test_an_editor_that_no_longer_reads_causes_no_messages(ask: Ask, home: Home) -> None:
    requests = [{"jsonrpc": "2.0", "id": number, "method": "session/list"} for number in range(50)]
    with subprocess.Popen(
        [str(ASK), "acp"],
        env=dict(ask.env),
        cwd=home.path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stdin.writelines(json.dumps(request).encode() + b"\n" for request in requests)
        process.stdin.flush()
        time.sleep(2)  # until the server has noticed it
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(20) == 0
