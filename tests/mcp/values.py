"""JSON of any shape, with the names and some of the values that servers' tables have."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ask.mcp_settings import SERVER_KEYS

WORDS = ("stdio", "http", "sse", "https://x/", "*", "$HOME", "x\0")


def json_values() -> st.SearchStrategy[Any]:
    """Values as json.loads gives them."""
    keys = st.sampled_from([*SERVER_KEYS, "disabled", "serverUrl", "properties", "type"]) | st.text(max_size=5)
    single = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(max_size=5)
    return st.recursive(
        single, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5), max_leaves=10
    )
