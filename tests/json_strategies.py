"""Hypothesis strategies for JSON of any shape, to show that no response can break a parser."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests import wire


def list_keys(value: Any) -> set[str]:
    """Return every key of every object, at any depth."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return set(value if isinstance(value, dict) else ()).union(*map(list_keys, inner))


SAMPLES = [
    wire.answer("text", [("bash", {"command": "ls"})], reasoning="r", reasoning_content="r", refusal=None),
    wire.error(metadata={"provider_name": "Upstream", "raw": "{}"}, param="model", status=400),
    wire.detail(type="reasoning.text", index=0, text="t", signature="s", data="d", summary="s"),
    wire.usage(prompt_tokens_details={"cached_tokens": 1}, cost=0.5),
    wire.chunk(native_finish_reason="stop") | {"errors": [], "detail": "d", "object": "error"},
]
KNOWN_NAMES = sorted(list_keys(SAMPLES))


def any_json() -> st.SearchStrategy[Any]:
    """Generate JSON values of any shape, most often with names and values that the wire formats use."""
    numbers = st.integers() | st.floats() | st.sampled_from([10**400, -1, 0, 200, 429, 599])
    words = st.sampled_from(["", "error", "stop", "tool_calls", "reasoning.text", "{}", '{"error": {}}', "[", "\ud800"])
    leaves = st.none() | st.booleans() | numbers | words | st.text(max_size=5)
    keys = st.sampled_from(KNOWN_NAMES) | st.text(max_size=3)
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4))


@st.composite
def replace_any_part(draw: st.DrawFn, container: Any) -> Any:
    """Generate a value with one part, at any depth, replaced by any JSON value."""
    if draw(st.integers(0, 3)) == 0 or not isinstance(container, dict | list) or not container:
        return draw(any_json())
    key = draw(st.sampled_from(sorted(container) if isinstance(container, dict) else range(len(container))))
    part = draw(replace_any_part(container[key]))
    if isinstance(container, dict):
        return container | {key: part}
    return [*container[:key], part, *container[key + 1 :]]
