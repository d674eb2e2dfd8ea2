"""Redaction of keys, in complete texts and in streams."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.config.redaction import REDACTED, Redactor, is_word
from ask.messages import Message, ProviderState, ToolCall
from ask.tools.base import RunToolContext
from ask.tools.definitions import BASH

KEY = "sk-0123456789"
KEYS = st.lists(st.text("a1-", min_size=3, max_size=8), min_size=1, max_size=4).map(
    lambda keys: tuple(sorted(keys, key=len, reverse=True))
)
PIECES = st.lists(st.text("a1-x", max_size=12), max_size=12)


def redact_chunks(keys: tuple[str, ...], pieces: list[str]) -> str:
    keyless = Redactor(keys).open_stream()
    return "".join([*map(keyless.feed, pieces), keyless.finish()])


def test_without_keys_text_passes_immediately() -> None:
    assert Redactor().open_stream().feed("text") == "text"
    assert Redactor().redact("text") == "text"


@pytest.mark.parametrize("place", range(len(KEY) + 1))
def test_a_key_split_between_chunks_is_redacted(place: int) -> None:
    assert redact_chunks((KEY,), [f"a {KEY[:place]}", f"{KEY[place:]} b"]) == f"a {REDACTED} b"


def test_text_that_cannot_be_a_key_is_not_held_back() -> None:
    keyless = Redactor([KEY]).open_stream()
    assert keyless.feed("password: ") == "password: "
    assert keyless.feed("ask") == "a"
    assert keyless.feed("!") == "sk!"
    assert keyless.feed("sk-01") == ""
    assert keyless.finish() == "sk-01"


def test_the_longer_of_two_keys_is_redacted_completely() -> None:
    assert redact_chunks(("ab1def", "ab1"), ["xab1", "def"]) == f"x{REDACTED}"
    assert redact_chunks(("ab1def", "ab1"), ["xab1", "dex"]) == f"x{REDACTED}dex"


LINES = ("MIIEvQIBADANBgkqhkiG9w0BAQEF", "AASCBKcwggSjAgEAAoIBAQC7VJTU", "kL3Qxw==")


@pytest.mark.parametrize("separator", ["\n", "\r\n", "\r", "\\n", "\\\\n"])
def test_lines_of_a_key_with_several_are_redacted_alone(separator: str) -> None:
    marker = "-----BEGIN PRIVATE KEY-----"
    redactor = Redactor([separator.join((marker, *LINES, "spaces are in text"))])
    for text in ("\r\n".join(LINES[:2]), "\n".join(f"  {line}" for line in LINES), f"+{LINES[1]}\\n{LINES[2]}"):
        redacted = redactor.redact(text)
        assert not any(line in redacted for line in LINES[:2])
        stream = redactor.open_stream()
        assert "".join([*map(stream.feed, text), stream.finish()]) == redacted
    text = f"{marker} spaces are in text"
    assert redactor.redact(text) == text


@given(KEYS, PIECES)
def test_chunks_are_redacted_like_the_complete_text(keys: tuple[str, ...], pieces: list[str]) -> None:
    assert redact_chunks(keys, pieces) == Redactor(keys).redact("".join(pieces))


@given(KEYS, PIECES)
def test_output_contains_no_key_except_inside_a_word(keys: tuple[str, ...], pieces: list[str]) -> None:
    keyless = Redactor(keys).open_stream()
    redacted_text = "".join([*map(keyless.feed, pieces), keyless.finish()])
    for part, key in itertools.product(redacted_text.split(REDACTED), keys):
        assert key not in part or is_word(key)


@given(KEYS, PIECES)
def test_released_text_is_returned_once_and_is_no_key(keys: tuple[str, ...], pieces: list[str]) -> None:
    keyless = Redactor(keys).open_stream()
    text = "".join(part for piece in pieces for part in (keyless.feed(piece), keyless.release())) + keyless.finish()
    for part, key in itertools.product(text.split(REDACTED), keys):
        assert key not in part or is_word(key)
    if Redactor(keys).redact("".join(pieces)) == "".join(pieces):
        assert text == "".join(pieces)


def test_only_the_first_characters_of_a_key_are_released() -> None:
    keyless = Redactor([KEY]).open_stream()
    assert (keyless.feed("cats"), keyless.release(), keyless.release()) == ("cat", "s", "")
    assert (keyless.feed("k-"), keyless.release(), keyless.feed("01"), keyless.release()) == ("", "k-", "", "")
    assert keyless.feed(f"{KEY[5:]}.") == f"{REDACTED}."


@pytest.mark.parametrize("key", ["placeholder", "no-key-required", "correct horse"])
def test_a_key_that_is_a_word_is_not_cut_out_of_a_longer_one(key: str) -> None:
    text = f"{key}s un{key} {key}_1 é{key}"
    assert Redactor([key]).redact(text) == text
    for place in range(len(text)):
        assert redact_chunks((key,), [text[:place], text[place:]]) == text
    assert redact_chunks((key,), [f"({key}", ") ", key]) == f"({REDACTED}) {REDACTED}"


@pytest.mark.parametrize(
    "before",
    [
        r"{\"a\": \"line\n",
        "x%3D",
        r"\u003d",
        r"\x1b[1m",
        r"\x27",
        "\x1b[31m",
        "\x1b[m",
        "\x1b[01;31m\x1b[K",
        "\x1b[38;5;9m",
    ],
)
@pytest.mark.parametrize("after", ["\x1b[0m", "\\n", "%20", '"', ""])
def test_a_key_that_is_a_word_is_found_beside_escapes(before: str, after: str) -> None:
    text = f"{before}placeholder{after}"
    assert Redactor(["placeholder"]).redact(text) == f"{before}{REDACTED}{after}"
    for place in range(len(text)):
        assert redact_chunks(("placeholder",), [text[:place], text[place:]]) == f"{before}{REDACTED}{after}"
    assert redact_chunks(("placeholder",), [*text]) == f"{before}{REDACTED}{after}"


@pytest.mark.parametrize("key", [KEY, "aBcDeFgHiJkLmNoPqRsT"])
def test_a_random_key_is_redacted_inside_a_word(key: str) -> None:
    assert Redactor([key]).redact(f"x{key}x") == f"x{REDACTED}x"


@pytest.mark.parametrize("key", [KEY, "placeholder"])
def test_a_key_in_colored_output_is_redacted(tmp_path: Path, key: str) -> None:
    shown: list[str] = []
    context = RunToolContext(tmp_path, dict(os.environ), 20, tmp_path / "spill", shown.append, redactor=Redactor([key]))
    parts = [f"\\033[31m{key}", f"{key[:5]}\\033[0m{key[5:]}", f"{key[:5]}-\\b{key[5:]}", f"xx\\r{key}"]
    command = "; ".join([f"printf ' {part}\\n'" for part in parts] + ["head -c 40000 /dev/zero | tr '\\0' x"])
    result = BASH.run({"command": command}, context)
    [spilled] = (tmp_path / "spill").iterdir()
    for text in (result.text, spilled.read_text()):
        assert (key in text, text.count(REDACTED)) == (False, len(parts))


def test_command_output_is_saved_and_shown_without_keys(tmp_path: Path) -> None:
    shown: list[str] = []
    context = RunToolContext(tmp_path, dict(os.environ), 20, tmp_path / "spill", shown.append, redactor=Redactor([KEY]))
    around = "head -c 14990 /dev/zero | tr '\\0' x"
    parts = f"printf {KEY[:5]}; sleep 0.05; printf {KEY[5:]}"
    result = BASH.run({"command": f"{around}; {parts}; {around}; {{ {parts}; }} >&2; {parts}; {around}"}, context)
    [spilled] = (tmp_path / "spill").iterdir()
    for text in (result.text, "".join(shown), spilled.read_text()):
        assert KEY[:5] not in text
    assert spilled.read_text().count(REDACTED) == 2
    assert result.text.endswith(f"stderr:\n{REDACTED}")


QUOTED = 'pass"wo/rd\\ä\n🎉'


@pytest.mark.parametrize(
    "arguments",
    [
        json.dumps({"command": f"echo {QUOTED}"}),
        json.dumps({"command": f"echo {QUOTED}"}, ensure_ascii=False),
        json.dumps({"command": f"echo {QUOTED}"}).replace("/", "\\/"),
        json.dumps({"nested": [{QUOTED: 1}]}),
        json.dumps(json.dumps({"in": QUOTED})),
        '{"command": "echo ' + "".join(f"\\u{ord(c):04X}" for c in KEY) + '"}',
        '{"broken": "echo ' + "".join(f"\\u{ord(c):04x}" for c in KEY),
        json.dumps({"broken": QUOTED})[:-1],
        f'{{"number": 1, "{KEY}": [',
    ],
)
def test_secrets_in_json_are_found_in_any_escaping(arguments: str) -> None:
    redacted = Redactor([KEY, QUOTED]).redact_json(arguments)
    assert REDACTED in redacted
    with contextlib.suppress(ValueError):
        value = json.loads(arguments)
        assert json.loads(redacted) != value
        arguments = json.dumps(value, ensure_ascii=False)
    for secret in (KEY, QUOTED, json.dumps(QUOTED)[1:-1]):
        assert secret not in redacted


@pytest.mark.parametrize(
    "text",
    [
        r'"p4ss&w0rd+/<x>=="',  # Python, JavaScript
        r'"p4ss\u0026w0rd+/\u003cx\u003e=="',  # Go, Rails
        r'"p4ss\u0026w0rd+/\u003cx\u003e\u003d\u003d"',  # Gson
        r'"p4ss\u0026w0rd\u002B/\u003Cx\u003E=="',  # .NET
    ],
)
def test_secrets_in_json_that_is_safe_in_html_are_found(text: str) -> None:
    assert Redactor([json.loads(text)]).redact(text) == f'"{REDACTED}"'


def test_json_without_a_secret_is_unchanged() -> None:
    for text in ('{"a":  "\\u0041\\n", "a": 1e400}', '{"a": "\\u0041', "", "{}"):
        assert Redactor([KEY]).redact_json(text) == text


def test_all_parts_of_a_message_are_redacted_and_changed_native_parts_removed() -> None:
    redactor = Redactor([KEY])
    signed = ProviderState("p", "m", {"content": [{"thinking": f"the key is {KEY}", "signature": "x"}]})
    message = Message("assistant", KEY, (ToolCall(KEY, KEY, f'{{"a": "{KEY}"}}'),), provider_state=signed)
    redacted = redactor.redact_message(message)
    assert KEY not in repr(redacted)
    assert redacted.provider_state is None
    kept = message._replace(provider_state=ProviderState("p", "m", {"content": [{"thinking": "hm", "signature": "x"}]}))
    assert redactor.redact_message(kept).provider_state == kept.provider_state
