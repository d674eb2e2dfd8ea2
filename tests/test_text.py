"""Text from outside: kept whole where it was torn, and harmless where it is printed or shown."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.text import SurrogateJoiner, escape_control_characters, escape_non_ascii, format_one_line, repair_surrogates
from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask

HALVES = st.sampled_from(["\ud83d", "\ude00", "\ud800", "\udbff", "\udc00", "\udfff"])
ANY_TEXT = st.lists(st.text(max_size=4) | HALVES).map("".join)
TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
TURNING = set(map(unicodedata.bidirectional, TURNS))
LOOK_ALIKES = "\u0430\u051b\u202e\u2066\u200b\u00a0\ufeff\u0301\U000e0041\x1b\x9b\x7f\r\0é"


@given(st.text())
def test_text_that_is_whole_stays_as_it_is(text: str) -> None:
    assert repair_surrogates(text) == text


@given(ANY_TEXT)
def test_mended_text_can_be_written_and_is_mended_for_good(text: str) -> None:
    mended = repair_surrogates(text)
    assert mended.encode().decode() == mended
    assert repair_surrogates(mended) == mended


def test_halves_are_joined_and_a_lone_one_is_replaced() -> None:
    assert repair_surrogates("a\ud83d\ude00b") == "a😀b"
    assert repair_surrogates("a\ud83db") == "a\ufffdb"
    assert repair_surrogates("\ude00\ud83d") == "\ufffd\ufffd"
    assert repair_surrogates("\ud83d\ud83d\ude00") == "\ufffd😀"


@given(ANY_TEXT, st.data())
def test_pieces_joined_as_they_come_say_what_the_whole_says(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    joiner = SurrogateJoiner()
    said = "".join(joiner.feed(piece) for piece in pieces)
    waiting = "\ud800" <= text[-1:] <= "\udbff"
    assert said == repair_surrogates(text[:-1] if waiting else text)
    assert said + joiner.feed(" ") == repair_surrogates(text + " ")


@given(ANY_TEXT)
def test_no_control_character_but_newline_and_tab_reaches_a_terminal(text: str) -> None:
    shown = escape_control_characters(text + LOOK_ALIKES)
    assert {c for c in shown if unicodedata.category(c) == "Cc"} <= {"\n", "\t"}
    assert not {c for c in shown if unicodedata.bidirectional(c) in TURNING}


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters=TURNS) | st.sampled_from("\n\t")))
def test_text_without_control_characters_is_shown_as_it_is(text: str) -> None:
    assert escape_control_characters(text) == text


def test_control_characters_are_made_visible() -> None:
    assert escape_control_characters("\x1b[31mred\x07\x9b\x7f") == "\\x1b[31mred\\x07\\x9b\\x7f"
    assert escape_control_characters("a\r\nb") == "a\nb"
    assert escape_control_characters("gpj\u202e.exe\u2069") == "gpj\\u202e.exe\\u2069"


@given(ANY_TEXT, st.integers(0, 20))
def test_one_line_is_one_line_within_its_limit(text: str, limit: int) -> None:
    line = format_one_line(text, limit)
    assert len(line.splitlines()) <= 1
    assert not {c for c in line if unicodedata.category(c) == "Cc"}
    assert limit == 0 or len(line) <= limit


def test_a_line_is_cut_with_a_mark_only_where_it_is_too_long() -> None:
    assert format_one_line(" one\n\ttwo  three ") == "one two three"
    assert format_one_line("12345", 5) == "12345"
    assert format_one_line("123456", 5) == "1234…"


@given(ANY_TEXT)
def test_spelled_out_text_is_printable_ascii_and_newlines_alone(text: str) -> None:
    assert all(" " <= c <= "~" or c == "\n" for c in escape_non_ascii(text + LOOK_ALIKES))


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E) | st.just("\n")))
def test_printable_ascii_is_spelled_as_it_is(text: str) -> None:
    text = text.replace(" " * 10, "")
    assert escape_non_ascii(text) == text


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
def test_what_could_hide_is_spelled_out(text: str, shown: str) -> None:
    assert escape_non_ascii(text) == shown


TORN: list[wire.Json | str] = [
    *(json.dumps(wire.text(piece)) for piece in ("a\ud83d", "\ude00b\ud83d", "c")),
    wire.finish(),
]
"""Chunks as a service writes them that escapes UTF-16 and cuts anywhere."""


def test_a_character_torn_between_two_chunks_comes_out_whole(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(*TORN))
    assert ask("hi").stdout == "a😀b\ufffdc\n".encode()


def test_a_character_torn_between_two_chunks_comes_out_whole_in_events(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(*TORN))
    lines = [json.loads(line) for line in ask("--events", "hi").text.splitlines()]
    texts = [line["text"] for line in lines if line["type"] == "text"]
    assert "".join(texts) == lines[-1]["text"] == "a😀b\ufffdc"
    assert [text.encode() for text in texts]


def test_reasoning_torn_between_two_chunks_comes_out_whole_in_events(ask: Ask, server: ModelServer) -> None:
    torn = [json.dumps(wire.reasoning(piece)) for piece in ("a\ud83d", "\ude00b")]
    server.reply(wire.streams(*torn, wire.text("x"), wire.finish()))
    lines = [json.loads(line) for line in ask("--events", "hi").text.splitlines()]
    assert "".join(line["text"] for line in lines if line["type"] == "reasoning") == "a😀b"
