"""Keys in newer forms, and reports of the terminal, in the input of a chat."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from ask.cli.chat.key_parser import KeyParser
from tests import wire
from tests.cli.chat.chat_session import ENTER, Chat, read_conversation
from tests.model_server import ModelServer
from tests.program import Ask
from tests.slow_parameters import mark_others_slow

NEWLINES = [
    *("\x1b[13;2u", "\x1b[13;5u", "\x1b[13;3u", "\x1b[13;6u", "\x1b[13;2:1u", "\x1b[13;130u", "\x1b[57414;2u"),
    *("\x1b[27;2;13~", "\x1b[27;5;13~", "\x1b[27;3;13~", "\x1b\r"),
]
REPORTS = [
    *(
        "\x1b[I",
        "\x1b[O",
        "\x1b[12;40R",
        "\x1b[?62;4c",
        "\x1b[>0;276;0c",
        "\x1b[?2026;2$y",
        "\x1b[?1u",
        "\x1b[8;24;80t",
    ),
    *(
        "\x1b]11;rgb:1a1a/1a1a/1a1a\x1b\\",
        "\x1b]10;rgb:ff/ff/ff\x07",
        "\x1bP>|kitty(0.39.1)\x1b\\",
        "\x1b_Gi=31;OK\x1b\\",
    ),
    *("\x1b[13;2:3u", "\x1b[57441;2u", "\x1b[M !!", "\x1b[<0;3;3M"),
]


def parse(*chunks: str) -> list[str]:
    """Return the keys in input that arrives in chunks; of a paste, its text."""
    keys: list[str] = []

    def add(press: KeyPress) -> None:
        keys.append(press.data if press.key == Keys.BracketedPaste else str(getattr(press.key, "value", press.key)))

    parser = KeyParser(add)
    for chunk in chunks:
        parser.feed(chunk)
    parser.flush()
    return keys


@pytest.mark.parametrize("sequence", NEWLINES, ids=repr)
def test_enter_with_a_modifier_is_alt_enter(sequence: str) -> None:
    assert parse(sequence) == parse(*sequence) == ["escape", "c-m"]


@pytest.mark.parametrize("report", REPORTS, ids=repr)
def test_reports_are_no_keys(report: str) -> None:
    assert parse(f"a{report}b") == ["a", "b"]
    assert parse("a", *report, "b") == ["a", "b"]


@pytest.mark.parametrize(
    ("sequence", "keys"),
    [
        ("\x1b[13u", ["c-m"]),
        ("\x1b[13;129u", ["c-m"]),  # with Num Lock
        ("\x1b[99;5u", ["c-c"]),
        ("\x1b[27;5;99~", ["c-c"]),
        ("\x1b[97:65;2;65u", ["A"]),
        ("\x1b[98;3u", ["escape", "b"]),
        ("\x1b[9;2u", ["s-tab"]),
        ("\x1b[27u", ["escape"]),
        ("\x1b[1;5D", ["c-left"]),
        ("\x1b[[A", ["f1"]),
        ("\x1bOA", ["up"]),
        ("\x1b", ["escape"]),
        ("\x1bP", ["escape", "P"]),
        ("\x1b]", ["escape", "]"]),
        ("\x1b[200~a\x1b[Ib\x1b[201~", ["a\x1b[Ib"]),
    ],
)
def test_keys_keep_their_meaning(sequence: str, keys: list[str]) -> None:
    assert parse(sequence) == parse(*sequence) == keys


def test_a_reply_that_arrives_after_a_pause_is_no_text() -> None:
    keys: list[str] = []
    parser = KeyParser(lambda press: keys.append(press.data))
    for chunk in ("\x1b]11;rgb:1a", "/1a/1a\x1b\\", "a", "\x1b]11;rgb:1a", "b"):
        parser.feed(chunk)
        parser.flush()
    assert keys == ["a", "b"]


@given(st.lists(st.text(st.sampled_from("\x1b[]P?>0;13u~IORcM$\x07\\a\r"))))
def test_any_input_is_parsed(chunks: list[str]) -> None:
    parse(*chunks)


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_text_stays_as_it_is(text: str) -> None:
    assert "".join(parse(text)) == text


@pytest.mark.parametrize("sequence", mark_others_slow(["\x1b[13;2u", "\x1b[27;5;13~"]))
def test_shift_enter_starts_a_new_line(sequence: str, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Yes."))
    with Chat(ask) as chat:
        chat.type_in("\x1b[Ione")
        chat.type_in(sequence)
        chat.send("two\x1b[O")
        chat.quit()
    assert read_conversation(server.requests[0]) == ["one\ntwo"]


def test_reports_during_an_answer_are_not_part_of_the_next_message(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("A slow answer."), wire.says("Done."))
    with Chat(ask) as chat:
        chat.type_in("one" + ENTER + "\x1b[O\x1b]11;rgb:1a/1a/1a\x1b\\\x1b[Itwo\x1b[13;2uthree" + ENTER)
        chat.wait_for_prompt()
        chat.wait_for_prompt()
        chat.quit()
    assert read_conversation(server.requests[1])[-1] == "two\nthree"
