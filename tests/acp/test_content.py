"""What `ask acp` sends to the model, and how it shows a conversation again."""

from __future__ import annotations

import base64
import json
import textwrap
from typing import Any

import pytest

from tests import wire
from tests.acp.editor import Editor, acp, use
from tests.mcp.setting import PIXEL
from tests.model_server import ModelServer
from tests.program import Ask, Home


@pytest.mark.slow
def test_addresses_of_resources(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("ok"))
    note = home.work / "a note.txt"
    note.write_text("a note")
    unsaved = home.work / "unsaved.txt"
    addresses = [f"{note.as_uri()}#L1:2", "file://elsewhere/etc/passwd", "http://[broken", "sub/x.py", "file:///a%00b"]
    blocks: list[Any] = [acp.resource_link_block("name", uri) for uri in addresses]
    blocks.append(acp.resource_link_block("unsaved", unsaved.as_uri()))
    blocks += [
        acp.resource_block(acp.embedded_text_resource(uri, "part")) for uri in ("file:///x/y.py#L3:4", "http://[")
    ]

    async def action(agent: Any, session: Any) -> None:
        await agent.prompt(session_id=session.session_id, prompt=blocks)

    use(ask, home, action)
    sent = wire.asked(server.requests[0].json)
    assert f"`{note}#L1:2`" in sent
    assert f"`{unsaved}` (not attached" in sent
    assert f'<file name="{note}">\na note\n</file>' in sent
    assert all(f"[name]({uri})" in sent for uri in addresses[1:])
    assert '<file name="/x/y.py#L3:4">\npart\n</file>' in sent
    assert '<file name="http://[">\npart\n</file>' in sent
    assert sent.count("<file") == 3


@pytest.mark.slow
def test_slash_commands(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("ok"))
    templates = home.config / "templates"
    templates.mkdir(parents=True)
    (templates / "fixed.md").write_text("Say hello.")
    (templates / "filled.md").write_text("Fix {{input}}.")
    editor = Editor()

    async def action(agent: Any, session: Any) -> None:
        for text in ("/fixed", "/filled\nline one\nline two", "/filled\tit", "/filled2 it", "/model other"):
            await agent.prompt(session_id=session.session_id, prompt=[acp.text_block(text)])
        blocks = [acp.text_block("/model x"), acp.resource_block(acp.embedded_text_resource("file:///x", "part"))]
        await agent.prompt(session_id=session.session_id, prompt=blocks)
        with pytest.raises(acp.RequestError, match="needs input"):
            await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("/filled")])

    use(ask, home, action, editor)
    sent = [wire.asked(request.json) for request in server.requests]
    assert sent[:4] == ["Say hello.", "Fix line one\nline two.", "Fix it.", "/filled2 it"]
    assert sent[4].startswith("/model x\n\n<file")
    assert [request.json["model"] for request in server.requests][4:] == ["other"]


@pytest.mark.slow
def test_a_loaded_conversation_has_its_edits_and_images(ask: Ask, home: Home, server: ModelServer) -> None:
    edit = ("edit_file", {"filepath": "a.txt", "old_text": "old", "new_text": "new"})
    missing = ("edit_file", {"filepath": "missing", "old_text": "old", "new_text": "new"})
    server.reply(wire.calls(edit, missing), wire.says("done"))
    (home.work / "a.txt").write_text("an old text\n")
    data = base64.b64encode(PIXEL).decode()
    wrapped = "\n".join(textwrap.wrap(data, 20))
    editor = Editor()

    async def action(agent: Any, session: Any) -> None:
        name = session.session_id
        await agent.prompt(session_id=name, prompt=[acp.text_block("go"), acp.image_block(wrapped, "image/png")])
        editor.updates.clear()
        await agent.load_session(cwd=str(home.work), session_id=name, mcp_servers=[])

    use(ask, home, action, editor)
    text, image = (update.content for update in editor.find("user_message_chunk"))
    assert (text.text, image.mime_type, image.data) == ("go", "image/png", data)
    first, second = editor.find("tool_call")
    [diff] = first.content
    assert (first.status, diff.path, diff.old_text, diff.new_text) == (
        "completed",
        str(home.work / "a.txt"),
        "old",
        "new",
    )
    assert (second.status, second.content[0].type) == ("failed", "content")


@pytest.mark.slow
def test_sessions_are_listed_for_every_path_of_their_folder(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("ok"))
    link = home.path / "link"
    link.symlink_to(home.work)
    found = {}

    async def action(agent: Any, _: Any) -> None:
        session = await agent.new_session(cwd=str(link), mcp_servers=[])
        await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])
        for folder in (str(link), str(home.work), f"{home.work}/", f"{home.work}/../work", str(home.path)):
            sessions = (await agent.list_sessions(cwd=folder)).sessions
            found[folder] = [each.session_id for each in sessions] == [session.session_id]

    use(ask, home, action)
    assert [*found.values()] == [True, True, True, True, False]


@pytest.mark.slow
def test_the_limit_of_a_prompt_counts_its_bytes(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("ok"))

    async def action(agent: Any, session: Any) -> None:
        await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("é" * 3_000_000)])
        with pytest.raises(acp.RequestError, match="stdin_limit"):
            await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("é" * 6_000_000)])

    use(ask, home, action)
    assert [request.method for request in server.requests].count("POST") == 1


@pytest.mark.slow
def test_sources_and_images_of_an_answer_are_shown(ask: Ask, home: Home, server: ModelServer) -> None:
    annotation = {"type": "url_citation", "url_citation": {"url": "https://example.org/a", "title": "A page"}}
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"}}
    server.reply(
        wire.streams(
            wire.text("an answer"), wire.chunk({"annotations": [annotation], "images": [image]}), wire.finish()
        )
    )
    editor = Editor()

    async def action(agent: Any, session: Any) -> None:
        await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])
        blocks = [update.content for update in editor.find("agent_message_chunk")]
        editor.updates.clear()
        await agent.load_session(cwd=str(home.work), session_id=session.session_id, mcp_servers=[])
        blocks += [update.content for update in editor.find("agent_message_chunk")]
        shown.extend(json.loads(block.model_dump_json(exclude_none=True)) for block in blocks)

    shown: list[Any] = []
    use(ask, home, action, editor)
    [link] = [block for block in shown if block["type"] == "resource_link"]
    assert link["uri"].startswith(home.work.as_uri())
    texts = "".join(block["text"] for block in shown if block["type"] == "text")
    assert texts.count("[A page](<https://example.org/a>)") == 2
    assert [block["type"] for block in shown].count("image") == 1
