"""Makes a tool of a function: its name, its docstring and its type hints say what the model needs to know."""

from __future__ import annotations

import atexit
import dataclasses
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, get_args, get_origin

from ask.messages import ToolSpec
from ask.tools.base import Tool, ToolContext, ToolResult
from ask.tools.plugins.decorator import ToolOptions, get_tool_options
from ask.tools.plugins.type_hints import (
    NO_DEFAULT,
    UNION_TYPES,
    ObjectField,
    ToolDefinitionError,
    make_object_adapter,
    resolve_hints,
)

if TYPE_CHECKING:
    from asyncio import Runner

VARIADIC_KINDS = {
    inspect.Parameter.VAR_POSITIONAL: ("*", "a list"),
    inspect.Parameter.VAR_KEYWORD: ("**", "a dict"),
}


def as_tool(function: Callable[..., Any]) -> Tool:
    """The tool that a function makes, marked with `@tool` or not.

    Its specification can be tested, and its `run` called with arguments that fit it.

    Raises:
        TypeError: it cannot be one; says which parameter is in the way.
    """
    if isinstance(function, type) or not callable(function):
        raise ToolDefinitionError(f"{getattr(function, '__qualname__', function)!r} is no function")
    mark = get_tool_options(function) or ToolOptions()
    name = mark.name or getattr(function, "__name__", "")
    try:
        told, described = _parse_docstring(function)
        fields, contexts = _read_parameters(function, described)
        shape = make_object_adapter(fields, dict)
    except ToolDefinitionError as fault:
        raise ToolDefinitionError(f"{name}: {fault}") from None
    positional = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY
    ]

    def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        named = {**shape.convert(arguments), **dict.fromkeys(contexts, context)}
        given = [named.pop(one) for one in positional if one in named]
        value = function(*given, **named)
        return to_tool_result(_run_awaitable(value) if inspect.isawaitable(value) else value)

    return Tool(ToolSpec(name, mark.description or told, shape.schema), run, mark.changes)


def _parse_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """What it says of the function, and of each parameter; in the style of Google, NumPy, or Sphinx."""
    text = inspect.getdoc(function) or ""
    if "\n" not in text and not text.startswith(":"):
        return text, {}
    import docstring_parser

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return text, {}
    told = "\n\n".join(filter(None, (parsed.short_description, parsed.long_description)))
    described = {}
    for part in parsed.params:
        for name in part.arg_name.split(","):  # NumPy's "a, b : int"
            described[name.strip().lstrip("*")] = part.description or ""
    return told, described


def _read_parameters(
    function: Callable[..., Any], descriptions: Mapping[str, str]
) -> tuple[list[ObjectField], list[str]]:
    """The parameters that the model fills in, and the names of those that take the context."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        raise ToolDefinitionError("it does not tell its parameters") from None
    hints = resolve_hints(function)
    fields, contexts = [], []
    for name, parameter in signature.parameters.items():
        if parameter.kind in VARIADIC_KINDS:
            stars, instead = VARIADIC_KINDS[parameter.kind]
            raise ToolDefinitionError(f"{stars}{name} stands for any number of values; make it {instead}", (name,))
        required = parameter.default is parameter.empty
        hint = hints.get(name, parameter.empty if required else type(parameter.default))
        if hint is parameter.empty or (name not in hints and parameter.default is None):
            raise ToolDefinitionError("no type hint", (name,))
        if _is_context_hint(hint):
            contexts.append(name)
        else:
            default = NO_DEFAULT if required else parameter.default
            fields.append(ObjectField(name, hint, required, descriptions.get(name, ""), default))
    return fields, contexts


def _is_context_hint(hint: Any) -> bool:
    if hasattr(hint, "__metadata__"):
        return _is_context_hint(hint.__origin__)
    return hint is ToolContext or (get_origin(hint) in UNION_TYPES and ToolContext in get_args(hint))


def _run_awaitable(awaitable: Awaitable[Any]) -> Any:
    async def wait_for_value() -> Any:
        return await awaitable

    return _get_runner().run(wait_for_value())


@cache
def _get_runner() -> Runner:
    """One event loop for all calls: what a tool keeps open between two of them belongs to it."""
    from asyncio import Runner

    runner = Runner()
    atexit.register(runner.close)
    return runner


def to_tool_result(value: Any) -> ToolResult:
    """What a function returned, as the model gets it: text as it is, nothing for None, all else as JSON."""
    if isinstance(value, ToolResult):
        return value
    if value is None or isinstance(value, str):
        return ToolResult(value or "")
    try:
        return ToolResult(json.dumps(value, ensure_ascii=False, default=_encode_json_value))
    except (TypeError, ValueError, RecursionError):
        return ToolResult(str(value))


def _encode_json_value(value: Any) -> Any:
    """A value that JSON has not, in its terms."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, set | frozenset):
        return list(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value.value if isinstance(value, Enum) else str(value)
