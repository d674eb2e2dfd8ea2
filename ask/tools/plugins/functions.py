"""Turn a function, marked with `@tool` or not, into a tool.

Its name, docstring and type hints become the specification.
"""

from __future__ import annotations

import atexit
import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, overload

from ask.attachments import limit_attachments
from ask.messages import Attachment, ToolSpec
from ask.records import NamedTuple
from ask.tools.base import Tool, ToolContext, ToolError, ToolResult
from ask.tools.plugins.type_hints import (
    UNION_TYPES,
    ObjectField,
    ToolDefinitionError,
    make_object_adapter,
    resolve_hints,
)

if TYPE_CHECKING:
    from asyncio import Runner

F = TypeVar("F", bound=Callable[..., Any])
TOOL_ATTRIBUTE = "__ask_tool__"
BYTES_RETURNED = "the tool returned bytes; return a file as ask.Attachment(name, media_type, data), and text as str"
ADDRESS_PATTERN = re.compile(r"<[^<>]* at 0x[0-9a-fA-F]+>")
VARIADIC_KINDS = {
    inspect.Parameter.VAR_POSITIONAL: ("*", "a list"),
    inspect.Parameter.VAR_KEYWORD: ("**", "a dict"),
}


class ToolOptions(NamedTuple):
    """The arguments of the decorator; "" means that the value comes from the function itself."""

    name: str = ""
    description: str = ""
    has_side_effects: bool = True


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(*, name: str = "", description: str = "", has_side_effects: bool = True) -> Callable[[F], F]: ...
def tool(
    function: F | None = None, /, *, name: str = "", description: str = "", has_side_effects: bool = True
) -> F | Callable[[F], F]:
    """Mark a function as a tool.

    The function itself does not change and can be called and tested as usual.

    Args:
        function: a function, or `async def`, whose parameters have type hints.
        name: the tool's name for the model; by default the function's name.
        description: the tool's description for the model; by default the docstring up to its parameters.
        has_side_effects: whether the tool has side effects, so that `--confirm` asks before each call.

    Raises:
        TypeError: it is used on something other than a function.
    """

    def mark(function: F) -> F:
        if isinstance(function, type) or not callable(function):
            raise TypeError("@tool decorates functions; set a name with @tool(name=...)")
        setattr(function, TOOL_ATTRIBUTE, ToolOptions(name, description, has_side_effects))
        return function

    return mark if function is None else mark(function)


def get_tool_options(value: object) -> ToolOptions | None:
    """Return the decorator's options; None for anything that is not marked."""
    options = getattr(value, TOOL_ATTRIBUTE, None)
    return options if isinstance(options, ToolOptions) and callable(value) else None


def create_tool(function: Callable[..., Any]) -> Tool:
    """Create a tool from a function, marked with `@tool` or not.

    Tests can check its specification, and call its `run` with arguments that match it.

    Raises:
        TypeError: the function cannot be a tool; the message names the parameter that prevents it.
    """
    if isinstance(function, type) or not callable(function):
        raise ToolDefinitionError(f"{getattr(function, '__qualname__', function)!r} is not a function")
    options = get_tool_options(function) or ToolOptions()
    name = options.name or getattr(function, "__name__", "")
    try:
        description, parameter_descriptions = _parse_docstring(function)
        fields, context_names = _read_parameters(function, parameter_descriptions)
        adapter = make_object_adapter(fields, dict)
    except ToolDefinitionError as error:
        raise ToolDefinitionError(f"{name}: {error}") from None
    parameters = inspect.signature(function).parameters.values()
    positional_names = [each.name for each in parameters if each.kind is inspect.Parameter.POSITIONAL_ONLY]

    def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        keywords = {**adapter.convert(arguments), **dict.fromkeys(context_names, context)}
        positional = [keywords.pop(each) for each in positional_names if each in keywords]
        return to_tool_result(function(*positional, **keywords))

    return Tool(ToolSpec(name, options.description or description, adapter.schema), run, options.has_side_effects)


def _parse_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the description of the function and of each parameter (Google, NumPy or Sphinx style)."""
    text = inspect.getdoc(function) or ""
    if "\n" not in text and not text.startswith(":"):
        return text, {}
    import docstring_parser

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return text, {}
    description = "\n\n".join(filter(None, (parsed.short_description, parsed.long_description)))
    parameter_descriptions = {}
    for parameter in parsed.params:
        for name in parameter.arg_name.split(","):  # NumPy's "a, b : int"
            parameter_descriptions[name.strip().lstrip("*")] = parameter.description or ""
    return description, parameter_descriptions


def _read_parameters(
    function: Callable[..., Any], descriptions: Mapping[str, str]
) -> tuple[list[ObjectField], list[str]]:
    """Return the parameters that the model fills in, and the names of those that receive the context."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        raise ToolDefinitionError("its signature cannot be read") from None
    hints = resolve_hints(function)
    fields, context_names = [], []
    for name, parameter in signature.parameters.items():
        if parameter.kind in VARIADIC_KINDS:
            stars, replacement = VARIADIC_KINDS[parameter.kind]
            raise ToolDefinitionError(f"{stars}{name} accepts any number of values; make it {replacement}", (name,))
        required = parameter.default is parameter.empty
        # Without a hint, the type of the default counts.
        hint = hints.get(name, parameter.empty if required else type(parameter.default))
        if hint is parameter.empty or (name not in hints and parameter.default is None):
            raise ToolDefinitionError(f"no type hint; add one, such as {name}: str", (name,))
        if _is_context_hint(hint):
            context_names.append(name)
        else:
            fields.append(ObjectField(name, hint, required, descriptions.get(name, ""), parameter.default))
    return fields, context_names


def _is_context_hint(hint: Any) -> bool:
    if hasattr(hint, "__metadata__"):
        return _is_context_hint(hint.__origin__)
    return hint is ToolContext or (get_origin(hint) in UNION_TYPES and ToolContext in get_args(hint))


@cache
def _get_runner() -> Runner:
    """Return the event loop for all calls.

    It is shared, because connections that a tool keeps open between calls belong to it.
    """
    from asyncio import Runner

    runner = Runner()
    atexit.register(runner.close)
    return runner


def await_result(value: Any) -> Any:
    """Return what a function has returned; a coroutine is awaited."""
    return _get_runner().run(value) if inspect.iscoroutine(value) else value


def to_items(value: Any) -> Sequence[Any]:
    """Return the items of a list or tuple; any other value, such as an attachment, is the only item."""
    return value if isinstance(value, list | tuple) and not isinstance(value, Attachment) else [value]


def to_tool_result(value: Any) -> ToolResult:
    """Convert a return value to a result.

    A coroutine is awaited, text stays unchanged, None becomes empty text, files are attached, and anything else becomes
    JSON or, if that fails, `str(value)`. In a list with files, the texts are joined.

    Raises:
        ToolError: it is or contains bytes that are not text, or has attachments of a wrong type.
    """
    value = await_result(value)
    if isinstance(value, ToolResult):
        if isinstance(value.text, bytes):
            raise ToolError(BYTES_RETURNED)
        return _check_attachments(value) if value.attachments else value
    items = to_items(value)
    if any(isinstance(item, Attachment) for item in items) and all(
        isinstance(item, Attachment | str) for item in items
    ):
        text = "\n".join(item for item in items if isinstance(item, str))
        files = tuple(item for item in items if isinstance(item, Attachment))
        return _check_attachments(ToolResult(text, attachments=files))
    if isinstance(value, bytes | bytearray | memoryview):
        raise ToolError(BYTES_RETURNED)
    if value is None or isinstance(value, str):
        return ToolResult(value or "")
    try:
        return ToolResult(json.dumps(value, ensure_ascii=False, default=_encode_json_value))
    except (TypeError, ValueError, RecursionError):
        return ToolResult(_format_object(value))


def _format_object(value: Any) -> str:
    """Return an object as text.

    Raises:
        ToolError: it has no text of its own, only its type and address, which say nothing to a model.
    """
    text = str(value)
    if ADDRESS_PATTERN.search(text):
        kind = type(value).__name__
        raise ToolError(f"the tool returned a value of type {kind}, which has no text; return text, a list or a dict")
    return text


def _check_attachments(result: ToolResult) -> ToolResult:
    """Return a result without the files that are too large to be sent to a model, or too many."""
    is_valid = isinstance(result.attachments, tuple | list) and all(
        isinstance(file, Attachment) and isinstance(file.data, bytes) for file in result.attachments
    )
    if not is_valid:
        raise ToolError("the tool returned attachments that are not of the type ask.Attachment, with bytes as data")
    attachments, notes = limit_attachments(result.attachments)
    text = "\n".join(filter(None, (str(result.text), *notes)))
    return result._replace(text=text, attachments=attachments)


def _encode_json_value(value: Any) -> Any:
    """Convert a value that JSON does not support."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, set | frozenset):
        return list(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ToolError(BYTES_RETURNED) from None
    return value.value if isinstance(value, Enum) else _format_object(value)
