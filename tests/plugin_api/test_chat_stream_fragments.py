"""Property tests: an answer is the same however it is split into the chunks of a stream."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ask import ChatCompletions, RawEvent, ReasoningDelta, TextDelta, ToolCall, ToolCallDelta
from tests import wire

CHAT = ChatCompletions(name="test", base_url="http://test/v1")
TEXTS = st.text(max_size=30)
NAMES = st.text("abc_", min_size=1, max_size=5)
EMPTY_IDS: st.SearchStrategy[wire.Json] = st.sampled_from([{}, {"id": ""}, {"id": None, "type": None}])
EMPTY_NAMES: st.SearchStrategy[wire.Json] = st.sampled_from([{}, {"name": ""}, {"name": None}])


def make_call_chunk(**fields: Any) -> wire.Json:
    """Return a chunk with one tool call fragment that has these fields."""
    return wire.chunk({"tool_calls": [fields]})


@st.composite
def split_text(draw: st.DrawFn, text: str) -> list[str]:
    """Split a text into pieces, some of which may be empty."""
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=5)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@st.composite
def split_call(draw: st.DrawFn, index: int, name: str, arguments: str) -> list[wire.Json]:
    """Split a call into fragments, of which the first has the id and name."""
    first, *rest = draw(split_text(arguments))
    fragments = [
        make_call_chunk(index=index, id=f"id{index}", type="function", function={"name": name, "arguments": first})
    ]
    for piece in rest:
        function = {"arguments": piece or draw(st.sampled_from(["", None]))} | draw(EMPTY_NAMES)
        fragments.append(make_call_chunk(index=index, **draw(EMPTY_IDS), function=function))
    return fragments


@st.composite
def interleave(draw: st.DrawFn, sequences: list[list[wire.Json]]) -> list[wire.Json]:
    """Interleave sequences of chunks, keeping the order within each."""
    pending = [list(sequence) for sequence in sequences if sequence]
    chunks = []
    while pending:
        sequence = draw(st.sampled_from(pending))
        chunks.append(sequence.pop(0))
        pending = [remaining for remaining in pending if remaining]
    return chunks


@given(st.data(), TEXTS, TEXTS, st.lists(st.tuples(NAMES, TEXTS), max_size=3))
def test_answer_is_the_same_for_any_fragmentation(
    data: st.DataObject, text: str, reasoning: str, expected_calls: list[tuple[str, str]]
) -> None:
    sequences = [
        [wire.text(piece) for piece in data.draw(split_text(text))],
        [wire.reasoning(piece) for piece in data.draw(split_text(reasoning))],
    ]
    fragments = [data.draw(split_call(i, *call)) for i, call in enumerate(expected_calls)]
    first_fragments = [sequence[0] for sequence in fragments]
    sequences.append(first_fragments + data.draw(interleave([sequence[1:] for sequence in fragments])))
    chunks = [*data.draw(interleave(sequences)), wire.finish()]

    reader = CHAT.provider_stream_reader()
    deltas = [delta for chunk in chunks for delta in reader.feed(RawEvent(None, json.dumps(chunk)))]
    answer = CHAT.provider_parse_response(reader.response())
    assert (answer.text, answer.reasoning) == (text, reasoning)
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == text
    assert "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta)) == reasoning
    assert [delta for delta in deltas if isinstance(delta, ToolCallDelta)] == [
        ToolCallDelta(i, name) for i, (name, _) in enumerate(expected_calls)
    ]
    assert CHAT.provider_parse_tool_calls(reader.response()) == [
        ToolCall(f"id{i}", name, arguments) for i, (name, arguments) in enumerate(expected_calls)
    ]
