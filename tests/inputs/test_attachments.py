"""`-f` with attachments: how they are sent, saved, sent again and rejected."""

from __future__ import annotations

import base64
import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ask.text import format_size
from tests import wire
from tests.cli.chat.chat_session import Chat
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home
from tests.providers.anthropic_wire import read_by_anthropic
from tests.providers.anthropic_wire import says as anthropic_says
from tests.sample_files import BEGINNINGS, iso, pdf, png, wav
from tests.shells import split_words
from tests.slow_parameters import mark_others_slow

BOX = "what is this?"


@pytest.fixture(autouse=True)
def files(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("A red box."))
    for name, data in {"photo.png": png(), "paper.pdf": pdf(), "speech.wav": wav()}.items():
        (ask.cwd / name).write_bytes(data)


def asked(server: ModelServer) -> list[Any]:
    """Return the bodies of all chat requests, without requests for models lists."""
    return [request.json for request in server.requests if request.method == "POST"]


def content_parts(server: ModelServer, place: int = -1) -> list[Any]:
    """Return the content parts of the last user message in a request."""
    content = asked(server)[place]["messages"][-1]["content"]
    assert isinstance(content, list)
    return content


def prompt_text(server: ModelServer) -> str:
    return str(content_parts(server)[0]["text"])


def files_in(body: Any) -> list[bytes]:
    """Return the files of all messages in a Chat Completions body, in order."""
    found = []
    for message in body["messages"]:
        for part in message["content"] if isinstance(message["content"], list) else []:
            if part["type"] == "image_url":
                found.append(part["image_url"]["url"].partition(",")[2])
            elif part["type"] == "file":
                found.append(part["file"]["file_data"].partition(",")[2])
            elif part["type"] == "input_audio":
                found.append(part["input_audio"]["data"])
    return [base64.b64decode(data, validate=True) for data in found]


# What is asked


def test_attachments_are_sent_unchanged_and_texts_in_the_prompt(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "note.txt").write_text("Look closely.\n")
    given = ["-f", "photo.png", "-f", "note.txt", "-f", "paper.pdf", "-f", "speech.wav"]
    result = ask(*given, BOX)
    assert (result.text, result.stderr, result.code) == ("A red box.\n", "", 0)
    body = wire.without_fields(asked(server)[0], {"cache_control"})
    assert wire.read_by_openai(body) == body
    assert files_in(body) == [png(), pdf(), wav()]
    note = '<file name="note.txt">\nLook closely.\n</file>'
    assert prompt_text(server) == f"{BOX}\n\n{note}\n\n[attached: photo.png, paper.pdf, speech.wav]"


@pytest.mark.parametrize("name", ["photo", "photo.txt", "photo.jpg", "my photo.png", "-x.png"])
def test_the_type_is_detected_by_content_and_not_by_name(name: str, ask: Ask, server: ModelServer) -> None:
    (ask.cwd / name).write_bytes(png())
    assert ask("-f", f"./{name}", BOX).code == 0
    assert files_in(asked(server)[0]) == [png()]
    assert prompt_text(server) == BOX


@pytest.mark.parametrize(
    "script", mark_others_slow(["cat photo.png | ask {}", "ask -f - {} < photo.png", "ask -f <(cat photo.png) {}"])
)
def test_a_file_may_come_through_a_pipe(script: str, ask: Ask, server: ModelServer) -> None:
    assert ask.shell(script.format(f'"{BOX}"')).code == 0
    assert files_in(asked(server)[0]) == [png()]
    assert prompt_text(server) == BOX


def test_a_pdf_and_a_text_may_be_piped(ask: Ask, server: ModelServer) -> None:
    assert ask(BOX, stdin=pdf()).code == 0
    assert files_in(asked(server)[0]) == [pdf()]
    assert ask("-f", "-", BOX, stdin=b"notes").code == 0
    assert wire.asked(asked(server)[1]) == f"{BOX}\n\n<stdin>\nnotes\n</stdin>"


def test_a_file_without_words_is_a_question_with_its_name(ask: Ask, server: ModelServer) -> None:
    assert ask("-f", "photo.png").code == 0
    assert prompt_text(server) == "[attached: photo.png]"
    assert "[attached: photo.png]" in ask("history", "list").text


@pytest.mark.slow
def test_typed_input_is_read_on_request(ask: Ask, server: ModelServer) -> None:
    with ask.start_on_terminal("-f", "-", BOX) as running:
        running.wait_for("reading stdin until it ends", 20)
        running.type_in("notes\n\x04")
        assert running.finish().code == 0
    assert wire.asked(asked(server)[0]) == f"{BOX}\n\n<stdin>\nnotes\n</stdin>"


def test_conflicting_uses_of_stdin_are_usage_errors(ask: Ask, server: ModelServer) -> None:
    assert ask("-f", "-", "-f", "-", BOX, stdin=b"x").code == 2
    assert ask("--no-stdin", "-f", "-", BOX, stdin=b"x").code == 2
    assert ask("chat", "-f", "-", stdin=b"hi\n").code == 2
    assert server.requests == []


def test_a_named_prompt_takes_a_file_as_its_input(ask: Ask, server: ModelServer) -> None:
    assert ask("-t", "summarize", "-f", "paper.pdf").code == 0
    assert files_in(asked(server)[0]) == [pdf()]
    assert "[attached: paper.pdf]" in prompt_text(server)


def test_output_formats_work_with_files(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("display photo.png"), wire.says('{"colour": "red"}'))
    ask("hi")
    command = ask("--cmd", "-f", "photo.png", "show it")
    assert (command.text, command.code) == ("display photo.png\n", 0)
    shaped = ask("--schema", "colour", "-f", "photo.png", "which?")
    assert json.loads(shaped.text) == {"colour": "red"}
    assert [files_in(body) for body in asked(server)[1:]] == [[png()], [png()]]


# What is seen


def test_files_are_listed_only_with_v(ask: Ask) -> None:
    quiet = ask.on_terminal("-f", "photo.png", BOX)
    assert "photo.png" not in quiet.text.partition("A red box.")[2]
    told = ask("-v", "-f", "photo.png", "-f", "paper.pdf", BOX)
    [line] = [line for line in told.stderr.splitlines() if "photo.png" in line]
    for name, kind, data in (("photo.png", "PNG", png()), ("paper.pdf", "PDF", pdf())):
        assert re.search(rf"\b{name} \({kind}\b.*?\b{format_size(len(data))}", line)


def test_json_and_events_do_not_change_with_files(ask: Ask) -> None:
    plain, with_file = (json.loads(ask("--json", *given, BOX).text) for given in ([], ["-f", "photo.png"]))
    assert {**plain, "conversation": ""} == {**with_file, "conversation": ""}
    events = [json.loads(line)["type"] for line in ask("--events", "-f", "photo.png", BOX).text.splitlines()]
    assert set(events) == {"start", "text", "usage", "result"}


def test_a_key_inside_a_picture_is_not_redacted(ask: Ask, server: ModelServer) -> None:
    data = png(more=TEST_KEY.encode())
    (ask.cwd / "photo.png").write_bytes(data)
    assert ask("-f", "photo.png", BOX).code == 0
    assert ask("-c", "again").code == 0
    assert [files_in(body) for body in asked(server)] == [[data], [data]]


# The conversation


def test_the_history_shows_saves_and_resends_files(ask: Ask, server: ModelServer) -> None:
    ask("-f", "photo.png", "-f", "paper.pdf", BOX)
    assert ask("-c", "are you sure?").code == 0
    first, second = (body["messages"] for body in asked(server))
    without = [wire.without_fields(messages, {"cache_control"}) for messages in (first, second)]
    assert without[1][:2] == without[0][:2], "what was sent before is sent again"
    assert files_in(asked(server)[1]) == [png(), pdf()]
    shown = ask("history", "show").text
    assert f"photo.png ({format_size(len(png()))})" in shown
    assert f"paper.pdf ({format_size(len(pdf()))})" in shown


def test_another_provider_gets_the_files_in_its_own_format(ask: Ask, server: ModelServer) -> None:
    ask("-f", "photo.png", BOX)
    origin = server.base_url.removesuffix("/api/v1")
    server.reply(anthropic_says("Sure."))
    env = {"ANTHROPIC_API_KEY": TEST_KEY, "ANTHROPIC_BASE_URL": origin}
    assert ask("-c", "-p", "anthropic", "-m", "claude-test", "sure?", env=env).text == "Sure.\n"
    body = asked(server)[-1]
    assert read_by_anthropic(body) == body
    assert body["messages"][0]["content"][0]["source"]["data"] == base64.b64encode(png()).decode()


def deepseek(server: ModelServer) -> Mapping[str, str]:
    return {"DEEPSEEK_API_KEY": TEST_KEY, "DEEPSEEK_BASE_URL": server.base_url}


def test_a_model_without_file_support_gets_notes(ask: Ask, server: ModelServer) -> None:
    ask("-f", "photo.png", BOX)
    result = ask("-c", "-p", "deepseek", "-m", "deepseek-pro", "sure?", env=deepseek(server))
    assert (result.text, result.stderr, result.code) == ("A red box.\n", "", 0)
    said = asked(server)[-1]["messages"]
    question, _, note = said[1]["content"].partition("\n\n")
    assert question == BOX
    assert re.fullmatch(rf"\[.*\bphoto\.png\b.*\b{len(png())} bytes\b.*\]", note)
    assert ask("-c", "-p", "openrouter", "and now?").code == 0
    assert files_in(asked(server)[-1]) == [png()], "the conversation itself still has it"


@pytest.mark.parametrize(
    ("model", "name", "told"),
    [
        ("deepseek-pro", "photo.png", ["deepseek-pro", "images", "photo.png", "text"]),
        ("deepseek-flash", "paper.pdf", ["deepseek-flash", "PDF", "paper.pdf", "PNG, JPEG, GIF, WebP"]),
    ],
)
def test_unsupported_attachments_are_rejected_before_anything_is_sent(
    model: str, name: str, told: list[str], ask: Ask, server: ModelServer
) -> None:
    result = ask("-p", "deepseek", "-m", model, "-f", name, BOX, env=deepseek(server))
    assert (result.code, result.stdout, server.requests) == (7, b"", [])
    assert all(text in result.stderr for text in told)
    assert result.stderr.count("\n") == 1
    assert ask("history", "list").text.strip() == "", "nothing was asked"


def test_a_service_in_config_toml_decides_itself_which_attachments_it_accepts(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    home.configure(f'[providers.own]\nbase_url = "{server.base_url}"\nmodel = "m"\n')
    assert ask("-p", "own", "-f", "photo.png", BOX).code == 0
    assert files_in(asked(server)[0]) == [png()]
    server.reply(wire.fails(400, "this model has no eyes"))
    ask("-p", "own", "hi")
    refused = ask("-p", "own", "-f", "photo.png", BOX)
    assert refused.code == 6
    assert "this model has no eyes" in refused.stderr


# A chat


@pytest.mark.slow
def test_files_in_a_chat_are_sent_only_with_the_next_message(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "my photo.png").write_bytes(png(5, 5))
    with Chat(ask) as chat:
        told = chat.send("/file photo.png")
        assert f"photo.png (PNG image, {format_size(len(png()))})" in told
        assert "my photo.png (PNG image" in chat.send("/file my photo.png")
        assert "A red box." in chat.send(BOX)
        first = asked(server)[-1]["messages"]
        assert files_in({"messages": first}) == [png(), png(5, 5)]
        assert "[attached: photo.png, my photo.png]" in first[1]["content"][0]["text"]
        chat.send("and?")
        assert files_in({"messages": asked(server)[-1]["messages"][-1:]}) == []
        assert files_in(asked(server)[-1]) == [png(), png(5, 5)]
        chat.quit()


@pytest.mark.slow
def test_a_file_may_be_dropped_on_the_terminal(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "my photo.png").write_bytes(png(5, 5))
    forms = [
        "'{}/my photo.png'",
        "{}/my\\ photo.png",
        "file://{}/my%20photo.png",
        "'{0}/my photo.png' {0}/photo.png",
    ]
    with Chat(ask) as chat:
        for form in forms:
            assert "my photo.png (PNG image" in chat.send(f"/file {form.format(ask.cwd)}")
            chat.send(BOX)
            assert files_in({"messages": asked(server)[-1]["messages"][-1:]})[0] == png(5, 5)
        chat.quit()


def test_a_path_that_cannot_be_read_is_shown_completely(ask: Ask) -> None:
    with Chat(ask) as chat:
        assert "No such file or directory" in chat.send("/file no such file.txt")
        assert "stdin" in chat.send("/file -")
        chat.quit()


@pytest.mark.slow
def test_a_chat_rejects_unsupported_attachments_immediately(ask: Ask, server: ModelServer) -> None:
    with Chat(ask, "-p", "deepseek", "-m", "deepseek-flash", env=dict(deepseek(server))) as chat:
        assert "PDF" in chat.send("/file paper.pdf")
        chat.send("/file photo.png")
        chat.send("/model deepseek-pro")
        assert "photo.png" in chat.send("one")
        assert server.requests == []
        assert "A red box." in chat.send("two")
        chat.quit()
    assert asked(server)[-1]["messages"][-1]["content"] == "two", "what is refused is left out of the next"


def test_a_file_option_of_chat_is_sent_with_the_first_message(ask: Ask, server: ModelServer) -> None:
    assert ask("chat", "-f", "photo.png", stdin=b"one\ntwo\n").code == 0
    first, second = (body["messages"] for body in asked(server))
    assert files_in({"messages": first[-1:]}) == [png()]
    assert files_in({"messages": second[-1:]}) == []


# What is refused


def large(path: Path, data: bytes, size: int) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.truncate(size)


@pytest.mark.parametrize("kind", ["image/bmp", "image/tiff", "image/avif", "video/x-matroska", "application/zip"])
def test_unsupported_types_are_rejected_with_advice(kind: str, ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "thing").write_bytes(BEGINNINGS[kind])
    names = ("thing", "stdin")
    for name, result in zip(names, (ask("-f", "thing", BOX), ask(BOX, stdin=BEGINNINGS[kind])), strict=True):
        assert (result.code, server.requests) == (9, [])
        assert result.stderr.count("\n") == 1
        assert name in result.stderr


@pytest.mark.parametrize(
    ("name", "beginning", "size"),
    [
        ("photo.png", png(), 20_000_001),
        pytest.param("speech.wav", wav(), 25_000_001, marks=pytest.mark.slow),
        pytest.param("paper.pdf", pdf(), 32_000_001, marks=pytest.mark.slow),
    ],
    ids=["image", "audio", "pdf"],
)
def test_sizes_have_limits(ask: Ask, server: ModelServer, *, name: str, beginning: bytes, size: int) -> None:
    large(ask.cwd / name, beginning, size)
    given = ask("-f", name, BOX)
    assert (given.code, server.requests) == (9, [])
    assert name in given.stderr
    with open(ask.cwd / name, "rb") as file:
        piped = ask("hi", stdin=file.fileno())
    assert (piped.code, server.requests) == (9, [])
    assert "stdin" in piped.stderr


@pytest.mark.slow
def test_all_attachments_together_have_a_limit(ask: Ask, server: ModelServer) -> None:
    for name in ("a", "b", "c"):
        large(ask.cwd / name, png(), 19_000_000)
    result = ask("-f", "a", "-f", "b", "-f", "c", BOX, timeout=120)
    assert (result.code, server.requests) == (9, [])
    assert "57 MB" in result.stderr
    assert "50 MB" in result.stderr


@pytest.mark.slow
def test_a_large_image_may_be_piped_beyond_the_limit_for_text(ask: Ask, server: ModelServer) -> None:
    large(ask.cwd / "photo.png", png(), 12_000_000)
    with open(ask.cwd / "photo.png", "rb") as file:
        assert ask("-m", "vendor/without-limits", "what", stdin=file.fileno()).code == 0
    assert len(files_in(asked(server)[0])[0]) == 12_000_000


@pytest.mark.slow
def test_a_large_image_is_copied_rarely_in_memory(ask: Ask) -> None:
    (ask.cwd / "large.png").write_bytes(png() + os.urandom(19_000_000))
    (large_result, large_peak), (result, peak) = (ask.measure("-f", name, BOX) for name in ("large.png", "photo.png"))
    assert large_result.code == result.code == 0
    assert large_peak - peak < 8 * 19_000_000


# Patterns


def file_names(server: ModelServer) -> list[str]:
    """Return the names of the texts in the last question."""
    return re.findall(r'<file name="(.*?)">', wire.asked(asked(server)[-1]))


def test_a_quoted_pattern_adds_the_files_that_match(ask: Ask, server: ModelServer) -> None:
    for name in ("src/b.py", "src/a.py", "src/c.txt", "src/deep/d.py", "src/.hidden.py", "odd[1].py"):
        (ask.cwd / name).parent.mkdir(parents=True, exist_ok=True)
        (ask.cwd / name).write_text("x = 1\n")
    for pattern, expected in {
        "src/*.py": ["src/a.py", "src/b.py"],
        "src/**/*.py": ["src/a.py", "src/b.py", "src/deep/d.py"],
        "s?c/[ac].*": ["src/a.py", "src/c.txt"],
        "odd[1].py": ["odd[1].py"],
    }.items():
        assert ask("-f", pattern, "review").code == 0
        assert file_names(server) == expected
    (ask.cwd / "home").symlink_to(ask.cwd)
    assert ask("-f", "~/src/a*.py", "review", env={"HOME": str(ask.cwd)}).code == 0
    assert len(file_names(server)) == 1


def test_a_pattern_for_nested_folders_does_not_follow_links(ask: Ask, server: ModelServer) -> None:
    for name in ("a.py", "src/b.py", "src/[x]/c.py", "src/[x]/d/e.py", "src/.git/f.py"):
        (ask.cwd / name).parent.mkdir(parents=True, exist_ok=True)
        (ask.cwd / name).write_text("x = 1\n")
    for name in ("src/self", "src/up", "src/[x]/up"):
        (ask.cwd / name).symlink_to("..")
    for pattern, expected in {
        "**/*.py": ["a.py", "src/[x]/c.py", "src/[x]/d/e.py", "src/b.py"],
        "src/**": ["src/[x]/c.py", "src/[x]/d/e.py", "src/b.py"],
        "s*/**/d/**/*": ["src/[x]/d/e.py"],
    }.items():
        assert ask("-f", pattern, "review", timeout=20).code == 0
        assert file_names(server) == expected


def test_a_pattern_skips_what_the_model_does_not_accept(ask: Ask, server: ModelServer) -> None:
    for name, data in (("a.png", png()), ("b.heic", iso(b"heic")), ("c.png", png())):
        (ask.cwd / name).write_bytes(data)
    result = ask("-f", "?.*", "what is this?")
    assert (result.code, result.stderr.count("b.heic")) == (0, 1)
    assert [part["type"] for part in content_parts(server)] == ["text", "image_url", "image_url"]
    (ask.cwd / "d.heic").write_bytes(iso(b"heic"))
    result = ask("-f", "?.heic", "what is this?")
    assert (result.code, len(server.requests)) == (7, 1)
    assert "b.heic" in result.stderr


def test_a_pattern_that_matches_no_file_is_an_error(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "src").mkdir()
    for pattern in ("*.rs", "sr*", "no/**/*.py"):
        result = ask("-f", pattern, "review")
        assert (result.code, asked(server)) == (9, [])
        assert pattern in result.stderr


@pytest.mark.parametrize(
    "line",
    [
        "-f src/*.py review",
        "-f src/*.py -- review",
        "-q -f src/*.py -popenrouter 'review this'",
        "review -f src/*.py",
        "'review this' --file src/*.py",
        "-f src/*.py",
        "-f a.py why is b.py here",
        "-f src/* review",
        "chat -f src/*.py",
    ],
)
def test_an_unquoted_pattern_is_an_error_that_shows_the_right_form(line: str, ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "src/deep").mkdir(parents=True)
    for name in ("src/a.py", "src/b.py", "src/c.py", "a.py", "b.py"):
        (ask.cwd / name).write_text("x = 1\n")
    result = ask(*split_words(line, ask.cwd))
    assert (result.code, asked(server)) == (2, [])
    assert re.search(r"ask -f \S+ -f \S+", result.stderr)


def test_file_names_are_text_in_quotes_and_after_two_dashes(ask: Ask, server: ModelServer) -> None:
    for name in ("a.py", "b.py"):
        (ask.cwd / name).write_text("x = 1\n")
    for line in ("-f a.py 'why is b.py here'", "-f a.py -- why is b.py here", "why is b.py here"):
        assert ask(*split_words(line, ask.cwd)).code == 0
        assert wire.asked(asked(server)[-1]).startswith("why is b.py here")


# File URLs


@pytest.mark.parametrize("start", ["file://", "file://localhost", "FILE://", "File://LocalHost", "file:"])
def test_every_form_of_a_file_url_names_the_file(start: str, ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "a note.txt").write_text("Look closely.\n")
    assert ask("-f", f"{start}{ask.cwd}/a%20note.txt", "hi").code == 0
    assert "Look closely." in wire.asked(asked(server)[-1])


def test_a_file_url_of_another_host_is_an_error(ask: Ask, server: ModelServer) -> None:
    assert ask("-f", "file://other/etc/passwd", "hi").code == 9
    assert asked(server) == []


# Pipes


@pytest.mark.slow
def test_a_process_substitution_is_read_to_its_end(ask: Ask, server: ModelServer) -> None:
    assert ask.shell("ask -f <(sleep 2.2; echo slow; sleep 0.2; echo end) hi").code == 0
    assert "slow\nend\n" in wire.asked(asked(server)[-1])
    assert ask.shell("ask -s @<(echo Be brief.) -f <(true) hi").code == 0


@pytest.mark.slow
def test_a_named_pipe_is_read_once_a_program_writes_to_it(ask: Ask, server: ModelServer) -> None:
    os.mkfifo(ask.cwd / "pipe")
    for writer in ("(sleep 2.2; echo 1 > pipe)", "(sleep 0.5; echo 1; sleep 0.3; echo 2) > pipe"):
        result = ask.shell(f"{writer} & ask -f pipe hi")
        assert result.code == 0
        assert "\n1\n" in wire.asked(asked(server)[-1])
    assert "1\n2\n" in wire.asked(asked(server)[-1])


@pytest.mark.slow
def test_a_named_pipe_without_a_writer_is_an_error(ask: Ask, server: ModelServer) -> None:
    os.mkfifo(ask.cwd / "pipe")
    started = time.monotonic()
    assert ask("--command-timeout", "0.3", "-f", "pipe", "hi").code == 9
    assert time.monotonic() - started < 20
    with ask.start("-f", "pipe", "hi") as running:
        running.wait_for("reading pipe")
        running.signal()
        assert running.finish().code == 130
    assert asked(server) == []
