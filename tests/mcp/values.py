"""A Hypothesis strategy for arbitrary JSON with the keys of server tables."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ask.config.mcp_servers import SERVER_KEYS

WORDS = ("stdio", "http", "sse", "https://x/", "*", "$HOME", "x\0")


def json_values() -> st.SearchStrategy[Any]:
    """Generate values that json.loads can return."""
    keys = st.sampled_from([*SERVER_KEYS, "disabled", "serverUrl", "properties", "type"]) | st.text(max_size=5)
    single = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(max_size=5)
    return st.recursive(
        single, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5), max_leaves=10
    )
