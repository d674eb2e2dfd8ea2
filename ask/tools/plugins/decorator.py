"""The decorator `tool`. It only marks a function; what the mark says is read in `functions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])
TOOL_ATTRIBUTE = "__ask_tool__"


class ToolOptions(NamedTuple):
    """What the decorator says of a function; "" leaves it to the function itself."""

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
    """Mark a function as a tool. It stays the function that it is, to be called and tested as ever.

    Args:
        function: a function, or `async def`, whose parameters have type hints.
        name: what the model calls it by; the function's own name by default.
        description: what the model is told of it; by default what its docstring says before it tells of parameters.
        changes: whether it runs or writes something, so that `--confirm` asks before each call of it.

    Raises:
        TypeError: it is used on what is no function.
    """

    def mark(function: F) -> F:
        if isinstance(function, type) or not callable(function):
            raise TypeError("@tool marks functions; a name is given as @tool(name=...)")
        setattr(function, TOOL_ATTRIBUTE, ToolOptions(name, description, changes))
        return function

    return mark if function is None else mark(function)


def get_tool_options(value: object) -> ToolOptions | None:
    """What the decorator said of a function; None where it is not marked."""
    mark = getattr(value, TOOL_ATTRIBUTE, None)
    return mark if isinstance(mark, ToolOptions) and callable(value) else None
