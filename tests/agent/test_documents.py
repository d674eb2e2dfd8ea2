"""Office documents: sent as they are where the API takes them, and as text to any other model."""

from __future__ import annotations

import base64
import json
from zipfile import ZipFile

import pytest

from ask.client.document_text import WORD_TYPE
from tests import responses_wire, wire
from tests.missing_packages import make_command_without
from tests.model_server import ModelServer
from tests.program import Ask, Home, run
from tests.provider_wires import build_service_variables
from tests.sample_files import docx, zipped

OPENAI = ("--no-tools", "-p", "openai", "-m", "gpt-6-sol")
OPENROUTER = ("--no-tools", "-p", "openrouter", "-m", "a/b")


@pytest.fixture
def ask(home: Home, server: ModelServer) -> Ask:
    return Ask({**home.env, **build_service_variables(server.base_url)}, home.work)


@pytest.mark.slow
def test_openai_gets_the_document_and_others_its_text(ask: Ask, server: ModelServer) -> None:
    data = docx("Größe")
    (ask.cwd / "a.docx").write_bytes(data)
    server.reply(responses_wire.says("Big."), wire.says("Small."), wire.says("Medium."))
    assert ask(*OPENAI, "-f", "a.docx", "how big?").code == 0
    body = server.requests[-1].json
    responses_wire.check_request(body)
    url = f"data:{WORD_TYPE};base64,{base64.b64encode(data).decode()}"
    file = {"type": "input_file", "filename": "a.docx", "file_data": url}
    assert body["input"][-1]["content"] == [{"type": "input_text", "text": "how big?"}, file]
    assert ask(*OPENROUTER, "-c", "really?").code == 0
    block = '<file name="a.docx">\nGröße\n\n| a | b |\n| --- | --- |\n</file>'
    assert server.requests[-1].json["messages"][1]["content"] == f"how big?\n\n{block}"
    assert ask(*OPENROUTER, "-f", "a.docx", "how big?").code == 0
    assert block in server.requests[-1].json["messages"][1]["content"]


@pytest.mark.slow
def test_a_fallback_gets_the_text(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "a.docx").write_bytes(docx("Größe"))
    server.reply(responses_wire.fails(404, "no such model"), wire.says("Small."))
    result = ask(*OPENAI, "--fallback", "openrouter:a/b", "-f", "a.docx", "how big?")
    assert (result.text, result.code) == ("Small.\n", 0)
    assert "Größe" in server.requests[-1].json["messages"][1]["content"]


@pytest.mark.slow
def test_a_document_with_macros_is_sent_as_text(ask: Ask, server: ModelServer) -> None:
    path = ask.cwd / "a.docm"
    path.write_bytes(docx("Größe"))
    with ZipFile(path, "a") as archive:
        archive.writestr("word/vbaProject.bin", b"x")
    server.reply(responses_wire.says("Big."))
    assert ask(*OPENAI, "-f", "a.docm", "how big?").code == 0
    assert "Größe" in json.dumps(server.requests[-1].json["input"][-1], ensure_ascii=False)
    assert "input_file" not in json.dumps(server.requests[-1].json)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), ("password", "PDF")),
        (docx("x")[:-9], ("ZIP archive",)),
        (zipped({"a": "b"}), ("ZIP archive", "unpack it")),
        (b"\x1f\x8b\x08" + bytes(17), ("gzip file", "unpack it")),
    ],
    ids=["encrypted", "truncated", "archive", "compressed"],
)
def test_what_has_no_text_is_an_error(data: bytes, words: tuple[str, ...], ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "a.docx").write_bytes(data)
    result = ask(*OPENROUTER, "-f", "a.docx", "how big?")
    assert (result.code, server.requests, result.stderr.count("\n")) == (9, [], 1)
    assert all(word in result.stderr for word in ("a.docx", *words))


@pytest.mark.slow
def test_without_the_extra_the_error_names_it(home: Home, server: ModelServer) -> None:
    (home.work / "a.docx").write_bytes(docx("Größe"))
    env = {**home.env, **build_service_variables(server.base_url)}
    command = [*make_command_without("mammoth", home), *OPENROUTER, "-f", "a.docx", "how big?"]
    result = run(command, env=env, cwd=home.work)
    assert (result.code, server.requests, result.stderr.count("\n")) == (9, [], 1)
    assert all(word in result.stderr for word in ("a.docx", "[files]"))
