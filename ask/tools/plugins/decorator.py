"""The decorator `tool`. It only marks a function; `functions` turns it into a tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])
TOOL_ATTRIBUTE = "__ask_tool__"


class ToolOptions(NamedTuple):
    """The arguments of the decorator; "" means that the value comes from the function itself."""

    name: str = ""
    description: str = ""
    changes: bool = True


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(*, name: str = "", description: str = "", changes: bool = True) -> Callable[[F], F]: ...
def tool(
    function: F | None = None, /, *, name: str = "", description: str = "", changes: bool = True
) -> F | Callable[[F], F]:
    """Mark a function as a tool.

    The function itself does not change and can be called and tested as usual.

    Args:
        function: A function, or `async def`, whose parameters have type hints.
        name: The tool's name for the model; by default the function's name.
        description: The tool's description for the model; by default the docstring up to its parameters.
        changes: Whether the tool has side effects, so that `--confirm` asks before each call.

    Raises:
        TypeError: It is used on something other than a function.
    """

    def mark(function: F) -> F:
        if isinstance(function, type) or not callable(function):
            raise TypeError("@tool marks functions; a name is given as @tool(name=...)")
        setattr(function, TOOL_ATTRIBUTE, ToolOptions(name, description, changes))
        return function

    return mark if function is None else mark(function)


def get_tool_options(value: object) -> ToolOptions | None:
    """Return the decorator's options; None for anything that is not marked."""
    options = getattr(value, TOOL_ATTRIBUTE, None)
    return options if isinstance(options, ToolOptions) and callable(value) else None
