"""Requests with an image, a PDF and audio in each API, checked with the vendors' own types."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ask import Attachment, ChatCompletions, ChatRequest, Message, Provider
from providers import anthropic, deepseek, demo, gemini, lmstudio, moonshot, ollama, openai, openrouter, xai
from tests import responses_wire, wire
from tests.providers.anthropic_wire import read_by_anthropic
from tests.providers.gemini_wire import plain, read_by_google
from tests.providers.test_ollama_requests import read_by_ollama
from tests.sample_files import BEGINNINGS, PAPER, PHOTO, SPEECH

NATIVE = {"anthropic": anthropic, "gemini": gemini, "ollama": ollama}
CHAT: dict[str, ChatCompletions] = {
    provider.info.name: provider
    for provider in (
        *(module.provider for module in (deepseek, demo, lmstudio, moonshot, openrouter)),
        *(module.provider.chat for module in (openai, xai)),
    )
}
RESPONSES = {"openai": openai, "xai": xai}
SYSTEM = Message("system", "Be kind.")


def body(provider: Provider, *attachments: Attachment, model: str = "", text: str = "what is this?") -> Any:
    """Build the body of a question with these files, converted to JSON types."""
    asked = Message("user", text, attachments=attachments)
    request = ChatRequest(model or provider.info.default_model or "m", [SYSTEM, asked])
    return json.loads(json.dumps(provider.provider_build_request(request, "key").body))


def accepts(provider: Provider, model: str, media_type: str) -> bool:
    return provider.provider_supports_attachment(model, media_type)


def filter_accepted(provider: Provider, *attachments: Attachment) -> list[Attachment]:
    model = provider.info.default_model or "m"
    return [one for one in attachments if accepts(provider, model, one.media_type)]


@pytest.mark.parametrize("name", sorted(CHAT))
def test_files_fit_openais_types(name: str) -> None:
    provider = CHAT[name]
    sent = body(provider, *filter_accepted(provider, PHOTO, PAPER, SPEECH))
    plain_body = wire.without_fields(sent, {"cache_control"})
    assert wire.read_by_openai(plain_body) == plain_body
    text, image = sent["messages"][1]["content"][:2]
    assert text["text"] == "what is this?"
    assert image == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PHOTO.base64}"}}


@pytest.mark.parametrize("name", sorted(RESPONSES))
def test_files_fit_the_types_of_the_responses_api(name: str) -> None:
    provider = RESPONSES[name].provider
    sent = body(provider, *filter_accepted(provider, PHOTO, PAPER, SPEECH))
    responses_wire.check_request(sent)
    text, image, *files = sent["input"][1]["content"]
    assert text == {"type": "input_text", "text": "what is this?"}
    assert image["image_url"] == f"data:image/png;base64,{PHOTO.base64}"
    data = f"data:application/pdf;base64,{PAPER.base64}"
    paper = {"type": "input_file", "filename": "paper.pdf", "file_data": data}
    assert files == ([paper] if name == "openai" else [])


def test_pdf_and_audio_have_their_own_parts() -> None:
    sent = body(openrouter.provider, PAPER, SPEECH)
    file, audio = sent["messages"][1]["content"][1:]
    data = f"data:application/pdf;base64,{PAPER.base64}"
    assert file == {"type": "file", "file": {"filename": "paper.pdf", "file_data": data}}
    assert audio == {"type": "input_audio", "input_audio": {"data": SPEECH.base64, "format": "wav"}}
    song = Attachment("a.mp3", "audio/mpeg", BEGINNINGS["audio/mpeg"])
    assert body(openai.provider, song, model="gpt-audio")["messages"][1]["content"][1]["input_audio"]["format"] == "mp3"


def test_file_without_a_prompt_has_no_empty_text_part() -> None:
    (part,) = body(openai.provider.chat, PHOTO, text="")["messages"][1]["content"]
    assert part["type"] == "image_url"
    (part,) = body(openai.provider, PHOTO, text="")["input"][1]["content"]
    assert part["type"] == "input_image"
    (block,) = body(anthropic.provider, PHOTO, text="")["messages"][0]["content"]
    assert block["type"] == "image"
    (only,) = body(gemini.provider, PHOTO, text="")["contents"][0]["parts"]
    assert "inlineData" in only


def test_only_openrouters_text_parts_are_marked_for_caching() -> None:
    text, image = body(openrouter.provider, PHOTO)["messages"][1]["content"]
    assert text["cache_control"]
    assert "cache_control" not in image


def test_anthropics_types_accept_images_and_documents() -> None:
    sent = body(anthropic.provider, PHOTO, PAPER)
    assert read_by_anthropic(sent) == sent
    image, document, text = sent["messages"][0]["content"]
    assert image["source"] == {"type": "base64", "media_type": "image/png", "data": PHOTO.base64}
    assert document["source"] == {"type": "base64", "media_type": "application/pdf", "data": PAPER.base64}
    assert document["title"] == "paper.pdf"
    assert (text["text"], "cache_control" in text) == ("what is this?", True)


def test_googles_types_accept_images_documents_and_audio() -> None:
    song = Attachment("a.mp3", "audio/mpeg", BEGINNINGS["audio/mpeg"])
    sent = body(gemini.provider, PHOTO, PAPER, SPEECH, song)
    *files, text = sent["contents"][0]["parts"]
    kinds = ["image/png", "application/pdf", "audio/wav", "audio/mp3"]
    assert [file["inlineData"]["mimeType"] for file in files] == kinds
    assert [file["inlineData"]["data"] for file in files] == [one.base64 for one in (PHOTO, PAPER, SPEECH, song)]
    assert text == {"text": "what is this?"}
    assert read_by_google(sent) == plain(sent)


def test_ollamas_types_accept_images() -> None:
    sent = body(ollama.provider, PHOTO, PHOTO, model="llava")
    assert read_by_ollama(sent) == sent
    assert sent["messages"][1] == {"role": "user", "content": "what is this?", "images": [PHOTO.base64] * 2}


def test_large_image_needs_no_large_ollama_context() -> None:
    large = PHOTO._replace(data=PHOTO.data + bytes(3_000_000))
    assert body(ollama.provider, large, model="llava")["options"]["num_ctx"] == 8192
    many = [PHOTO] * 8
    assert body(ollama.provider, *many, model="llava")["options"]["num_ctx"] == 32768


# Accepted types

PICTURES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
TAKEN: dict[tuple[str, str], set[str]] = {
    ("anthropic", "claude-sonnet-5-5"): {*PICTURES, "application/pdf"},
    ("deepseek", "deepseek-flash"): PICTURES,
    ("deepseek", "deepseek-pro"): set(),
    ("gemini", "gemini-flash-latest"): {
        *("video/mp4", "video/mpeg", "video/quicktime", "video/webm", "video/x-msvideo", "video/3gpp"),
        *("image/png", "image/jpeg", "image/webp", "image/heic", "application/pdf"),
        *("audio/wav", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac"),
    },
    ("gemini", "gemma-4-31b-it"): {"image/png", "image/jpeg", "image/webp", "image/heic"},
    ("lmstudio", "qwen3-vl"): {"image/png", "image/jpeg"},
    ("moonshot", "kimi-k3"): PICTURES,
    ("moonshot", "kimi-k2.5"): PICTURES,
    ("moonshot", "kimi-k2-thinking"): set(),
    ("moonshot", "moonshot-v1-32k"): set(),
    ("moonshot", "moonshot-v1-32k-vision-preview"): PICTURES,
    ("ollama", "llava"): {"image/png", "image/jpeg", "image/webp"},
    ("openai", "gpt-6-sol"): {*PICTURES, "application/pdf"},
    ("openai", "gpt-4"): set(),
    ("openai", "gpt-4o"): {*PICTURES, "application/pdf"},
    ("openai", "gpt-3.5-turbo"): set(),
    ("openai", "gpt-audio"): {"audio/wav", "audio/mpeg"},
    ("openrouter", "any/model"): {
        *(*PICTURES, "application/pdf", "audio/wav", "audio/mpeg"),
        *("audio/ogg", "audio/flac", "audio/mp4", "audio/aac", "audio/aiff"),
        *("video/mp4", "video/mpeg", "video/quicktime", "video/webm"),
    },
    ("xai", "grok-latest"): {"image/png", "image/jpeg"},
    ("xai", "grok-3-mini"): set(),
}


@pytest.mark.parametrize(("name", "model"), TAKEN)
def test_each_model_accepts_the_documented_types(name: str, model: str) -> None:
    modules = NATIVE | RESPONSES
    provider: Provider = modules[name].provider if name in modules else CHAT[name]
    assert {media_type for media_type in BEGINNINGS if accepts(provider, model, media_type)} == TAKEN[name, model]


def test_video_is_sent_to_gemini_and_openrouter() -> None:
    clip = Attachment("clip.mov", "video/quicktime", BEGINNINGS["video/quicktime"])
    sent = body(gemini.provider, clip)
    assert sent["contents"][0]["parts"][0] == {"inlineData": {"mimeType": "video/mov", "data": clip.base64}}
    assert plain(sent) == read_by_google(sent)
    part = body(openrouter.provider, clip)["messages"][1]["content"][-1]
    assert part == {"type": "video_url", "video_url": {"url": f"data:video/quicktime;base64,{clip.base64}"}}
    others = [
        each for each in (*CHAT.values(), *(module.provider for module in NATIVE.values())) if each.info.name != "demo"
    ]
    accepting = {each.info.name for each in others if filter_accepted(each, clip)}
    assert accepting == {"gemini", "openrouter"}
