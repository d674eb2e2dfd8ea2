"""Reasoning in tags at the start of a text: found alike in any fragments, and never where it is text."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.client.reasoning_tags import MAX_BLOCKS, REASONING_TAGS, ReasoningSplitter, separate_reasoning
from ask.messages import Delta, ReasoningDelta, TextDelta, ToolCallDelta

TAGS = list(REASONING_TAGS.items())
THINK = "<think>", "</think>"


def separate(
    text: str, field: str = "", *, complete: bool = True, lone: bool = False, is_open: bool = False
) -> tuple[str, str]:
    return separate_reasoning(text, field, unclosed_is_text=complete, lone_end_counts=lone, is_open=is_open)


def stream(deltas: Sequence[Delta], *, complete: bool = True, is_open: bool = False) -> list[Delta]:
    """Return what is forwarded of these deltas."""
    forwarded: list[Delta] = []
    splitter = ReasoningSplitter(forwarded.append, is_open=is_open)
    for delta in deltas:
        splitter.feed(delta)
    splitter.finish(unclosed_is_text=complete)
    return forwarded


def join(deltas: Sequence[Delta]) -> tuple[str, str]:
    reasoning, text = (
        "".join(delta.text for delta in deltas if isinstance(delta, kind)) for kind in (ReasoningDelta, TextDelta)
    )
    return reasoning, text


@pytest.mark.parametrize(("begin", "end"), TAGS)
def test_reasoning_in_every_tag_is_separated(begin: str, end: str) -> None:
    text = f"\n{begin}\nI look at x < y.\n{end}\n\n  Hello, wörld!"
    expected = ("I look at x < y.", "  Hello, wörld!")
    assert separate(text) == join(stream([*map(TextDelta, text)])) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "<", "◁th", "  ", "<thin", "<thinker>Rodin</thinker>", "I <think> so.</think>", " \n<b>yes</b>", "\n{ }"),
        *("`<think>` is a tag that ends with `</think>`.", "```html\n<think>a</think>\n```", "</thi", "[T", "[1]"),
        *("- <think>a</think>", "<think", "< think>a</think>", "<think/>a</think>", "<THINK>a</THINK>"),
    ],
)
def test_other_text_is_unchanged(text: str) -> None:
    assert separate(text) == join(stream([*map(TextDelta, text)])) == ("", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>\n\n</think>\n\nHello.", ("", "Hello.")),  # Qwen3 with /no_think
        ("<think>a</think>\n<think> b </think>Hello.", ("a\n\nb", "Hello.")),
        ("<think></think>\n<reasoning>a</reasoning>", ("a", "")),
        ("<think>a</think>\n\nI <think>so</think>.", ("a", "I <think>so</think>.")),
        ("<think>a</think>```\n<think>b</think>\n```", ("a", "```\n<think>b</think>\n```")),
        ("<think>a <think> b</think>c</think>", ("a <think> b", "c</think>")),
        ("<think>a</thinking>b</think>c", ("a</thinking>b", "c")),
        ("<think>a</think> \r\n\r\n    x = 1", ("a", "    x = 1")),
        ("<think>a</think>  Hello.", ("a", "Hello.")),
        ("<think>a</think>\n<thi", ("a", "<thi")),
        ("<think>a</think>Write print('</think>').", ("a", "Write print('</think>').")),
        ("<think>Is `</think>` a tag?\n</think>\nYes.", ("Is `</think>` a tag?", "Yes.")),
        ("<think>It is `a`</think>b", ("It is `a`", "b")),
        ("<think>It is `a`</think>", ("It is `a`", "")),
        ("\n</think>\nHello.", ("", "Hello.")),  # GLM, with the reasoning in its own field
        ("</think>", ("", "")),
        ("</mm:think>\nHello.", ("", "Hello.")),  # MiniMax M3 in SGLang, after the first turn
        ("</mm:thin", ("", "</mm:thin")),
    ],
)
def test_blocks_at_the_start(text: str, expected: tuple[str, str]) -> None:
    assert separate(text) == join(stream([*map(TextDelta, text)])) == expected


@pytest.mark.parametrize("text", [" <think>I have to</thin", "<think>", "[THINK] a\n\n"])
def test_a_block_that_never_closes_is_text_only_if_the_model_ended_it(text: str) -> None:
    assert separate(text) == ("", text)
    assert stream([*map(TextDelta, text)])[-1] == TextDelta(text)
    assert separate(text, complete=False) == join(stream([TextDelta(text)], complete=False))
    assert separate(text, complete=False)[1] == ""


def test_a_second_block_that_never_closes_is_text() -> None:
    assert separate("<think>a</think>\n<think>b") == ("a", "<think>b")


def test_there_are_only_so_many_blocks() -> None:
    reasoning, text = separate("<think>a</think>" * 1_000_000 + "b")
    assert (reasoning.count("a"), text.count("a")) == (MAX_BLOCKS, 1_000_000 - MAX_BLOCKS)


# Reasoning in the provider's own field


def test_reasoning_of_a_field_comes_first() -> None:
    text = "<think>b</think>c"
    assert separate(text, "a") == join(stream([ReasoningDelta("a"), *map(TextDelta, text)])) == ("a\n\nb", "c")


def test_reasoning_in_a_field_and_the_text_is_shown_once() -> None:
    words = ["I ", "think ", "hard."]
    deltas: list[Delta] = [TextDelta("<think>")]
    for word in words:
        deltas += [ReasoningDelta(word), TextDelta(word)]
    deltas += [TextDelta("</think>\n"), TextDelta("Yes.")]
    assert join(stream(deltas)) == separate("<think>I think hard.</think>\nYes.", "I think hard.")
    assert join(stream(deltas)) == ("I think hard.", "Yes.")


def test_an_empty_block_beside_a_field_is_dropped() -> None:
    assert separate("<think></think>\nYes.", "Hm.") == ("Hm.", "Yes.")


# A closing tag alone


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I look.\n</think>\n\nls -l", ("I look.", "ls -l")),
        ("I look.</think>ls", ("I look.", "ls")),
        ("</think>\nls", ("", "ls")),
        ("Use `</think>`? No.\n</think>\nls", ("Use `</think>`? No.", "ls")),
        ("```\n</think>\n```\nSo:</think>\nls", ("```\n</think>\n```\nSo:", "ls")),
        ("<think>a</think>b</think>c", ("a", "b</think>c")),
    ],
)
def test_a_closing_tag_alone_ends_reasoning_where_it_counts(text: str, expected: tuple[str, str]) -> None:
    assert separate(text, lone=True) == expected


@pytest.mark.parametrize(
    "text",
    [
        '{"tag": "a </think> b"}',
        "```html\nb </think>\n```",
        "`</think>` closes it",
        "tag = '</think>'",
        "Write <think>a</think>.",
    ],
)
def test_a_closing_tag_that_is_part_of_the_text_is_kept(text: str) -> None:
    assert separate(text, lone=True) == ("", text)


def test_closing_tags_are_found_quickly() -> None:
    start = time.thread_time()
    separate("'</think>'" * 500_000, lone=True)
    assert time.thread_time() - start < 2


def test_a_profile_can_say_that_answers_begin_with_reasoning() -> None:
    text = "I look.\n</think>\n\nHello."
    assert separate(text, is_open=True) == join(stream([*map(TextDelta, text)], is_open=True)) == ("I look.", "Hello.")
    assert separate("Hello.", is_open=True) == ("", "Hello.")
    assert stream([TextDelta("Hello.")], is_open=True)[-1] == TextDelta("Hello.")
    assert separate("<think>a</think>b", is_open=True) == ("a", "b")


def test_a_server_that_separates_reasoning_overrides_the_profile() -> None:
    assert separate("Hello.", "Hm.", is_open=True) == ("Hm.", "Hello.")
    deltas: list[Delta] = [ReasoningDelta("Hm."), TextDelta("Hello"), TextDelta(".")]
    assert stream(deltas, is_open=True) == deltas


# In any fragments


PIECES = st.sampled_from(
    [*(tag for tags in TAGS for tag in tags), "◁", "<", "/think", " ", "\n", "thought", "ö", ">", "`"]
)
TEXTS = st.lists(PIECES, max_size=10).map("".join)


@given(TEXTS, st.data(), st.booleans(), st.booleans())
def test_any_fragments_give_the_same(text: str, data: st.DataObject, complete: bool, is_open: bool) -> None:
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    fragments = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    whole = separate(text, complete=complete, is_open=is_open)
    for pieces in (fragments, text):
        forwarded = stream([*map(TextDelta, pieces)], complete=complete, is_open=is_open)
        reasoning, streamed_text = join(forwarded)
        assert streamed_text == whole[1]
        assert reasoning.startswith(whole[0])
        if streamed_text == "" or not complete:
            assert reasoning == whole[0]
    assert text.endswith(whole[1])


@given(st.lists(st.text(max_size=5), max_size=8))
def test_text_without_a_tag_at_its_start_is_neither_changed_nor_delayed(pieces: list[str]) -> None:
    text = "".join(pieces)
    if text.lstrip().startswith((*REASONING_TAGS, "</think>")):
        return
    forwarded: list[Delta] = []
    splitter = ReasoningSplitter(forwarded.append)
    seen = ""
    for piece in pieces:
        seen += piece
        splitter.feed(TextDelta(piece))
        head = seen.lstrip()
        if head and not any(tag.startswith(head) for tag in (*REASONING_TAGS, "</think>")):
            assert join(forwarded)[1] == seen
    splitter.finish(unclosed_is_text=True)
    assert join(forwarded) == ("", text)


def test_calls_are_forwarded_at_once() -> None:
    deltas: list[Delta] = [TextDelta("<think>I"), ToolCallDelta(0, "bash"), TextDelta("s"), ReasoningDelta("")]
    assert ToolCallDelta(0, "bash") in stream(deltas)


@pytest.mark.slow
def test_long_reasoning_in_single_characters_is_fast() -> None:
    deltas: list[Delta] = [*map(TextDelta, "<think>" + "a b <" * 40_000 + "</think>Yes.")]
    start = time.process_time()
    assert join(stream(deltas))[1] == "Yes."
    assert time.process_time() - start < 3
