"""`ask history import` of JSON lists of messages, as scripts and shell_gpt save them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home, run

CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "You are ShellGPT."},
    {"role": "user", "content": "My number is 4."},
    {"role": "assistant", "content": "Noted."},
    {"role": "user", "content": "Double it."},
    {"role": "assistant", "content": "8"},
]


def write_chat(path: Path, messages: Sequence[dict[str, Any]], **arguments: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(messages, **arguments), "utf-8")
    return path


def test_a_list_of_messages_is_a_conversation_named_after_its_file(ask: Ask, server: ModelServer, home: Home) -> None:
    file = write_chat(home.work / "numbers.json", CHAT, indent=1)
    imported = ask("history", "import", str(file))
    assert (imported.code, imported.stderr) == (0, "Imported 1 conversation.\n")
    [listed] = json.loads(ask("history", "list", "--json").stdout)
    assert listed["title"].startswith("numbers")
    server.reply(wire.says("16"))
    assert ask("--resume", listed["id"], "again").text == "16\n"
    system, *sent = server.requests[0].json["messages"]
    assert "You are ShellGPT." in str(system)
    texts = [*(message["content"] for message in CHAT[1:]), "again"]
    assert all(text in str(message) for text, message in zip(texts, sent, strict=True))


def test_a_folder_of_lists_is_imported(ask: Ask, home: Home) -> None:
    folder = home.work / "chat_cache"
    for name in ("disk", "v1.2", "ü"):
        write_chat(folder / name, [{"role": "user", "content": f"On {name}?"}, *CHAT[2:]])
    (folder / ".hidden").write_text("x")
    assert ask("history", "import", str(folder)).stderr == "Imported 3 conversations.\n"
    titles = {each["title"] for each in json.loads(ask("history", "list", "--json").stdout)}
    assert {title.partition(":")[0] for title in titles} == {"disk", "v1.2", "ü"}
    (folder / "broken").write_text("[{")
    write_chat(folder / "disk", [{"role": "user", "content": "On disk?"}, *CHAT[2:], *CHAT[1:3]])
    again = ask("history", "import", str(folder))
    assert (again.code, "Continued 1" in again.stderr, "Skipped 2" in again.stderr) == (9, True, True), again.stderr
    assert "broken" in again.stderr


def test_chats_that_begin_with_the_same_question_stay_separate(ask: Ask, home: Home) -> None:
    chats = {
        name: [CHAT[1], {"role": "assistant", "content": f"Noted by {name}."}, CHAT[3], {**CHAT[4], "content": name}]
        for name in "abc"
    }
    files = [write_chat(home.work / name / "temp", messages[:2]) for name, messages in chats.items()]
    assert ask("history", "import", *map(str, files)).stderr == "Imported 3 conversations.\n"
    for name, messages in chats.items():
        write_chat(home.work / name / "temp", messages)
    for _ in range(2):
        imported = ask("history", "import", *map(str, files), "--json")
        results = json.loads(imported.stdout)
        assert len({result["imported_id"] for result in results}) == 3
        for name, result in zip(chats, results, strict=True):
            shown = ask("history", "show", result["imported_id"]).text
            assert [f"Noted by {each}." in shown for each in chats] == [each == name for each in chats]
            assert shown.rstrip().endswith(f"\n{name}")
    assert {result["status"] for result in results} == {"already here"}


def test_a_folder_may_have_more_exports_than_files_may_be_open(ask: Ask, home: Home) -> None:
    assert ask("-p", "demo", "--no-tools", "hi").code == 0
    export = json.loads(ask("history", "export", "--json").stdout)
    (home.work / "exports").mkdir()
    for number in range(70):
        (home.work / "exports" / f"{number}.json").write_text(json.dumps(export | {"id": f"a{number:011}"}))
    imported = run(["bash", "-c", "ulimit -n 60; exec ask history import exports"], env=ask.env, cwd=ask.cwd)
    assert imported.stderr == "Imported 70 conversations.\n"


def test_calls_and_content_parts_are_imported(ask: Ask, home: Home) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "execute", "arguments": '{"command": "ls"}'}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Which files\ud800?"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "a.txt", "tool_call_id": "1"},
        {"role": "assistant", "content": "", "function_call": {"name": "execute", "arguments": "{}"}},
        {"role": "function", "name": "execute", "content": "b.txt"},
        {"role": "assistant", "content": "a.txt and b.txt"},
    ]
    imported = ask("history", "import", "--json", stdin=json.dumps(messages).encode())
    [result] = json.loads(imported.stdout)
    shown = ask("history", "show", result["imported_id"]).text
    assert all(text in shown for text in ("Which files", "execute", "a.txt", "b.txt", "a.txt and b.txt"))


@pytest.mark.parametrize("messages", [[CHAT[0]], [{"role": 5, "content": "x"}], [{"content": "x"}], [CHAT[1], 5]])
def test_other_lists_are_an_error(messages: Any, ask: Ask, home: Home) -> None:
    failed = ask("history", "import", str(write_chat(home.work / "other.json", messages)))
    assert failed.code == 9
    assert "other.json" in failed.stderr
    assert json.loads(ask("history", "list", "--json").stdout) == []
