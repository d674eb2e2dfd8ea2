"""OpenRouter's Image API, for models that only generate images."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from tests import wire
from tests.model_server import ModelServer, Reply
from tests.program import Ask, Home
from tests.sample_files import GIF, png

IMAGE, OTHER = png(4, 4), png(5, 5)


def paints(*images: bytes) -> Reply:
    """Return the answer in the example of the documentation, with these images."""
    data = [{"b64_json": b64encode(image).decode(), "media_type": "image/png"} for image in images]
    usage = {"prompt_tokens": 0, "completion_tokens": 4175, "total_tokens": 4175, "cost": 0.04}
    return wire.whole_reply({"created": 1748372400, "data": data, "usage": usage})


@pytest.mark.parametrize("stream", [(), ("--no-stream",)])
def test_images_are_generated_and_edited(ask: Ask, server: ModelServer, stream: tuple[str, ...]) -> None:
    command = ("-p", "openrouter", "-m", "bytedance-seed/seedream-4.5", *stream, "--json")
    server.reply(paints(IMAGE, OTHER))
    result = ask(*command, "-o", "aspect_ratio=16:9", "draw a fox")
    value = json.loads(result.stdout)
    counts = [value["usage"][name] for name in ("output_tokens", "cost")]
    assert (result.code, value["text"], counts) == (0, "", [4175, 0.04]), result.stderr
    assert [(ask.cwd / name).read_bytes() for name in ("image.png", "image-2.png")] == [IMAGE, OTHER]
    request = server.requests[0]
    assert request.path == "/api/v1/images"
    assert request.json == {"model": command[3], "prompt": "draw a fox", "aspect_ratio": "16:9"}
    server.reply(paints(GIF))
    assert ask(*command, "-c", "make it red").code == 0
    assert (ask.cwd / "image.gif").read_bytes() == GIF
    sent = server.requests[-1].json
    urls = [f"data:image/png;base64,{b64encode(image).decode()}" for image in (IMAGE, OTHER)]
    assert sent["prompt"].endswith("make it red")
    assert sent["input_references"] == [{"type": "image_url", "image_url": {"url": url}} for url in urls]


@pytest.mark.parametrize(
    ("model", "options", "path"),
    [
        ("openai/gpt-image-2", (), "images"),
        ("black-forest-labs/flux.2-pro", (), "images"),
        ("~black-forest-labs/flux-latest", (), "images"),
        ("x-ai/grok-imagine-image-quality", (), "images"),
        ("vendor/new", ("-o", 'modalities=["image"]'), "images"),
        ("google/gemini-3-pro-image", (), "chat/completions"),
        ("openai/gpt-5.4-image-2", (), "chat/completions"),
        ("openai/gpt-image-2", ("-o", 'modalities=["image", "text"]'), "chat/completions"),
    ],
)
def test_the_api_depends_on_what_the_model_generates(
    ask: Ask, server: ModelServer, model: str, options: tuple[str, ...], path: str
) -> None:
    server.reply(paints(IMAGE) if path == "images" else wire.says("A fox."))
    assert ask("--no-tools", "-p", "openrouter", "-m", model, *options, "draw a fox").code == 0
    assert [request.path for request in server.requests] == [f"/api/v1/{path}"]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "a/b is an image generation model and cannot be used with the chat/completions endpoint."),
        (404, "No endpoints found that support the requested output modalities: image, text"),
    ],
)
def test_a_model_that_only_generates_images_is_explained(
    ask: Ask, server: ModelServer, status: int, message: str
) -> None:
    server.reply(wire.fails(status, message))
    result = ask("-p", "openrouter", "-m", "a/b", "draw a fox")
    assert (result.code, """-o 'modalities=["image"]'""" in result.stderr) == (6, True), result.stderr


def test_an_image_model_reads_only_images(ask: Ask, server: ModelServer, home: Home) -> None:
    (home.work / "x.pdf").write_bytes(b"%PDF-1.4\n")
    result = ask("-p", "openrouter", "-m", "openai/gpt-image-2", "-f", "x.pdf", "draw this")
    assert (result.code != 0, server.requests) == (True, [])


def test_an_image_in_place_of_json_is_not_generated_again(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(*[paints(IMAGE)] * 6)
    for command in (["map", "--no-save"], ["--no-tools"]):
        result = ask(
            *command, "-p", "openrouter", "-m", "openai/gpt-image-2", "--schema", "name", "draw", stdin=b"one\n"
        )
        assert result.code != 0
        assert "generates images" in result.stderr + result.text
    assert len(server.requests) == 2
