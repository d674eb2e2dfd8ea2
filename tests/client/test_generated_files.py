"""Images that a model generates: where they are saved, how they are named, and how a conversation goes on with them."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests import responses_wire, wire
from tests.model_server import ModelServer, Reply
from tests.program import Ask, Home
from tests.provider_wires import build_service_variables
from tests.providers import gemini_wire
from tests.sample_files import GIF, png

IMAGE = png(4, 4)
OTHER = png(5, 5)
SIGNED = {"thoughtSignature": gemini_wire.SIGNATURE}


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def gemini_image(data: bytes, **more: Any) -> wire.Json:
    return {"inlineData": {"mimeType": "image/png", "data": encode(data)}, **more}


@dataclass(frozen=True)
class Service:
    """A service that generates images: its name, a model, and whether its answers keep them."""

    provider: str
    model: str
    keeps_images: bool = False

    def paints(self, text: str, *images: bytes, whole: bool = False) -> Reply:
        """Return an answer with text and images."""
        if self.provider == "gemini":
            parts = [gemini_wire.text(text), *(gemini_image(data, **SIGNED) for data in images)]
            if whole:
                return wire.whole_reply(gemini_wire.whole(*parts))
            return gemini_wire.streamed(*gemini_wire.chunks(*parts))
        if self.provider == "openai":
            items = [
                {"type": "image_generation_call", "id": f"ig_{data[20]}", "status": "completed", "result": encode(data)}
                for data in images
            ]
            body = responses_wire.response(responses_wire.reasoning("Hm."), *items, responses_wire.message(text))
            return responses_wire.whole_reply(body) if whole else responses_wire.streams(*responses_wire.events(body))
        urls = [f"data:image/png;base64,{encode(data)}" for data in images]
        parts = [{"type": "image_url", "index": i, "image_url": {"url": url}} for i, url in enumerate(urls)]
        if whole:
            return wire.whole_reply(wire.answer(text, images=parts))
        chunks = [wire.chunk({"images": [part]}) for part in parts]
        return wire.streams(wire.text(text), *chunks, wire.chunk({"images": parts}), wire.finish())


SERVICES = [
    Service("gemini", "gemini-3-pro-image", keeps_images=True),
    Service("openai", "gpt-6-sol"),
    Service("openrouter", "google/gemini-3-pro-image"),
]
OPENROUTER = SERVICES[2]
COMMAND = ("--no-tools", "-p", "openrouter", "-m", OPENROUTER.model)


@pytest.fixture
def ask(home: Home, server: ModelServer) -> Ask:
    return Ask({**home.env, **build_service_variables(server.base_url)}, home.work)


@pytest.fixture(params=SERVICES, ids=lambda service: service.provider)
def service(request: pytest.FixtureRequest) -> Service:
    return request.param  # type: ignore[no-any-return]


def read_folder(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def set_media_dir(home: Home, folder: str) -> None:
    home.configure(f'media_dir = "{folder}"\n')


@pytest.mark.parametrize("whole", [False, True], ids=["streamed", "whole"])
def test_images_are_saved_and_edited(service: Service, whole: bool, ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "image.png").write_bytes(b"mine")
    (ask.cwd / "image-2.png").symlink_to("elsewhere")
    command = ["--no-tools", "-p", service.provider, "-m", service.model, *(["--no-stream"] if whole else [])]
    server.reply(service.paints("A fox.", IMAGE, OTHER, whole=whole))
    result = ask(*command, "draw a fox")
    assert (result.text, result.code) == ("A fox.\n", 0)
    assert [line.split(" (")[0] for line in result.stderr.splitlines()] == [
        "ask: saved image-3.png",
        "ask: saved image-4.png",
    ]
    assert not (ask.cwd / "elsewhere").exists()
    (ask.cwd / "image-2.png").unlink()
    assert read_folder(ask.cwd) == {"image.png": b"mine", "image-3.png": IMAGE, "image-4.png": OTHER}
    server.reply(service.paints("Red.", GIF, whole=whole))
    assert ask(*command, "-c", "make it red").code == 0
    assert (ask.cwd / "image.gif").read_bytes() == GIF
    check_second_request(service, server.requests[-1].json)


def check_second_request(service: Service, body: Any) -> None:
    """Check that the images are sent back, once each, in the answer or in the next question."""
    text = json.dumps(body)
    assert (text.count(encode(IMAGE)), text.count(encode(OTHER))) == (1, 1)
    if service.keeps_images:
        parts = body["contents"][1]["parts"]
        assert parts == [gemini_wire.text("A fox."), gemini_image(IMAGE, **SIGNED), gemini_image(OTHER, **SIGNED)]
        return
    messages = body.get("messages") or body["input"]
    assert messages[-1]["role"] == "user"
    assert all(encode(data) in json.dumps(messages[-1]) for data in (IMAGE, OTHER))
    assert "image-3.png" in json.dumps(messages[-1])
    assert "reasoning" not in [item.get("type") for item in messages]
    if service.provider == "openai":
        responses_wire.check_request(body)


def test_another_model_continues_with_the_image(ask: Ask, server: ModelServer) -> None:
    server.reply(OPENROUTER.paints("A fox.", IMAGE))
    server.reply(gemini_wire.streamed(*gemini_wire.chunks(gemini_wire.text("Blue."))))
    assert ask(*COMMAND, "draw a fox").code == 0
    assert ask("--no-tools", "-p", "gemini", "-m", "gemini-3-pro-image", "-c", "make it blue").code == 0
    parts = server.requests[-1].json["contents"][1]["parts"]
    assert [part.keys() for part in parts] == [{"text", "thoughtSignature"}, {"inlineData", "thoughtSignature"}]
    server.reply(wire.says("I see nothing."))
    assert ask("--no-tools", "-p", "deepseek", "-m", "deepseek-pro", "-c", "and now?").code == 0
    answer = server.requests[-1].json["messages"][2]
    assert answer["content"].startswith("A fox.\n\n[image image.png, ")


def test_history_shows_images(ask: Ask, server: ModelServer) -> None:
    server.reply(OPENROUTER.paints("A fox.", IMAGE))
    assert ask(*COMMAND, "draw a fox").code == 0
    assert "image.png" in ask("history", "show").text
    assert "image.png" in ask("history", "export").text
    assert encode(IMAGE) in ask("history", "export", "--format", "html").text
    assert encode(IMAGE) in ask("history", "export", "--format", "json").text


def test_media_dir_is_created(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(OPENROUTER.paints("A fox.", IMAGE))
    set_media_dir(home, "~/pictures/ask")
    folder = home.path / "home/pictures/ask"
    result = ask(*COMMAND, "--json", "draw a fox")
    assert read_folder(folder) == {"image.png": IMAGE}
    assert json.loads(result.stdout)["files"] == [
        {"path": str(folder / "image.png"), "media_type": "image/png", "size": len(IMAGE)}
    ]
    assert str(folder / "image.png") in result.stderr


def test_answer_of_an_image_alone(ask: Ask, server: ModelServer) -> None:
    server.reply(OPENROUTER.paints("", IMAGE))
    result = ask(*COMMAND, "--events", "draw a fox")
    events = [json.loads(line) for line in result.text.splitlines()]
    assert [event["type"] for event in events] == ["start", "usage", "file", "notice", "result"]
    assert events[2]["path"] == str(ask.cwd / "image.png")
    assert (events[-1]["text"], events[-1]["finish"], events[-1]["exit_code"]) == ("", "stop", 0)


def test_image_that_cannot_be_written(ask: Ask, server: ModelServer, home: Home) -> None:
    set_media_dir(home, "/dev/full")
    server.reply(OPENROUTER.paints("A fox.", IMAGE))
    result = ask(*COMMAND, "draw a fox")
    assert (result.text, result.code) == ("A fox.\n", 9)
    assert "/dev/full/image.png" in result.stderr
    set_media_dir(home, "")
    server.reply(OPENROUTER.paints("A fox.", IMAGE))
    assert ask(*COMMAND, "-c", "again").code == 0
    assert encode(IMAGE) in json.dumps(server.requests[-1].json)


def test_safe_mode_saves_in_its_folders(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(OPENROUTER.paints("A fox.", IMAGE), OPENROUTER.paints("A fox.", IMAGE))
    outside = home.path / "outside"
    set_media_dir(home, str(outside))
    result = ask("-p", "openrouter", "-m", OPENROUTER.model, "--safe-files", "draw a fox")
    assert (result.code, outside.exists(), read_folder(ask.cwd)) == (0, False, {"image.png": IMAGE})
    assert "media_dir" in result.stderr
    outside.mkdir()
    options = ("-p", "openrouter", "-m", OPENROUTER.model, "--safe-files", "--allow-dir", str(outside))
    assert ask(*options, "draw a fox").code == 0
    assert read_folder(outside) == {"image.png": IMAGE}


def test_each_row_has_its_image(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "rows.txt").write_text("fox\nowl\n")
    server.reply(*(OPENROUTER.paints("Here.", IMAGE, whole=True) for _ in range(2)))
    result = ask("map", "-p", "openrouter", "-m", OPENROUTER.model, "draw", "rows.txt")
    rows = [json.loads(line) for line in result.text.splitlines()]
    assert [row["answer"] for row in rows] == ["Here.\nimage-1.png", "Here.\nimage-2.png"]
    assert read_folder(ask.cwd).keys() == {"rows.txt", "image-1.png", "image-2.png"}


@pytest.mark.slow
def test_rows_with_tools_have_images(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "rows.txt").write_text("fox\n")
    (ask.cwd / "template").mkdir()
    server.reply(OPENROUTER.paints("Here.", IMAGE))
    result = replace(ask, installed=True)(
        *(
            "map",
            "-p",
            "openrouter",
            "-m",
            OPENROUTER.model,
            "--tools",
            "--workdir-template",
            "template",
            "draw",
            "rows.txt",
        )
    )
    row = json.loads(result.text)
    assert (row["answer"], row["patch"]) == ("Here.\nimage-1.png", None)
    assert (ask.cwd / "image-1.png").read_bytes() == IMAGE


@pytest.mark.slow
@pytest.mark.parametrize("replace_image", ["rm image.png; ln -s {} image.png", "rm image.png; mkfifo image.png"])
def test_an_image_that_a_tool_of_a_row_replaces_is_not_read(ask: Ask, server: ModelServer, replace_image: str) -> None:
    (ask.cwd / "rows.txt").write_text("fox\n")
    (ask.cwd / "template").mkdir()
    (ask.cwd / "secret").write_text("secret")
    image = {"image_url": {"url": f"data:image/png;base64,{encode(IMAGE)}"}}
    arguments = json.dumps({"command": replace_image.format(ask.cwd / "secret")})
    call = wire.call(0, id="1", name="bash", arguments=arguments)
    server.reply(wire.streams(wire.chunk({"images": [image]}), call, wire.finish("tool_calls")), wire.says("Done."))
    options = ("-p", "openrouter", "-m", OPENROUTER.model, "--tools", "--workdir-template", "template")
    result = replace(ask, installed=True)("map", *options, "draw", "rows.txt")
    assert "cannot read an image" in json.loads(result.text)["error"]
    assert not (ask.cwd / "image-1.png").exists()


@pytest.mark.slow
def test_a_large_image_arrives(ask: Ask, server: ModelServer) -> None:
    data = IMAGE + os.urandom(20_000_000)
    server.reply(OPENROUTER.paints("A fox.", data))
    result = ask(*COMMAND, "--no-save", "draw a fox")
    assert (result.text, result.code) == ("A fox.\n", 0)
    assert (ask.cwd / "image.png").read_bytes() == data


def test_linked_and_invalid_images(ask: Ask, server: ModelServer) -> None:
    images = [{"image_url": {"url": url}} for url in ("https://x.example/a.png", "data:image/png,a", "é", "")]
    chunks = [wire.chunk({"images": [*images, {}, None, 5]}), wire.finish()]
    server.reply(wire.streams(wire.text("A fox."), *chunks))
    result = ask(*COMMAND, "draw a fox")
    assert (result.text, result.code, read_folder(ask.cwd)) == ("A fox.\n", 0, {})
    assert "https://x.example/a.png" in result.stderr


def test_rows_with_a_schema_or_a_cut_answer_keep_their_images(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "rows.txt").write_text("fox\n")
    command = ("map", "-p", "openrouter", "-m", OPENROUTER.model)
    server.reply(OPENROUTER.paints('{"color": "red"}', IMAGE, whole=True))
    result = ask(*command, "--schema", "color", "draw", "rows.txt")
    assert (result.code, json.loads(result.text)["color"]) == (0, "red")
    assert "image-1.png" in result.stderr
    image = {"image_url": {"url": f"data:image/png;base64,{encode(OTHER)}"}}
    server.reply(wire.whole_reply(wire.answer("A f", images=[image], finish="length")))
    result = ask(*command, "draw", "rows.txt")
    assert (result.code, json.loads(result.text)["answer"]) == (12, "A f\nimage-1-2.png")
    assert read_folder(ask.cwd) == {"rows.txt": b"fox\n", "image-1.png": IMAGE, "image-1-2.png": OTHER}


def test_row_whose_image_cannot_be_saved_keeps_its_answer(ask: Ask, server: ModelServer, home: Home) -> None:
    (ask.cwd / "rows.txt").write_text("fox\n")
    set_media_dir(home, "/dev/full")
    server.reply(OPENROUTER.paints("A fox.", IMAGE, whole=True))
    result = ask("map", "-p", "openrouter", "-m", OPENROUTER.model, "draw", "rows.txt")
    row = json.loads(result.text)
    assert (result.code, row["answer"]) == (12, "A fox.")
    assert "/dev/full/image.png" in row["error"]
    assert "ask -c" not in row["error"]


@pytest.mark.parametrize("folder", ["~nobody-like-this/a", "a\\u0000b"])
def test_impossible_names_of_folders(folder: str, ask: Ask, server: ModelServer, home: Home) -> None:
    set_media_dir(home, folder)
    server.reply(OPENROUTER.paints("A fox.", IMAGE))
    result = ask(*COMMAND, "draw a fox")
    assert (result.text, result.code, "media_dir" in result.stderr) == ("A fox.\n", 9, True)
    home.configure(f'[safe]\nallow_dirs = ["{folder}"]\n')
    result = ask("-p", "openrouter", "-m", OPENROUTER.model, "--safe-files", "draw a fox")
    assert (result.code, "safe.allow_dirs" in result.stderr) == (9, True)


def test_safe_mode_knows_allowed_folders_in_the_home_folder(ask: Ask, server: ModelServer, home: Home) -> None:
    folder = home.path / "home/pictures"
    folder.mkdir(parents=True)
    home.configure('media_dir = "~/pictures"\n[safe]\nallow_dirs = ["~/pictures"]\n')
    server.reply(OPENROUTER.paints("A fox.", IMAGE))
    assert ask("-p", "openrouter", "-m", OPENROUTER.model, "--safe-files", "draw a fox").code == 0
    assert read_folder(folder) == {"image.png": IMAGE}


@pytest.mark.parametrize("streamed", [False, True])
def test_an_image_that_moderation_blocks_is_reported_with_the_reason(
    *, streamed: bool, ask: Ask, server: ModelServer
) -> None:
    error = {"type": "image_generation_user_error", "code": "moderation_blocked", "message": "It shows a weapon."}
    blocked = {"type": "image_generation_call", "id": "ig_1", "status": "failed", "result": None, "error": error}
    items = [responses_wire.reasoning("Hm."), blocked]
    command = ["--no-tools", "-p", "openai", "-m", "gpt-6-sol", *([] if streamed else ["--no-stream"]), "draw it"]
    server.reply(
        *(
            responses_wire.replies(responses_wire.response(*answer), stream=streamed)
            for answer in (items, [*items, responses_wire.message("I cannot.")])
        )
    )
    result = ask(*command)
    assert (result.code, result.text) == (10, "")
    assert "It shows a weapon." in result.stderr
    result = ask(*command)
    assert (result.code, result.text) == (0, "I cannot.\n")
    assert "It shows a weapon." in result.stderr


def test_calls_beside_an_image_that_moderation_blocks_run(ask: Ask, server: ModelServer) -> None:
    blocked = {"type": "image_generation_call", "id": "ig_1", "status": "failed", "error": {"message": "A weapon."}}
    made = responses_wire.call("bash", {"command": "echo one"}, "call_1")
    server.reply(responses_wire.replies(responses_wire.response(blocked, made)), responses_wire.says("Done."))
    assert ask("-p", "openai", "-m", "gpt-6-sol", "draw it").text == "Done.\n"
    assert server.requests[1].json["input"][-1]["type"] == "function_call_output"
