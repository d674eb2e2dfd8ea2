"""Files in tool results: what a model gets of them, and what is saved."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from ask import Attachment, Message, ToolCall, ToolError, ToolResult
from ask.attachments import MAX_NAME_LENGTH, MAX_RESULT_FILES, limit_attachments, move_result_files
from ask.mcp.tool_results import to_tool_result
from ask.tools.plugins.functions import to_tool_result as convert_value
from tests import wire
from tests.model_server import ModelServer, Reply
from tests.program import Ask, Home
from tests.provider_wires import SERVICES, Wire, build_service_variables
from tests.sample_files import pdf, png

PDF, PNG = pdf(2), png()
ANSWER = "It shows a nut."
TOOL = """
from ask import Attachment, ToolResult

def draw(count: int) -> ToolResult:
    "Draws."
    data = open("drawing.png", "rb").read()
    return ToolResult("drawn", attachments=tuple(Attachment(f"{n}.png", "image/png", data) for n in range(count)))

def paint() -> Attachment:
    "Paints."
    return Attachment("painting.png", "image/png", open("drawing.png", "rb").read())

def sketch() -> list[Attachment]:
    "Sketches."
    return [paint()]

def dump() -> bytes:
    "Dumps."
    return b"\\x89PNG"
"""


@pytest.fixture
def ask(home: Home, server: ModelServer) -> Ask:
    env = {**home.env, **build_service_variables(server.base_url)}
    return Ask(env, home.work)


@pytest.fixture(params=list(SERVICES.values()), ids=list(SERVICES))
def service(request: pytest.FixtureRequest) -> Wire:
    return request.param  # type: ignore[no-any-return]


def contains_file(body: Any, data: bytes) -> bool:
    return any(base64.b64encode(data).decode() in text for text in wire.list_strings(body))


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall(f"call_{name}", name, json.dumps(arguments))


def accepts(service: Wire, media_type: str) -> bool:
    return service.provider.provider_supports_attachment(service.model, media_type)


@pytest.mark.parametrize("file", [Attachment("a.pdf", "application/pdf", PDF), Attachment("a.png", "image/png", PNG)])
def test_a_fetched_file_reaches_the_model_as_an_attached_one_does(
    ask: Ask, server: ModelServer, service: Wire, file: Attachment
) -> None:
    url = server.base_url.removesuffix("api/v1") + file.name
    server.reply(
        service.says(call("fetch_url", url=url)),
        Reply((file.data,), content_type="application/octet-stream"),
        service.says(ANSWER),
        service.says("Yes."),
    )
    result = ask("-p", service.name, "-m", service.model, "What is this?")
    assert (result.code, result.text) == (0, f"{ANSWER}\n"), result.stderr
    bodies = [request.json for request in server.requests if request.path != f"/{file.name}"]
    is_accepted = accepts(service, file.media_type)
    assert contains_file(bodies[1], file.data) == is_accepted
    messages = service.read_conversation(bodies[1])
    assert ("not shown to this model" in str(messages)) != is_accepted
    assert ask("-c", "Sure?").code == 0
    assert contains_file(server.requests[-1].json, file.data) == is_accepted
    service.read_conversation(server.requests[-1].json)


def test_files_of_parallel_results_follow_all_of_them(ask: Ask, server: ModelServer, service: Wire, home: Home) -> None:
    for name, width in (("a.png", 3), ("b.png", 4)):
        (home.work / name).write_bytes(png(width))
    calls = [call("read_file", filepath=name)._replace(id=f"call_{name[0]}") for name in ("a.png", "b.png")]
    server.reply(service.says(*calls), service.says(ANSWER))
    assert ask("-p", service.name, "-m", service.model, "Compare").code == 0
    is_accepted = accepts(service, "image/png")
    assert [contains_file(server.requests[1].json, png(width)) for width in (3, 4)] == [is_accepted] * 2
    assert [message.role for message in service.read_conversation(server.requests[1].json)].count("tool") == 2


@pytest.mark.parametrize(
    "option", ["--no-save", "--safe-files", pytest.param("--safe", marks=pytest.mark.needs("bwrap"))]
)
def test_an_image_that_read_file_returns_is_shown(ask: Ask, server: ModelServer, home: Home, option: str) -> None:
    image = png(1_500, 900, more=bytes(range(256)) * 12_000)  # larger than a text result may be
    (home.work / "photo.png").write_bytes(image)
    server.reply(wire.calls(("read_file", {"filepath": "photo.png"})), wire.says(ANSWER))
    result = ask("-p", "openrouter", option, "What is on the photo?")
    assert (result.code, result.text) == (0, f"{ANSWER}\n"), result.stderr
    assert contains_file(server.requests[1].json, image)


def test_a_refused_file_of_a_result_does_not_end_the_run(ask: Ask, server: ModelServer, home: Home) -> None:
    (home.work / "broken.png").write_bytes(PNG[:40])
    refusal = wire.whole_reply({"error": {"message": "Could not process image"}}, 400)
    server.reply(
        wire.calls(("read_file", {"filepath": "broken.png"})), refusal, wire.says(ANSWER), refusal, wire.says("No.")
    )
    result = ask("-p", "openrouter", "What is on the photo?")
    assert (result.code, result.text) == (0, f"{ANSWER}\n"), result.stderr
    assert contains_file(server.requests[1].json, PNG[:40])
    assert not contains_file(server.requests[2].json, PNG[:40])
    result = ask("-c", "Sure?")
    assert (result.code, result.text) == (0, "No.\n"), result.stderr


def test_an_attached_file_stays_when_one_of_a_result_is_refused(ask: Ask, server: ModelServer, home: Home) -> None:
    (home.work / "broken.png").write_bytes(PNG[:40])
    (home.work / "good.png").write_bytes(PNG)
    refusal = wire.whole_reply({"error": {"message": "Could not process image"}}, 400)
    server.reply(wire.calls(("read_file", {"filepath": "broken.png"})), refusal, wire.says(ANSWER))
    assert ask("-p", "openrouter", "-f", "good.png", "Compare it with broken.png").code == 0
    assert contains_file(server.requests[2].json, PNG)


def test_files_of_results_are_saved_exported_and_imported(ask: Ask, server: ModelServer, home: Home) -> None:
    (home.work / "a.png").write_bytes(PNG)
    server.reply(wire.calls(("read_file", {"filepath": "a.png"})), wire.says(ANSWER))
    result = ask("-p", "openrouter", "--json", "What is on a.png?")
    assert json.loads(result.text)["tool_calls"][0]["attachments"] == [
        {"name": "a.png", "media_type": "image/png", "size": len(PNG)}
    ]
    exported = ask("history", "export", "--format", "json").text
    assert contains_file(json.loads(exported), PNG)
    (home.work / "export.json").write_text(exported)
    assert ask("history", "delete", "1", "--yes").code == 0
    assert ask("history", "import", "export.json").code == 0
    assert contains_file(json.loads(ask("history", "export", "--format", "json").text), PNG)
    for kind in ("md", "html"):
        assert "a.png" in ask("history", "export", "--format", kind).text
    assert "a.png" in ask("history", "show").text


def test_files_of_a_python_function_are_sent_up_to_the_limit(ask: Ask, server: ModelServer, home: Home) -> None:
    (home.work / "tools.py").write_text(TOOL)
    (home.work / "drawing.png").write_bytes(PNG)
    server.reply(wire.calls(("draw", {"count": MAX_RESULT_FILES + 1}), ("dump", {})), wire.says(ANSWER))
    result = ask("-p", "openrouter", "--tool", "tools.py:draw", "--tool", "tools.py:dump", "Draw")
    assert result.code == 0, result.stderr
    texts = [*wire.list_strings(server.requests[-1].json)]
    assert sum(base64.b64encode(PNG).decode() in text for text in texts) == MAX_RESULT_FILES
    assert any(f"only {MAX_RESULT_FILES} files" in text for text in texts)
    assert any("Attachment" in text and "bytes" in text for text in texts)


def test_a_result_that_does_not_fit_the_context_is_sent_without_its_files(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    (home.work / "long.pdf").write_bytes(pdf(50))
    server.reply(wire.calls(("read_file", {"filepath": "long.pdf"})), wire.says(ANSWER))
    assert ask("config", "set", "context_limit", "20000").code == 0
    result = ask("-p", "openrouter", "Summarize long.pdf")
    assert (result.code, result.text) == (0, f"{ANSWER}\n"), result.stderr
    assert not contains_file(server.requests[-1].json, pdf(50))
    assert "not shown" in str(server.requests[-1].json)


def test_files_move_behind_the_last_of_several_results() -> None:
    file = Attachment("a.png", "image/png", PNG)
    messages = [
        Message("user", "hi"),
        Message("tool", "1", tool_name="x", attachments=(file,)),
        Message("tool", "2"),
        Message("user", "next"),
    ]
    moved = move_result_files(messages)
    assert [message.role for message in moved] == ["user", "tool", "tool", "user"]
    assert moved[-1].attachments == (file,)
    assert moved[-1].content.endswith("\n\nnext")
    assert move_result_files(messages[:1]) == messages[:1]


def test_what_no_model_reads_is_left_out_of_a_result() -> None:
    files = [Attachment("a.zip", "image/png", b"PK\x03\x04\0"), Attachment("a.bin", "image/png", PNG)]
    kept, notes = limit_attachments([*files, Attachment("big.png", "", PNG + bytes(21_000_000))])
    assert [file.media_type for file in kept] == ["image/png"]
    assert len(notes) == 2


@pytest.mark.parametrize("name", ["paint", "sketch"])
def test_a_python_function_can_return_files_themselves(ask: Ask, server: ModelServer, home: Home, name: str) -> None:
    (home.work / "tools.py").write_text(TOOL)
    (home.work / "drawing.png").write_bytes(PNG)
    server.reply(wire.calls((name, {})), wire.says(ANSWER))
    result = ask("-p", "openrouter", "--tool", f"tools.py:{name}", "Paint")
    assert result.code == 0, result.stderr
    assert contains_file(server.requests[-1].json, PNG)


@pytest.mark.parametrize("uri", ["http://[bad", "http://\u2100.example/a.png"])
def test_a_file_of_a_server_is_shown_whatever_its_address(uri: str) -> None:
    resource = {"uri": uri, "blob": base64.b64encode(PNG).decode()}
    result = to_tool_result({"content": [{"type": "resource", "resource": resource}]})
    assert [file.data for file in result.attachments] == [PNG]


def test_wrapped_base64_of_a_server_is_an_image() -> None:
    block = {"type": "image", "mimeType": "image/png", "data": base64.encodebytes(PNG).decode()}
    assert [file.data for file in to_tool_result({"content": [block]}).attachments] == [PNG]


def test_a_long_file_name_is_shortened() -> None:
    kept, notes = limit_attachments([Attachment("n" * 100_000, "", data) for data in (PNG, b"PK\x03\x04\0")])
    assert len(kept[0].name) == MAX_NAME_LENGTH
    assert len(notes[0]) < 2 * MAX_NAME_LENGTH


@pytest.mark.parametrize("attachments", [5, "a.png", ["a.png"], [None]])
def test_attachments_of_a_wrong_type_are_an_error(attachments: Any) -> None:
    with pytest.raises(ToolError, match="Attachment"):
        convert_value(ToolResult("drawn", attachments=attachments))
