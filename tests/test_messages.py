"""The provider-independent messages."""

from __future__ import annotations

import pytest

from ask import FinishReason, Message, ToolCall, ToolSpec, Usage


def test_tools_are_serialized_as_functions() -> None:
    schema = {"type": "object", "properties": {}}
    assert ToolSpec("bash", "Run a command", schema).to_function() == {
        "type": "function",
        "function": {"name": "bash", "description": "Run a command", "parameters": schema},
    }


def test_messages_are_immutable() -> None:
    with pytest.raises(AttributeError):
        Message("user", "a").content = "b"  # type: ignore[misc]
    assert Message("assistant", tool_calls=(ToolCall("a", "b", "{}"),)) == Message(
        "assistant", tool_calls=(ToolCall("a", "b", "{}"),)
    )


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (Usage(1, 2, 3, 4, 0.5), Usage(10, 20, 30, 40, 0.25), Usage(11, 22, 33, 44, 0.75)),
        (Usage(1), Usage(None, 2), Usage(1, 2)),
        (Usage(0, 0, 0, 0, 0.0), Usage(), Usage(0, 0, 0, 0, 0.0)),
        (Usage(), Usage(), Usage()),
    ],
)
def test_usage_is_summed_and_unreported_fields_stay_none(one: Usage, other: Usage, both: Usage) -> None:
    assert one + other == both
    assert other + one == both


def test_finish_reasons_are_formatted_as_their_value() -> None:
    assert f"{FinishReason.TOOL_CALLS}" == "tool_calls"
