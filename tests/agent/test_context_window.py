"""What part of a long conversation is sent: complete exchanges, truncated in steps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import Message, ProviderError, ProviderState, ToolCall, ToolSpec
from ask.agent.context_window import (
    MAX_RESERVED_TOKENS,
    ContextWindow,
    calculate_input_limit,
    estimate_message_tokens,
    estimate_text_tokens,
    estimate_tool_tokens,
    find_removable_ranges,
    select_kept_indexes,
    shorten_result,
)
from ask.client.error_classification import is_context_exceeded
from ask.messages import SUMMARY_PREFIX, merge_user_messages

TEXTS = st.text(max_size=60)


def user(text: str = "Why?") -> Message:
    return Message("user", text)


def rounds(count: int, size: int = 30, calls: int = 1) -> list[Message]:
    """Create rounds of tool calls, with results of this size."""
    made: list[Message] = []
    for number in range(count):
        wanted = tuple(ToolCall(f"call_{number}.{i}", "look", "{}") for i in range(calls))
        made.append(
            Message("assistant", f"Round {number}.", wanted, provider_state=ProviderState("p", "m", {"number": number}))
        )
        made += [Message("tool", "x" * size, (), call.id, call.name) for call in wanted]
    return made


def exchange(text: str, count: int = 0) -> list[Message]:
    return [user(text), *rounds(count), Message("assistant", f"As to {text}.")]


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Generate conversations of any length that end with a pending question."""
    made = [user(SUMMARY_PREFIX + draw(TEXTS))] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(0, 4))):
        made += [user(draw(TEXTS)), *rounds(draw(st.integers(0, 3)), draw(st.integers(0, 90)), draw(st.integers(1, 3)))]
        made += [Message("assistant", draw(TEXTS))] * draw(st.integers(0, 1))
    return [*made, user(draw(TEXTS)), *rounds(draw(st.integers(0, 4)), draw(st.integers(0, 90)))]


def check_pairing(messages: Sequence[Message]) -> None:
    """Check that calls and results match and follow each other."""
    open_calls: list[str] = []
    for message in messages:
        if message.role == "tool":
            assert open_calls.pop(0) == message.tool_call_id
        else:
            assert not open_calls
            open_calls = [call.id for call in message.tool_calls]
    assert not open_calls


# Truncation


@given(conversations(), st.integers(0, 600))
def test_the_newest_complete_exchanges_and_rounds_that_fit_are_kept(messages: list[Message], most: int) -> None:
    sizes = [estimate_message_tokens(message) for message in messages]
    kept = select_kept_indexes(messages, sizes, most, most * 3 // 4)
    stays = [messages[place] for place in kept]
    check_pairing(stays)
    newest = max(place for place, message in enumerate(messages) if message.role == "user")
    assert newest in kept
    behind = [place for place in kept if place > newest]
    assert behind == list(range(len(messages)))[len(messages) - len(behind) :]
    assert not messages[newest + 1 :] or behind
    before = [place for place in kept if place < newest and not messages[place].content.startswith(SUMMARY_PREFIX)]
    assert before == list(range(newest))[newest - len(before) :]
    assert not before or messages[before[0]].role == "user"
    if before:
        assert behind == list(range(newest + 1, len(messages))), "of the newest, nothing goes before all others"
    if sum(sizes) <= most:
        assert kept == list(range(len(messages)))
    elif sum(sizes[place] for place in kept) > most * 3 // 4:
        assert not list(find_removable_ranges(stays)), "only what must stay may be too long"
    assert select_kept_indexes(stays, [sizes[place] for place in kept], most, most * 3 // 4) == list(range(len(stays)))


def test_old_exchanges_are_removed_first_then_rounds_then_the_summary() -> None:
    messages = [user(SUMMARY_PREFIX + "s"), *exchange("a", 1), user("b"), *exchange("c"), user("d"), *rounds(3)]
    assert [list(piece) for piece in find_removable_ranges(messages)] == [
        [1, 2, 3, 4],
        [5],
        [6, 7],
        [9, 10],
        [11, 12],
        [0],
    ]


def test_messages_are_removed_down_to_the_target() -> None:
    messages = [message for number in range(20) for message in exchange(str(number))]
    kept = select_kept_indexes(messages, [10] * 40, 399, 300)
    assert kept == list(range(10, 40))
    assert select_kept_indexes(messages, [10] * 40, 400, 300) == list(range(40))


def test_a_single_question_is_kept_whatever_its_size() -> None:
    assert select_kept_indexes([user("x" * 9_000)], [3_000], 10, 7) == [0]
    assert select_kept_indexes([], [], 10, 7) == []


# Estimates


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("The quick brown fox jumps over the lazy dog. " * 10, 90, 150),
        ("Съешь ещё этих мягких французских булок. " * 10, 150, 280),
        ("我能吞下玻璃而不伤身体。" * 10, 90, 130),
        ("\ud800", 0, 1),
        ("", 0, 0),
    ],
)
def test_tokens_are_overestimated_in_every_script(text: str, least: int, most: int) -> None:
    assert least <= estimate_text_tokens(text) <= most


def test_tool_calls_and_definitions_are_counted() -> None:
    call = ToolCall("call_1", "write_file", "x" * 300)
    assert estimate_message_tokens(Message("assistant", "", (call,))) > 100
    assert estimate_tool_tokens([ToolSpec("look", "Looks. " * 50, {"type": "object"})]) > 100


@pytest.mark.parametrize(
    ("limit", "options", "free"),
    [
        (10_000, {}, 2_000),
        (1_000_000, {}, MAX_RESERVED_TOKENS),
        (10_000, {"max_tokens": 500}, 500),
        (10_000, {"max_completion_tokens": 99_999}, 5_000),
        (10_000, {"max_tokens": "many"}, 2_000),
    ],
)
def test_space_is_reserved_for_the_answer(limit: int, options: dict[str, object], free: int) -> None:
    assert calculate_input_limit(limit, options) == limit - free


# ContextWindow


def test_between_two_truncations_each_request_begins_with_the_previous_one() -> None:
    messages = [user("begin")]
    window = ContextWindow(100)
    views: list[list[Message]] = []
    for one in range(200):
        messages += rounds(1, 300)
        window.shrink(messages, 2_000)
        assert window.estimate_size(messages) <= 2_000, one
        views.append(window.select_messages(messages))
        check_pairing(views[-1])
        assert views[-1][0] == messages[0]
    cuts = sum(later[: len(earlier)] != earlier for earlier, later in pairwise(views))
    assert 20 < cuts < 60


def test_reported_usage_corrects_the_estimate() -> None:
    messages = [user("a" * 3_000)]
    window = ContextWindow(0)
    plain = window.estimate_size(messages)
    window.calibrate(messages, plain // 2)
    assert window.estimate_size(messages) == pytest.approx(plain // 2, abs=2)
    longer = [*messages, user("b" * 3_000)]
    assert window.estimate_size(longer) == pytest.approx(plain // 2 + plain, abs=2), "what came since is estimated high"
    window.calibrate(longer, plain * 4)
    assert window.estimate_size([*longer, user("c" * 3_000)]) == pytest.approx(plain * 6, rel=0.01), "as its like was"


@pytest.mark.parametrize("tokens", [None, 0, 1, 200, 5_000, 10**9])
def test_implausible_usage_is_ignored(tokens: int | None) -> None:
    messages = [user("a" * 3_000)]
    window = ContextWindow(0)
    window.calibrate(messages, tokens)
    assert window.estimate_size(messages) == ContextWindow(0).estimate_size(messages)


def test_usage_reported_after_truncation_applies_to_the_sent_part() -> None:
    messages = [message for number in range(10) for message in exchange(str(number) * 300)]
    window = ContextWindow(0)
    whole = window.estimate_size(messages)
    window.shrink(messages, whole // 2)
    part = window.estimate_size(messages)
    window.calibrate(messages, part)
    assert window.estimate_size(messages) == part


def test_halving_removes_about_half_and_lowers_the_limit() -> None:
    messages = [message for number in range(10) for message in exchange(str(number) * 300)]
    window = ContextWindow(0)
    whole = window.estimate_size(messages)
    assert window.halve(messages) == 10
    assert window.estimate_size(messages) <= whole // 2
    while not window.shrink(messages, 10**9):
        messages += exchange("x" * 300)
        assert window.estimate_size(messages) < whole
    assert ContextWindow(0).halve([user()]) == 0


def test_native_parts_are_marked_if_earlier_messages_were_removed() -> None:
    messages = [user("begin"), *rounds(4)]
    window = ContextWindow(0)
    assert not any(m.provider_state.context_truncated for m in window.select_messages(messages) if m.provider_state)
    window.halve(messages)
    messages += rounds(1)
    marks = [m.provider_state.context_truncated for m in window.select_messages(messages) if m.provider_state]
    assert marks == [True] * (len(marks) - 1) + [False]
    assert not any(m.provider_state.context_truncated for m in messages if m.provider_state), (
        "the conversation itself stays as it is"
    )


def test_consecutive_user_messages_are_merged() -> None:
    told = [user("a"), user("b"), Message("assistant", "c"), user("d")]
    assert merge_user_messages(told) == [user("a\n\nb"), told[2], told[3]]
    assert merge_user_messages([user(""), user("a"), user("")]) == [user("a")], "an empty text adds no blank lines"
    assert merge_user_messages([]) == []


# Context length errors


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "prompt is too long: 209353 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
        "The input token count (218152) exceeds the maximum number of tokens allowed (65536).",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Invalid request: Your request exceeded model token limit: 262144",
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 132463 tokens",
        "request (12345 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "Context size has been exceeded.",
        "The number of tokens to keep from the initial prompt is greater than the context length",
        "However, the model is loaded with context length of only 4096 tokens, which is not enough.",
        "the input length exceeds the context length",
        "Input is too long for requested model.",
        "Please reduce the length of the messages or completion.",
    ],
)
def test_errors_about_length_are_recognized_for_every_service(words: str) -> None:
    assert is_context_exceeded(ProviderError(words, 400))
    assert is_context_exceeded(ProviderError(words))
    assert not is_context_exceeded(ProviderError(words, 429))


@pytest.mark.parametrize(
    "words", ["temperature is out of range", "there is no such model", "max_tokens must be at most 8192", "no context"]
)
def test_other_errors_are_not_about_length(words: str) -> None:
    assert not is_context_exceeded(ProviderError(words, 400))


@given(st.text("aé日😀\n", min_size=1), st.integers(1, 300), st.integers(1, 2_000))
def test_a_shortened_result_is_shorter(text: str, repetitions: int, limit: int) -> None:
    result = text * repetitions
    shortened = shorten_result(Message("tool", result), limit).content
    assert shortened == result or len(shortened.encode()) < len(result.encode())
    assert "\ufffd" not in shortened


def test_a_short_result_of_many_reported_tokens_is_not_extended() -> None:
    call = ToolCall("call_1", "bash", "{}")
    messages = [user(), Message("assistant", "", (call,)), Message("tool", "a" * 400, tool_call_id="call_1")]
    window = ContextWindow(0)
    window.calibrate(messages, window.estimate_size(messages) * 4)
    window.shrink(messages, 10)
    assert (window.select_messages(messages)[-1].content, window.shortened_count) == ("a" * 400, 0)
