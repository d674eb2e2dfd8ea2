"""An answer that is split in any way whatever into the chunks of a stream is the same answer."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ask import CallDelta, ChatCompletions, ReasoningDelta, ServerEvent, TextDelta, ToolCall
from tests import wire

CHAT = ChatCompletions(name="test", base_url="http://test/v1")
TEXTS = st.text(max_size=30)
NAMES = st.text("abc_", min_size=1, max_size=5)
NOTHING_NEW: st.SearchStrategy[wire.Json] = st.sampled_from([{}, {"id": ""}, {"id": None, "type": None}])
NO_NAME: st.SearchStrategy[wire.Json] = st.sampled_from([{}, {"name": ""}, {"name": None}])


def call_chunk(**fields: Any) -> wire.Json:
    """A chunk with a call's fragment just as given."""
    return wire.chunk({"tool_calls": [fields]})


@st.composite
def pieces(draw: st.DrawFn, text: str) -> list[str]:
    """A text in pieces, some of them empty."""
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=5)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@st.composite
def call_fragments(draw: st.DrawFn, index: int, name: str, arguments: str) -> list[wire.Json]:
    """One call in fragments, the first with its id and name."""
    first, *rest = draw(pieces(arguments))
    fragments = [call_chunk(index=index, id=f"id{index}", type="function", function={"name": name, "arguments": first})]
    for piece in rest:
        function = {"arguments": piece or draw(st.sampled_from(["", None]))} | draw(NO_NAME)
        fragments.append(call_chunk(index=index, **draw(NOTHING_NEW), function=function))
    return fragments


@st.composite
def mixed(draw: st.DrawFn, strands: list[list[wire.Json]]) -> list[wire.Json]:
    """The strands' chunks in one list, each strand in its own order."""
    waiting = [list(strand) for strand in strands if strand]
    chunks = []
    while waiting:
        strand = draw(st.sampled_from(waiting))
        chunks.append(strand.pop(0))
        waiting = [left for left in waiting if left]
    return chunks


@given(st.data(), TEXTS, TEXTS, st.lists(st.tuples(NAMES, TEXTS), max_size=3))
def test_an_answer_in_any_fragments_is_the_answer(
    data: st.DataObject, text: str, reasoning: str, wanted: list[tuple[str, str]]
) -> None:
    strands = [
        [wire.text(piece) for piece in data.draw(pieces(text))],
        [wire.reasoning(piece) for piece in data.draw(pieces(reasoning))],
    ]
    fragments = [data.draw(call_fragments(i, *call)) for i, call in enumerate(wanted)]
    opening = [strand[0] for strand in fragments]
    strands.append(opening + data.draw(mixed([strand[1:] for strand in fragments])))
    chunks = [*data.draw(mixed(strands)), wire.finish()]

    reader = CHAT.provider_stream_reader()
    deltas = [delta for chunk in chunks for delta in reader.feed(ServerEvent(None, json.dumps(chunk)))]
    answer = CHAT.provider_parse_response(reader.response())
    assert (answer.text, answer.reasoning) == (text, reasoning)
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == text
    assert "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta)) == reasoning
    assert [delta for delta in deltas if isinstance(delta, CallDelta)] == [
        CallDelta(i, name) for i, (name, _) in enumerate(wanted)
    ]
    assert CHAT.provider_parse_tool_calls(reader.response()) == [
        ToolCall(f"id{i}", name, arguments) for i, (name, arguments) in enumerate(wanted)
    ]
