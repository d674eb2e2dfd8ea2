"""`-f mcp://SERVER/URI` and `-t mcp://SERVER/PROMPT`, with a server built with the official SDK."""

from __future__ import annotations

import base64
import json
import shlex
import sys
from typing import Any

import pytest

from tests import wire
from tests.cli.chat.chat_session import Chat
from tests.mcp.setting import HERE, PIXEL, RAW, SDK, ask_with_calls, configure, offered, program
from tests.missing_packages import make_command_without
from tests.model_server import ModelServer, Request
from tests.program import Ask, Home, run

PLAN = "mcp://sdk/file:///docs/plan.md"
PIXEL_URL = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"


@pytest.fixture
def sdk_url(sdk_port: int) -> str:
    return f"http://127.0.0.1:{sdk_port}/mcp"


@pytest.fixture
def sdk(home: Home, sdk_url: str, server: ModelServer) -> Home:
    """A home in which the server is configured over HTTP, and a model that answers once."""
    configure(home, {"sdk": {"url": sdk_url, "timeout": 60}})
    server.reply(wire.says("done"))
    return home


@pytest.fixture
def unusable(sdk: Home, sdk_url: str) -> Home:
    """A home in which several servers cannot be used."""
    servers: dict[str, dict[str, Any]] = {
        "sdk": {"url": sdk_url, "timeout": 60},
        "off": {"url": sdk_url, "enabled": False},
        "gone": {"command": "no-such-program"},
        "bare": program(RAW, "good"),
    }
    configure(sdk, servers)
    return sdk


def read_prompt(request: Request) -> tuple[str, list[str]]:
    """Return the text and the images of the user's message."""
    content: Any = request.json["messages"][-1]["content"]
    if isinstance(content, str):
        return content, []
    texts = [part["text"] for part in content if part["type"] == "text"]
    return "\n".join(texts), [part["image_url"]["url"] for part in content if part["type"] == "image_url"]


def test_a_resource_is_attached_as_text(ask: Ask, sdk: Home, server: ModelServer) -> None:
    result = ask("-f", PLAN, "what is left?", timeout=120)
    assert (result.code, result.text) == (0, "done\n"), result.stderr
    text, _ = read_prompt(server.requests[0])
    assert text == 'what is left?\n\n<file name="file:///docs/plan.md">\nBuy marzipan.\n</file>'


def test_images_and_resources_of_templates_are_attached_together(ask: Ask, sdk: Home, server: ModelServer) -> None:
    args = ("-f", "mcp://sdk/image://pixel", "-f", "mcp://sdk/note://two words", "-v", "hi")
    result = ask("--no-tools", *args, timeout=120)
    assert result.code == 0, result.stderr
    assert f"pixel (PNG image, {len(PIXEL)} bytes)" in result.stderr
    text, images = read_prompt(server.requests[0])
    assert "The note two words." in text
    assert images == [PIXEL_URL]


def test_a_local_server_is_started_once_for_a_resource_and_its_tools(ask: Ask, home: Home, server: ModelServer) -> None:
    responses = {
        "tools/list": [{"tools": [{"name": "add", "inputSchema": {"type": "object"}}]}],
        "tools/call": [{"content": [{"type": "text", "text": "3"}]}],
        "resources/read": [{"contents": [{"uri": "file:///docs/plan.md", "text": "Buy marzipan."}]}],
    }
    (home.work / "responses.json").write_text(json.dumps(responses))
    words = [sys.executable, str(HERE / "scripted_server.py"), str(home.work / "responses.json")]
    script = f"echo started >> starts; exec {shlex.join(words)}"
    configure(home, {"sdk": {"command": "sh", "args": ["-c", script], "timeout": 60}})
    for count in (1, 2):  # without and with a cached tool list
        result, [answer] = ask_with_calls(ask, server, [("sdk__add", {"a": 1, "b": 2})], "-f", PLAN)
        assert (result.code, answer) == (0, "3"), result.stderr
        assert "marzipan" in server.requests[-1].body.decode()
        assert (home.work / "starts").read_text() == "started\n" * count


@pytest.mark.parametrize("option", ["--safe-files", "--no-tools"])
def test_a_named_resource_is_read_without_offering_the_tools_of_its_server(
    option: str, ask: Ask, sdk: Home, server: ModelServer
) -> None:
    result = ask(option, "-f", PLAN, "hi", timeout=120)
    assert result.code == 0, result.stderr
    assert "marzipan" in read_prompt(server.requests[0])[0]
    assert not offered(server.requests[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("mcp://skd/x", "did you mean sdk?"),
        ("mcp://off/x", "disabled"),
        ("mcp://sdk", "ask mcp resources sdk"),
        ("mcp://sdk/file:///none", "file:///none"),
        ("mcp://sdk/note://none", "ask mcp resources sdk"),
        ("mcp://sdk/data://archive", "ZIP archive"),
        ("mcp://sdk/data://large", "10,000,000"),
        ("mcp://gone/x", "no-such-program"),
        ("mcp://bare/x", "no resources"),
    ],
)
def test_a_resource_that_cannot_be_read_is_an_error_and_nothing_is_sent(
    address: str, expected: str, ask: Ask, unusable: Home, server: ModelServer
) -> None:
    result = ask("--no-tools", "-f", address, "hi", timeout=120)
    assert (result.code, result.text) == (9, "")
    [line] = result.stderr.splitlines()
    assert expected in line
    assert server.requests == []


def test_a_server_that_exits_while_it_is_read_is_an_error(ask: Ask, home: Home, server: ModelServer) -> None:
    (home.work / "responses.json").write_text(json.dumps({"resources/read": [{"lines": [], "exit": 3}]}))
    configure(home, {"sdk": program(str(HERE / "scripted_server.py"), str(home.work / "responses.json"))})
    result = ask("--no-tools", "-f", "mcp://sdk/data://crash", "hi", timeout=120)
    assert result.code == 9
    assert "3" in result.stderr
    assert server.requests == []


@pytest.mark.slow
def test_a_server_that_exited_is_started_again_once(ask: Ask, home: Home) -> None:
    configure(home, {"sdk": program(SDK)})
    uris = ("data://crash", "note://one", "note://two", "data://crash", "note://three")
    (home.work / "rows.jsonl").write_text("".join(json.dumps({"uri": uri}) + "\n" for uri in uris))
    result = ask("map", "-p", "demo", "-f", "mcp://sdk/{{uri}}", "hi", "rows.jsonl", timeout=120)
    assert result.code == 12
    errors = [json.loads(line).get("error") or "" for line in result.text.splitlines()]
    assert [bool(error) for error in errors] == [True, False, False, True, True]
    assert "twice" in errors[-1]


@pytest.mark.slow
def test_the_missing_package_is_named(home: Home) -> None:
    configure(home, {"sdk": {"command": "x"}})
    command = make_command_without("mcp", home)
    for option in (("-f", PLAN), ("-t", "mcp://sdk/brief")):
        result = run([*command, "-p", "demo", *option, "hi"], env=home.env, cwd=home.work)
        assert result.code == 3
        assert "mcp" in result.stderr


def test_a_prompt_is_a_template_with_arguments_and_resources(ask: Ask, sdk: Home, server: ModelServer) -> None:
    (sdk.work / "more.txt").write_text("More.")
    variables = ("--var", "code=x = {{y}}", "--var", "style=gentle")
    result = ask("-t", "mcp://sdk/review", *variables, "-f", "more.txt", "now", stdin=b"piped", timeout=120)
    assert result.code == 0, result.stderr
    text, images = read_prompt(server.requests[0])
    assert text.startswith("Review x = {{y}}.\n\nBe gentle.\n\nnow\n\n")
    names = ["file:///rules.txt", "file:///docs/plan.md", "more.txt"]
    assert [line.split('"')[1] for line in text.splitlines() if line.startswith("<file")] == names
    assert text.endswith("<stdin>\npiped\n</stdin>")
    assert images == [PIXEL_URL]


def test_the_braces_of_a_prompt_are_not_placeholders(ask: Ask, sdk: Home, server: ModelServer) -> None:
    assert ask("-t", "mcp://sdk/brief", timeout=120).code == 0
    assert read_prompt(server.requests[0])[0] == "Keep {{this}} and {{that|as}} it is."


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["mcp://sdk/review"], (2, "--var code=VALUE")),
        (["mcp://sdk/review", "--var", "code=1", "--var", "stile=2"], (2, "did you mean style?")),
        (["mcp://sdk/reveiw"], (2, "did you mean mcp://sdk/review?")),
        (["mcp://sdk/picture"], (4, "image")),
        (["mcp://skd/review"], (2, "did you mean sdk?")),
        (["mcp://sdk"], (2, "ask mcp prompts sdk")),
        (["mcp://gone/review"], (4, "no-such-program")),
    ],
)
def test_a_prompt_that_cannot_be_used_is_an_error_and_nothing_is_sent(
    args: list[str], expected: tuple[int, str], ask: Ask, unusable: Home, server: ModelServer
) -> None:
    code, message = expected
    result = ask("--no-tools", "-t", *args, "hi", timeout=120)
    assert (result.code, result.text) == (code, "")
    assert message in result.stderr
    assert server.requests == []


def read_messages(request: Request) -> list[tuple[str, str]]:
    """Return the roles and texts of the conversation, without the system prompt."""
    roles = [message["role"] for message in request.json["messages"]]
    return [(role, wire.asked(request.json, index)) for index, role in enumerate(roles) if role != "system"]


EXAMPLE = [
    ("user", '{{Translate}} this.\n\n<file name="file:///docs/plan.md">\nBuy marzipan.\n</file>'),
    ("assistant", "Eme massam.\n\n{{a}}"),
]


def test_the_messages_of_a_prompt_begin_the_conversation(ask: Ask, sdk: Home, server: ModelServer) -> None:
    result = ask("-t", "mcp://sdk/translate", "--var", "text=Eat!", "now", timeout=120)
    assert result.code == 0, result.stderr
    answered = [*EXAMPLE, ("user", "To Latin:\n\nEat!\n\nnow"), ("assistant", "done")]
    server.reply(wire.says("again"))
    assert read_messages(server.requests[0]) == answered[:-1]
    assert ask("--resume", result.conversation, "and?").code == 0
    assert read_messages(server.requests[1]) == [*answered, ("user", "and?")]
    statistics = json.loads(ask("history", "stats", "--json").text)["total"]
    assert statistics["conversations"] == 1
    assert statistics["response_seconds"]["median"] > 0


def test_a_prompt_that_ends_with_the_assistant_needs_words(ask: Ask, sdk: Home, server: ModelServer) -> None:
    opening = [("user", "Who are you?"), ("assistant", "A parrot.")]
    result = ask("-t", "mcp://sdk/dialog", timeout=120)
    assert (result.code, "needs input" in result.stderr) == (2, True)
    assert server.requests == []
    assert ask("--no-save", "-t", "mcp://sdk/dialog", "Really?", timeout=120).code == 0
    assert read_messages(server.requests[0]) == [*opening, ("user", "Really?")]


@pytest.mark.slow
def test_a_chat_begins_with_the_messages_of_a_prompt(ask: Ask, sdk: Home, server: ModelServer) -> None:
    server.reply(wire.says("one"), wire.says("two"))
    with Chat(ask, "-t", "mcp://sdk/dialog") as chat:
        for line in ("first", "/retry", "second"):
            chat.send(line)
    sent = [read_messages(request) for request in server.requests if request.body]
    opening = [("user", "Who are you?"), ("assistant", "A parrot.")]
    assert sent[0] == sent[1] == [*opening, ("user", "first")]
    assert sent[2] == [*opening, ("user", "first"), ("assistant", "one"), ("user", "second")]


def test_a_chat_starts_with_a_prompt_and_a_resource(ask: Ask, sdk: Home, server: ModelServer) -> None:
    server.reply(wire.says("again"))
    variables = ("--var", "code=1")
    lines = b"first\nsecond\n"
    result = ask("chat", "-t", "mcp://sdk/review", *variables, "-f", PLAN, stdin=lines, timeout=120)
    assert result.code == 0, result.stderr
    first, second = (read_prompt(request) for request in server.requests if request.body)
    assert "Review 1." in first[0]
    assert "marzipan" in first[0]
    assert first[1] == [PIXEL_URL]
    assert second == ("second", [])


@pytest.mark.slow
def test_a_resource_is_attached_to_the_next_message_of_a_chat(ask: Ask, sdk: Home, server: ModelServer) -> None:
    with Chat(ask, "--no-tools") as chat:
        assert "Unknown resource" in chat.send("/file mcp://sdk/file:///none")
        chat.send("/file mcp://sdk/note://two")
        chat.send("first")
    assert "The note two." in read_prompt(server.requests[-1])[0]


def test_rows_of_a_map_can_name_resources(ask: Ask, sdk: Home, server: ModelServer) -> None:
    (sdk.work / "rows.jsonl").write_text('{"name": "one"}\n')
    result = ask("map", "-f", "mcp://sdk/note://{{name}}", "read it", "rows.jsonl", timeout=120)
    assert result.code == 0, result.stderr
    assert "The note one." in read_prompt(server.requests[0])[0]


def test_a_prompt_is_read_once_for_all_rows_of_a_map(ask: Ask, sdk: Home, server: ModelServer) -> None:
    (sdk.work / "rows.jsonl").write_text('{"code": "x = {{y}}"}\n{"code": "z"}\n')
    server.reply(lambda _: wire.whole_reply(wire.answer("fine")))
    command = ["map", "-t", "mcp://sdk/review", "--var", "style=gentle", "rows.jsonl"]
    result = ask(*command, timeout=120)
    assert result.code == 0, result.stderr
    prompts = sorted(map(read_prompt, server.requests))
    assert [text.split("\n\n<file")[0] for text, _ in prompts] == [
        "Review x = {{y}}.\n\nBe gentle.",
        "Review z.\n\nBe gentle.",
    ]
    assert all("Be kind." in text and "marzipan" in text and images == [PIXEL_URL] for text, images in prompts)
    assert ask(*command, timeout=120).text == result.text  # the same job
    assert len(server.requests) == 2


def test_rows_are_added_to_a_prompt_without_arguments(ask: Ask, sdk: Home, server: ModelServer) -> None:
    (sdk.work / "rows.txt").write_text("a row\n")
    result = ask("map", "-t", "mcp://sdk/brief", "--input-format", "lines", "rows.txt", timeout=120)
    assert result.code == 0, result.stderr
    assert read_prompt(server.requests[0])[0] == "Keep {{this}} and {{that|as}} it is.\n\na row"


@pytest.mark.parametrize(
    ("prompt", "expected"), [("review", (2, "no column 'code'")), ("dialog", (4, "ask templates new"))]
)
def test_a_prompt_that_no_row_can_fill_is_an_error(
    prompt: str, expected: tuple[int, str], ask: Ask, sdk: Home, server: ModelServer
) -> None:
    (sdk.work / "rows.jsonl").write_text('{"name": "one"}\n')
    result = ask("map", "-t", f"mcp://sdk/{prompt}", "rows.jsonl", timeout=120)
    assert result.code == expected[0]
    assert expected[1] in result.stderr
    assert server.requests == []


def test_rows_of_a_map_cannot_name_servers(ask: Ask, sdk: Home, server: ModelServer) -> None:
    (sdk.work / "rows.jsonl").write_text('{"file": "mcp://sdk/note://one"}\n')
    for args in (["-f", "{{file}}", "read it"], ["-f", "mcp://{{file}}", "read it"]):
        result = ask("map", *args, "rows.jsonl", timeout=120)
        assert (result.code, server.requests) == (12, []), args
