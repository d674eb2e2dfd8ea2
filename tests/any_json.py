"""JSON of any shape at all, for the claim that no answer whatever can break its reader."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests import wire


def names_in(value: Any) -> set[str]:
    """Every key of an object, at any depth."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return set(value if isinstance(value, dict) else ()).union(*map(names_in, inner))


SAMPLES = [
    wire.answer("text", [("bash", {"command": "ls"})], reasoning="r", reasoning_content="r", refusal=None),
    wire.error(metadata={"provider_name": "Upstream", "raw": "{}"}, param="model", status=400),
    wire.detail(type="reasoning.text", index=0, text="t", signature="s", data="d", summary="s"),
    wire.usage(prompt_tokens_details={"cached_tokens": 1}, cost=0.5),
    wire.chunk(native_finish_reason="stop") | {"errors": [], "detail": "d", "object": "error"},
]
KNOWN_NAMES = sorted(names_in(SAMPLES))


def any_json() -> st.SearchStrategy[Any]:
    """JSON values of any shape, most often with the names and some of the values that the wire knows."""
    numbers = st.integers() | st.floats() | st.sampled_from([10**400, -1, 0, 200, 429, 599])
    words = st.sampled_from(["", "error", "stop", "tool_calls", "reasoning.text", "{}", '{"error": {}}', "[", "\ud800"])
    leaves = st.none() | st.booleans() | numbers | words | st.text(max_size=5)
    keys = st.sampled_from(KNOWN_NAMES) | st.text(max_size=3)
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4))


@st.composite
def with_any_part(draw: st.DrawFn, whole: Any) -> Any:
    """A value with one part of it, at any depth, replaced by any JSON value at all."""
    if draw(st.integers(0, 3)) == 0 or not isinstance(whole, dict | list) or not whole:
        return draw(any_json())
    key = draw(st.sampled_from(sorted(whole) if isinstance(whole, dict) else range(len(whole))))
    part = draw(with_any_part(whole[key]))
    if isinstance(whole, dict):
        return whole | {key: part}
    return [*whole[:key], part, *whole[key + 1 :]]
