"""Detection of media types by content, and notes for unsupported attachments."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ask import Attachment, Message
from ask.agent.context_window import estimate_message_tokens
from ask.attachments import (
    ATTACHABLE_MEDIA_TYPES,
    MEDIA_TYPES,
    SNIFF_BYTES,
    detect_media_type,
    format_supported_types,
    is_document,
    replace_unsupported_attachments,
)
from ask.errors import FileError
from ask.inputs.content_types import parse_content
from ask.inputs.prompt_inputs import PromptInputs
from ask.text import format_size
from tests.sample_files import BEGINNINGS, PAPER, PHOTO, SPEECH, pdf, png, wav

TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"))


@pytest.mark.parametrize("media_type", [name for name in sorted(MEDIA_TYPES) if not is_document(name)])
def test_media_types_are_detected_by_signature(media_type: str) -> None:
    assert detect_media_type(BEGINNINGS[media_type]) == media_type


@pytest.mark.parametrize("head", [b"\xff\xfb\x90\x64\0", b"\xff\xf3\x84\xc4", b"ID3\x03\0\0"])
def test_mp3_is_detected_with_and_without_id3(head: bytes) -> None:
    assert detect_media_type(head + bytes(9)) == "audio/mpeg"


@given(TEXT)
@example("ID3\x02 tags are old")
@example("BM")
@example("GIF89a is a format")
@example("RIFF....WAVE")
@example("1234ftypheic")
@example("....ftypM4A ")
@example("fLaC, a codec")
@example("PK\x03\x04")
@example("II*")
@example("ä" * SNIFF_BYTES)
@example("a" + "€" * SNIFF_BYTES)
def test_text_has_no_media_type(text: str) -> None:
    if text.lstrip().startswith("%PDF-"):
        return
    data = text.encode()
    assert detect_media_type(data) == ""
    kept = parse_content("a", data)
    assert kept == PromptInputs(texts=(("a", text.removeprefix("\ufeff")),))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "latin-1"])
def test_text_in_another_encoding_has_no_media_type(encoding: str) -> None:
    ((_, text),) = parse_content("a", "Zwölf Boxkämpfer".encode(encoding)).texts
    assert text.startswith("Zw")
    assert text.endswith("mpfer")


@given(
    st.binary()
    | st.builds(lambda head, more: head[:20] + more, st.sampled_from(list(BEGINNINGS.values())), st.binary())
)
def test_any_bytes_are_text_or_an_attachment_or_a_one_line_error(data: bytes) -> None:
    try:
        kept = parse_content("a", data)
    except FileError as refusal:
        assert "\n" not in str(refusal)
        assert refusal.hint
        return
    assert len(kept.texts) + len(kept.attachments) == 1
    for attachment in kept.attachments:
        assert attachment.media_type in ATTACHABLE_MEDIA_TYPES
        assert attachment.data is data


# Notes for unsupported attachments


def is_note(text: str, attachment: Attachment, kind: str) -> bool:
    """Check for one line in brackets with the kind, name and size of a file."""
    facts = (kind, attachment.name, format_size(len(attachment.data)))
    return re.fullmatch(r"\[.*\]", text) is not None and all(fact in text for fact in facts)


def test_an_unsupported_attachment_becomes_a_note() -> None:
    messages = [
        Message("user", "what?", attachments=(PHOTO, PAPER)),
        Message("assistant", "A."),
        Message("user", "why?"),
    ]
    asked: list[str] = []

    def is_supported(media_type: str) -> bool:
        asked.append(media_type)
        return media_type == "image/png"

    shown = replace_unsupported_attachments([*messages, messages[0]], "ant-1", is_supported)
    text, _, note = shown[0].content.partition("\n\n")
    assert shown[0] == shown[3]
    assert (shown[0].role, text, shown[0].attachments) == ("user", "what?", (PHOTO,))
    assert is_note(note, PAPER, "PDF")
    assert shown[1:3] == messages[1:]
    assert "ant-1 does not accept PDFs" in note
    assert len(set(asked)) == len(asked), "each is asked about once"


def test_a_message_with_only_a_file_becomes_a_note() -> None:
    (shown,) = replace_unsupported_attachments([Message("user", "", attachments=(PHOTO,))], "ant-1", lambda _: False)
    assert shown == Message("user", shown.content)
    assert is_note(shown.content, PHOTO, "image")


def test_an_unsupported_attachment_becomes_a_note_on_one_line() -> None:
    odd = Attachment("a\nb", "text/x-odd", b"12")
    message = Message("assistant", "A.", attachments=(odd, PHOTO))
    (shown,) = replace_unsupported_attachments([message], "ant-1", lambda _: False)
    text, first, second = shown.content.split("\n\n")
    assert (text, shown.attachments) == ("A.", ())
    assert is_note(first, odd._replace(name="a b"), "file")
    assert is_note(second, PHOTO, "image")


def test_supported_types_are_listed_by_group() -> None:
    assert format_supported_types(
        lambda media_type: media_type in ("image/png", "image/gif", "audio/wav", "application/pdf")
    ) == ("images (PNG, GIF), PDF, audio (WAV)")
    assert format_supported_types(lambda _: False) == ""


# Token estimates


def estimate_tokens(attachment: Attachment) -> int:
    return estimate_message_tokens(Message("user", "", attachments=(attachment,))) - estimate_message_tokens(
        Message("user", "")
    )


def test_an_image_has_the_same_token_estimate_at_any_size() -> None:
    large = PHOTO._replace(data=png(more=bytes(5_000_000)))
    assert estimate_tokens(PHOTO) == estimate_tokens(large) < 5_000


def test_documents_are_estimated_by_pages_and_audio_by_length() -> None:
    assert estimate_tokens(PAPER._replace(data=pdf(10))) == 10 * estimate_tokens(PAPER)
    assert estimate_tokens(PAPER._replace(data=b"%PDF-1.7\n" + bytes(500_000))) > estimate_tokens(PAPER)
    assert 100 * estimate_tokens(SPEECH) > estimate_tokens(SPEECH._replace(data=wav(10))) > estimate_tokens(SPEECH)
