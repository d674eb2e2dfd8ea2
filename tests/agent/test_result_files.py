"""Files in tool results: what a model gets of them, and what is saved."""

from __future__ import annotations

import base64
import json
from collections import Counter
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import Attachment, Message, ToolCall, ToolError, ToolResult
from ask.attachments import (
    MAX_NAME_CHARACTERS,
    MAX_RESULT_FILES,
    limit_attachments,
    move_result_files,
    replace_unsupported_attachments,
)
from ask.mcp.tool_results import to_tool_result
from ask.text import format_size
from ask.tools.plugins.functions import to_tool_result as convert_value
from tests import wire
from tests.host_requests import prepare_request
from tests.model_server import ModelServer, Reply, Request
from tests.program import Ask, Home
from tests.provider_wires import SERVICES, Wire, build_service_variables
from tests.sample_files import SPEECH, pdf, png
from tests.screen import render_lines

PDF, PNG = pdf(2), png()
WAV = SPEECH.data
PICTURE = Attachment("a.png", "image/png", PNG)
ANSWER = "It shows a nut."
TAKE_FILES_IN_RESULTS = {"anthropic", "gemini", "openai", "xai"}
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


@pytest.mark.slow_after_first
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
    assert ("does not accept" in str(messages)) != is_accepted
    assert ask("-c", "Sure?").code == 0
    assert contains_file(server.requests[-1].json, file.data) == is_accepted
    service.read_conversation(server.requests[-1].json)


def reads(*names: str) -> list[ToolCall]:
    return [call("read_file", filepath=name)._replace(id=f"call_{name[0]}") for name in names]


def list_received_files(service: Wire, server: ModelServer) -> list[tuple[str, list[bytes]]]:
    """Return the role and the files of each message after the calls, in the last request."""
    messages = list(service.read(server.requests[-1].json))
    calls = max(i for i, message in enumerate(messages) if message.tool_calls)
    return [(message.role, [file.data for file in message.attachments]) for message in messages[calls + 1 :]]


@pytest.mark.slow_after_first
def test_files_of_parallel_results_are_where_each_service_takes_them(
    ask: Ask, server: ModelServer, service: Wire, home: Home
) -> None:
    """In their results, or in one message after all of them; text stays in the results."""
    files = {"a.png": png(3), "b.txt": b"bee", "c.png": png(4)}
    for name, data in files.items():
        (home.work / name).write_bytes(data)
    server.reply(service.says(*reads(*files)), service.says(ANSWER))
    assert ask("-p", service.name, "-m", service.model, "Compare").code == 0
    expected: list[tuple[str, list[bytes]]]
    if not accepts(service, "image/png"):
        expected = [("tool", []), ("tool", []), ("tool", [])]
    elif service.name in TAKE_FILES_IN_RESULTS:
        expected = [("tool", [png(3)]), ("tool", []), ("tool", [png(4)])]
    else:
        expected = [("tool", []), ("tool", []), ("tool", []), ("user", [png(3), png(4)])]
    assert list_received_files(service, server) == expected
    assert [("bee" in result.content) for result in service.results(server.requests[-1].json)] == [False, True, False]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gemini-3-pro", [("tool", [PNG]), ("tool", []), ("user", [WAV])]),
        ("gemini-2.5-pro", [("tool", []), ("tool", []), ("user", [PNG, WAV])]),
        ("gemma-4-31b-it", [("tool", []), ("tool", []), ("user", [PNG])]),
    ],
)
def test_what_gemini_does_not_take_in_results_follows_in_a_turn_of_its_own(
    ask: Ask, server: ModelServer, home: Home, model: str, expected: Any
) -> None:
    service = SERVICES["gemini"]
    (home.work / "a.png").write_bytes(PNG)
    (home.work / "b.wav").write_bytes(WAV)
    server.reply(service.says(*reads("a.png", "b.wav")), service.says(ANSWER))
    assert ask("-p", "gemini", "-m", model, "Compare").code == 0
    assert list_received_files(service, server) == expected
    turns = server.requests[-1].json["contents"]
    assert [sorted(part) for part in turns[2]["parts"]] == [["functionResponse"]] * 2


@pytest.mark.parametrize(
    ("name", "model", "ending"),
    [
        ("anthropic", "claude-sonnet-5-5", "lines, or an image or a PDF."),
        ("gemini", "gemini-flash-latest", "lines, or an image, a PDF or audio."),
        ("lmstudio", "qwen3-vl", "lines, or an image."),
        ("deepseek", "deepseek-pro", "lines."),
    ],
)
def test_the_description_of_read_file_names_what_the_model_accepts(
    ask: Ask, server: ModelServer, name: str, model: str, ending: str
) -> None:
    server.reply(SERVICES[name].says(ANSWER))
    assert ask("-p", name, "-m", model, "hi").code == 0
    described = [text for text in wire.list_strings(server.requests[0].json) if text.startswith("Read a text file")]
    assert [text.partition(" Relative paths")[0] for text in described] == [
        f"Read a text file or a range of its {ending}"
    ]


def test_files_of_results_follow_the_user_to_another_service(ask: Ask, server: ModelServer, home: Home) -> None:
    (home.work / "a.png").write_bytes(PNG)
    openai, openrouter, deepseek = (SERVICES[name] for name in ("openai", "openrouter", "deepseek"))
    server.reply(openai.says(*reads("a.png")), openai.says(ANSWER), openrouter.says("Yes."), deepseek.says("No."))
    assert ask("-p", "openai", "What is this?").code == 0
    assert list_received_files(openai, server) == [("tool", [PNG])]
    assert ask("-c", "-p", "openrouter", "Sure?").code == 0
    roles_and_files = list_received_files(openrouter, server)
    assert roles_and_files[:2] == [("tool", []), ("user", [PNG])]
    assert ask("-c", "-p", "deepseek", "-m", "deepseek-pro", "Sure?").code == 0
    assert not contains_file(server.requests[-1].json, PNG)
    assert f"[image a.png, {len(PNG)} bytes: deepseek-pro does not accept images]" in str(server.requests[-1].json)


def test_a_server_without_the_responses_api_gets_the_files_after_the_results(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    """The API turns out to be missing only when the results are sent."""
    (home.work / "a.png").write_bytes(PNG)
    openai, chat = SERVICES["openai"], SERVICES["openrouter"]
    server.reply(openai.says(*reads("a.png")), chat.says(ANSWER))
    assert ask("-p", "openai", "What is this?").code == 0
    assert len(server.unserved) == 1
    assert list_received_files(chat, server) == [("tool", []), ("user", [PNG])]


@pytest.mark.slow_after_first
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
    server.reply(wire.calls(("read_file", {"filepath": "broken.png"})), refusal, wire.says(ANSWER), wire.says("No."))
    result = ask("-p", "openrouter", "What is on the photo?")
    assert (result.code, result.text) == (0, f"{ANSWER}\n"), result.stderr
    assert contains_file(server.requests[1].json, PNG[:40])
    assert not contains_file(server.requests[2].json, PNG[:40])
    result = ask("-c", "Sure?")
    assert (result.code, result.text) == (0, "No.\n"), result.stderr


REFUSALS = [
    ("openai", 400, {"message": "Invalid type for 'input'.", "param": "input", "code": "invalid_union"}),
    ("xai", 422, "Failed to deserialize the JSON body: data did not match any variant of untagged enum ModelInput"),
    ("openai", 400, "json: cannot unmarshal array into Go struct field of type string"),
    ("gemini", 400, {"message": "Invalid JSON payload. Unknown name \"parts\" at 'contents[2].function_response'"}),
    ("gemini", 400, {"message": "Multimodal function response is not supported for this model."}),
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_server_that_takes_no_files_in_results_gets_them_after_the_results(
    ask: Ask, server: ModelServer, home: Home, refusal: tuple[str, int, Any]
) -> None:
    name, status, error = refusal
    (home.work / "a.png").write_bytes(PNG)
    (home.work / "b.png").write_bytes(png(4))
    service = SERVICES[name]
    refused = service.refuses(status, {"error": error})
    server.reply(service.says(*reads("a.png")), refused, service.says(*reads("b.png")), service.says(ANSWER))
    result = ask("-p", name, "-m", service.model, "Compare")
    assert (result.code, result.text) == (0, f"{ANSWER}\n"), result.stderr
    assert result.stderr.count("files of tool results") == 1
    assert list_received_files(service, server) == [("tool", []), ("user", [png(4)])]
    assert contains_file(server.requests[-1].json, PNG)
    assert len(server.requests) == 4


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


def test_the_line_of_a_call_shows_the_files_of_its_result(ask: Ask, server: ModelServer, home: Home) -> None:
    (home.work / "tools.py").write_text(TOOL)
    (home.work / "drawing.png").write_bytes(PNG)
    calls: tuple[wire.Call, ...] = (
        ("read_file", {"filepath": "drawing.png"}),
        ("paint", {}),
        ("draw", {"count": 2}),
        ("draw", {"count": 0}),
    )
    server.reply(wire.calls(*calls), wire.says(ANSWER))
    tools = ("--tool", "tools.py:paint", "--tool", "tools.py:draw")
    lines = render_lines(ask.on_terminal("-p", "openrouter", *tools, "Draw").stdout)
    size = format_size(len(PNG))
    shown = [
        f"read drawing.png · {size}",
        f"paint · painting.png, {size}",
        f"draw count: 2 · 2 files, {2 * len(PNG)} bytes",
    ]
    called = [line.removeprefix("· ") for line in lines if line.startswith(("· read", "· paint", "· draw"))]
    assert called == [*shown, "draw count: 0"]


def test_verbose_lines_show_the_result_below_its_files(ask: Ask, server: ModelServer, home: Home) -> None:
    (home.work / "a.png").write_bytes(PNG)
    server.reply(wire.calls(("read_file", {"filepath": "a.png"}), ("list_dir", {"dirpath": "."})), wire.says(ANSWER))
    lines = ask("-v", "-p", "openrouter", "Look").stderr.splitlines()
    start = lines.index("· read a.png")
    size = format_size(len(PNG))
    assert lines[start + 1 : start + 5] == [f"  {size}", f"  a.png: {size}", "· list .", f"  file {len(PNG)} a.png"]


@pytest.mark.slow
def test_rows_with_tools_get_the_files_of_results(ask: Ask, server: ModelServer, home: Home) -> None:
    def read_own_file(request: Request) -> Reply:
        messages = request.json["messages"]
        if messages[-1]["role"] == "tool" or contains_file(messages[-1], PNG):
            return wire.says("seen" if contains_file(messages[-1], PNG) else "missing")
        return wire.calls(("read_file", {"filepath": "a.png"}))

    server.reply(read_own_file)
    (home.work / "a.png").write_bytes(PNG)
    (home.work / "rows.txt").write_text("one\ntwo\n")
    arguments = ("-p", "openrouter", "--tools", "--safe-files", "-O", "out.jsonl")
    result = ask.process("map", *arguments, "{{line}}", "rows.txt", timeout=60)
    assert result.code == 0, result.stderr
    rows = map(json.loads, (home.work / "out.jsonl").read_text().splitlines())
    assert [row["answer"] for row in rows] == ["seen", "seen"]


def test_a_result_that_does_not_fit_the_context_is_sent_without_its_files(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    (home.work / "long.pdf").write_bytes(pdf(50))
    server.reply(wire.calls(("read_file", {"filepath": "long.pdf"})), wire.says(ANSWER))
    assert ask("config", "set", "context_limit", "20000").code == 0
    result = ask("-p", "openrouter", "Summarize long.pdf")
    assert (result.code, result.text) == (0, f"{ANSWER}\n"), result.stderr
    assert not contains_file(server.requests[-1].json, pdf(50))
    assert "left out, because it does not fit" in str(server.requests[-1].json)


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


FILES = [
    Attachment("a.png", "image/png", png(5)),
    Attachment("b.jpg", "image/jpeg", b"\xff\xd8\xff1"),
    Attachment("c.heic", "image/heic", b"heic"),
    Attachment("d.pdf", "application/pdf", PDF),
    Attachment("e.wav", "audio/wav", WAV),
]


@st.composite
def rounds(draw: st.DrawFn) -> list[Message]:
    """Draw the calls of one round, their results with files, and perhaps a message after them."""
    files = draw(st.lists(st.lists(st.sampled_from(FILES), max_size=3), min_size=1, max_size=4))
    calls = tuple(ToolCall(f"call_{i}", "look", "{}") for i in range(len(files)))
    results = [
        Message("tool", f"result {i}", (), f"call_{i}", "look", tuple(own_files)) for i, own_files in enumerate(files)
    ]
    following = draw(st.lists(st.just(Message("user", "next", attachments=(FILES[0],))), max_size=1))
    return [Message("assistant", "", calls), *results, *following]


@pytest.mark.slow
@given(st.lists(rounds(), min_size=1, max_size=3))
@pytest.mark.parametrize("name", ["anthropic", "gemini", "openai", "openrouter", "ollama"])
def test_each_file_is_sent_once_and_in_order(name: str, drawn: list[list[Message]]) -> None:
    """What stays in a result is in that result, and the rest is in one message after the results of its round."""
    service = SERVICES[name]
    provider, model = service.provider, service.model
    accepted = partial(provider.provider_supports_attachment, model)
    inside = partial(provider.provider_supports_result_attachment, model)
    messages = [Message("system", "Be kind."), Message("user", "hi")]
    for place, one_round in enumerate(drawn):
        ids = [f"{call.id}_{place}" for call in one_round[0].tool_calls]
        calls = tuple(call._replace(id=call_id) for call, call_id in zip(one_round[0].tool_calls, ids, strict=True))
        results = zip(one_round[1:], ids, strict=False)
        messages.append(one_round[0]._replace(tool_calls=calls))
        messages += [result._replace(tool_call_id=call_id) for result, call_id in results]
        messages += one_round[1 + len(ids) :] or [Message("user", "ok")]
    shown = replace_unsupported_attachments(messages, model, accepted)
    request = prepare_request(provider, model, move_result_files(shown, inside))
    read = list(service.read(json.loads(json.dumps(provider.provider_build_request(request, "key").body))))
    for sent, original in zip(
        (message for message in read if message.role == "tool"),
        (message for message in messages if message.role == "tool"),
        strict=True,
    ):
        kept = [each for each in original.attachments if accepted(each.media_type) and inside(each.media_type)]
        assert [file.data for file in sent.attachments] == [file.data for file in kept]
        assert original.content in sent.content
    all_sent = Counter(file.data for message in read for file in message.attachments)
    assert all_sent == Counter(
        file.data for message in messages for file in message.attachments if accepted(file.media_type)
    )


def test_what_no_model_reads_is_left_out_of_a_result() -> None:
    files = [Attachment("a.zip", "image/png", b"PK\x03\x04\0"), Attachment("a.bin", "image/png", PNG)]
    kept, notes = limit_attachments([*files, Attachment("big.png", "", PNG + bytes(21_000_000))])
    assert [file.media_type for file in kept] == ["image/png"]
    assert len(notes) == 2


@pytest.mark.slow_after_first
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


ENCODED = base64.b64encode(PNG).decode()


# https://github.com/nota/gyazo-mcp-server/pull/129, https://github.com/modelcontextprotocol/python-sdk/issues/342
@pytest.mark.parametrize(
    "data",
    [
        base64.encodebytes(PNG).decode(),
        f"data:image/png;base64,{ENCODED}",
        base64.urlsafe_b64encode(PNG).decode(),
        ENCODED.rstrip("="),
    ],
    ids=["wrapped", "data URL", "URL-safe", "unpadded"],
)
def test_unusual_base64_of_a_server_is_an_image(data: str) -> None:
    assert data != ENCODED
    image = {"type": "image", "mimeType": "image/png", "data": data}
    resource = {"type": "resource", "resource": {"uri": "file:///a.png", "blob": data}}
    assert [file.data for file in to_tool_result({"content": [image, resource]}).attachments] == [PNG, PNG]


# https://github.com/agentscope-ai/agentscope-java/issues/3052
def test_an_address_in_place_of_an_image_is_shown() -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "https://example.com/a.png"}
    result = to_tool_result({"content": [image]})
    assert (result.text, result.attachments) == ("[image image/png, https://example.com/a.png, not shown]", ())


def test_a_long_file_name_is_shortened() -> None:
    kept, notes = limit_attachments([Attachment("n" * 100_000, "", data) for data in (PNG, b"PK\x03\x04\0")])
    assert len(kept[0].name) == MAX_NAME_CHARACTERS
    assert len(notes[0]) < 2 * MAX_NAME_CHARACTERS


@pytest.mark.parametrize(
    ("value", "text", "files"),
    [
        (PICTURE, "", [PNG]),
        ([PICTURE], "", [PNG]),
        (["before", PICTURE, "after"], "before\nafter", [PNG]),
        (("both", PICTURE, PICTURE), "both", [PNG, PNG]),
        (ToolResult("drawn", attachments=(PICTURE,)), "drawn", [PNG]),
        (Attachment("a.csv", "text/csv", b"a,b\n1,2\n"), '<file name="a.csv">\na,b\n1,2\n</file>', []),
        (["text"], '["text"]', []),
        ({"name": b"caf\xc3\xa9"}, '{"name": "café"}', []),
    ],
)
def test_values_of_functions_become_texts_and_files(value: Any, text: str, files: list[bytes]) -> None:
    result = convert_value(value)
    assert (result.text, [file.data for file in result.attachments]) == (text, files)


@pytest.mark.parametrize(
    "value",
    [b"\x89PNG", bytearray(b"text"), memoryview(b"1"), ToolResult(b"text"), [PNG], {"a": PNG}, {"shot": PICTURE}],  # type: ignore[arg-type]
)
def test_bytes_are_an_error_that_says_what_to_return(value: Any) -> None:
    with pytest.raises(ToolError, match=r"bytes.*ask\.Attachment"):
        convert_value(value)


@pytest.mark.parametrize("attachments", [5, "a.png", ["a.png"], [None]])
def test_attachments_of_a_wrong_type_are_an_error(attachments: Any) -> None:
    with pytest.raises(ToolError, match="Attachment"):
        convert_value(ToolResult("drawn", attachments=attachments))
