"""Sanitizing of untrusted text: surrogates, control characters and escapes."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.client.answers import DeltaRedactor
from ask.config.redaction import NO_SECRETS
from ask.messages import TextDelta
from ask.text import (
    escape_control_characters,
    escape_non_ascii,
    format_one_line,
    format_size,
    repair_json_surrogates,
    repair_surrogates,
)
from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home

HALVES = st.sampled_from(["\ud83d", "\ude00", "\ud800", "\udbff", "\udc00", "\udfff"])
ANY_TEXT = st.lists(st.text(max_size=4) | HALVES).map("".join)
TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
TURNING = set(map(unicodedata.bidirectional, TURNS))
LOOK_ALIKES = "\u0430\u051b\u202e\u2066\u200b\u00a0\ufeff\u0301\U000e0041\x1b\x9b\x7f\r\0é"


@given(st.text())
def test_valid_text_is_unchanged(text: str) -> None:
    assert repair_surrogates(text) == text


@given(ANY_TEXT)
def test_repaired_text_can_be_encoded_and_stays_the_same(text: str) -> None:
    mended = repair_surrogates(text)
    assert mended.encode().decode() == mended
    assert repair_surrogates(mended) == mended


def test_surrogate_pairs_are_joined_and_unpaired_ones_replaced() -> None:
    assert repair_surrogates("a\ud83d\ude00b") == "a😀b"
    assert repair_surrogates("a\ud83db") == "a\ufffdb"
    assert repair_surrogates("\ude00\ud83d") == "\ufffd\ufffd"
    assert repair_surrogates("\ud83d\ud83d\ude00") == "\ufffd😀"


@given(ANY_TEXT)
def test_json_is_copied_only_to_repair_it(text: str) -> None:
    mended = repair_surrogates(text)
    values = [
        ({text: 1}, {mended: 1}),
        ({1: text, None: 2}, {1: mended, None: 2}),
        ({"a": [None, {"b": text}]}, {"a": [None, {"b": mended}]}),
    ]
    for value, expected in values:
        found = repair_json_surrogates(value)
        assert (found, found is value) == (expected, text == mended)
    circular: dict[str, Any] = {}
    circular["a"] = circular
    assert repair_json_surrogates(circular) is circular


def test_json_is_repaired_at_any_depth_that_arguments_and_messages_can_have() -> None:
    text = '[{"a": ' * 350 + '"\\ud800"' + "}]" * 350
    assert json.dumps(repair_json_surrogates(json.loads(text))) == text.replace("d800", "fffd")


@given(ANY_TEXT, st.data())
def test_surrogate_pairs_that_are_split_between_deltas_are_joined(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    shown: list[Any] = []
    redactor = DeltaRedactor(NO_SECRETS, shown.append)
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        redactor.feed(TextDelta(text[start:end]))
    waiting = "\ud800" <= text[-1:] <= "\udbff"
    assert "".join(delta.text for delta in shown) == repair_surrogates(text[:-1] if waiting else text)
    redactor.finish()
    assert "".join(delta.text for delta in shown) == repair_surrogates(text)


@given(ANY_TEXT)
def test_no_control_character_except_newline_and_tab_reaches_a_terminal(text: str) -> None:
    shown = escape_control_characters(text + LOOK_ALIKES)
    assert {c for c in shown if unicodedata.category(c) == "Cc"} <= {"\n", "\t"}
    assert not {c for c in shown if unicodedata.bidirectional(c) in TURNING}


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters=TURNS) | st.sampled_from("\n\t")))
def test_text_without_control_characters_is_unchanged(text: str) -> None:
    assert escape_control_characters(text) == text


def test_control_characters_are_escaped() -> None:
    assert escape_control_characters("\x1b[31mred\x07\x9b\x7f") == "\\x1b[31mred\\x07\\x9b\\x7f"
    assert escape_control_characters("a\r\nb") == "a\nb"
    assert escape_control_characters("gpj\u202e.exe\u2069") == "gpj\\u202e.exe\\u2069"


@given(ANY_TEXT, st.integers(0, 20))
def test_format_one_line_returns_one_line_within_its_limit(text: str, limit: int) -> None:
    line = format_one_line(text, limit)
    assert len(line.splitlines()) <= 1
    assert not {c for c in line if unicodedata.category(c) == "Cc"}
    assert limit == 0 or len(line) <= limit


def test_a_line_is_cut_with_an_ellipsis_only_if_it_is_too_long() -> None:
    assert format_one_line(" one\n\ttwo  three ") == "one two three"
    assert format_one_line("12345", 5) == "12345"
    assert format_one_line("123456", 5) == "1234…"


def test_format_one_line_escapes_invisible_characters() -> None:
    text = "a\u00ad\u061c\u200b\u202e\u2066\u3164\ufeff\U000e0041b"
    assert format_one_line(text) == r"a\xad\u061c\u200b\u202e\u2066\u3164\ufeff\U000e0041b"


def test_variation_selectors_are_escaped_unless_they_make_an_emoji() -> None:
    assert (
        format_one_line("\u26a0\ufe0f 1\ufe0f\u20e3 \U0001f3d6\ufe0f") == "\u26a0\ufe0f 1\ufe0f\u20e3 \U0001f3d6\ufe0f"
    )
    hidden = "a\ufe0fb\ufe01\u034f\u17b4\U000e0100\u2028c\u26a0\ufe0f\ufe0f"
    shown = r"a\ufe0fb\ufe01\u034f\u17b4\U000e0100 c" + "\u26a0\ufe0f" + r"\ufe0f"
    assert format_one_line(hidden) == shown


@pytest.mark.parametrize(
    "text",
    [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u0915\u094d\u200d\u0937",
        "\U0001f3f3\ufe0f\u200d\U0001f308",
    ],
)
def test_joiners_are_kept_within_persian_and_hindi_words_and_emoji(text: str) -> None:
    assert format_one_line(text) == text


def test_other_joiners_are_escaped() -> None:
    hidden = "a\u200db \u200c\u0645\u200c\u200c\u0645\u200d"
    assert format_one_line(hidden) == r"a\u200db \u200c" + "\u0645" + r"\u200c\u200c" + "\u0645" + r"\u200d"


@given(ANY_TEXT)
def test_escaped_text_is_only_printable_ascii_and_newlines(text: str) -> None:
    assert all(" " <= c <= "~" or c == "\n" for c in escape_non_ascii(text + LOOK_ALIKES))


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E) | st.just("\n")))
def test_printable_ascii_is_unchanged(text: str) -> None:
    text = text.replace(" " * 10, "")
    assert escape_non_ascii(text) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        *((0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1_000, "1.0 KB"), (5_340, "5.3 KB"), (9_960, "10 KB")),
        *((557_100, "557 KB"), (999_600, "1.0 MB"), (10_000_000, "10 MB"), (1_230_000_000, "1.2 GB")),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm -rf \u202ecod.", "rm -rf \\u202ecod."),
        ("c\u0430t", "c\\u0430t"),
        ("a\tb\rc\x1b", "a\\x09b\\x0dc\\x1b"),
        ("é\ud83d\U000e0041", "\\xe9\\ud83d\\U000e0041"),
        ("ls" + " " * 200 + "; rm x", "ls[200 spaces]; rm x"),
        (" " * 19, " " * 19),
    ],
)
def test_deceptive_characters_and_gaps_are_escaped(text: str, shown: str) -> None:
    assert escape_non_ascii(text) == shown


TORN: list[wire.Json | str] = [
    *(json.dumps(wire.text(piece)) for piece in ("a\ud83d", "\ude00b\ud83d", "c")),
    wire.finish(),
]
"""Chunks of a service that escapes UTF-16 and splits anywhere."""


def test_a_character_split_between_chunks_is_joined(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(*TORN))
    assert ask("hi").stdout == "a😀b\ufffdc\n".encode()


def test_a_character_split_between_chunks_is_joined_in_events(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(*TORN))
    lines = [json.loads(line) for line in ask("--events", "hi").text.splitlines()]
    texts = [line["text"] for line in lines if line["type"] == "text"]
    assert "".join(texts) == lines[-1]["text"] == "a😀b\ufffdc"
    assert [text.encode() for text in texts]


def test_a_character_split_in_reasoning_is_joined_in_events(ask: Ask, server: ModelServer) -> None:
    torn = [json.dumps(wire.reasoning(piece)) for piece in ("a\ud83d", "\ude00b")]
    server.reply(wire.streams(*torn, wire.text("x"), wire.finish()))
    lines = [json.loads(line) for line in ask("--events", "hi").text.splitlines()]
    assert "".join(line["text"] for line in lines if line["type"] == "reasoning") == "a😀b"


@pytest.mark.parametrize(("value", "reason"), [("9" * 5_000, "more than 4,300 digits"), ("[" * 100_000, "too deeply")])
def test_what_python_cannot_parse_is_described_for_users(ask: Ask, home: Home, value: str, reason: str) -> None:
    (home.work / "value.json").write_text(f'{{"maximum": {value}}}')
    results = [
        ask("--schema", "value.json", "hi"),
        ask("history", "import", "value.json"),
        ask.shell("ask --input-events < value.json"),
    ]
    (home.config / "templates").mkdir(parents=True)
    (home.config / "templates" / "t.md").write_text(f"+++\nn = {value}\n+++\nhi")
    home.configure(f'[mcp]\nfiles = ["{home.work}/value.json"]')
    results += [ask("-t", "t", "hi"), ask("mcp", "list")]
    home.configure(f"max_cost = {value}")
    results.append(ask("hi"))
    for result in results:
        output = f"{result.text}{result.stderr}"
        assert reason in output
        assert "set_int_max_str_digits" not in output
        assert "recursion" not in output
