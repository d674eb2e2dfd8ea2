"""Import the plugin's modules and collect their tools. This runs in the plugin's own process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from ask.messages import ToolSpec
from ask.plugin_api.compatibility import Reason, explain_load_error, explain_missing_name, explain_version
from ask.records import NamedTuple
from ask.tools.base import Tool
from ask.tools.plugins.content_loaders import create_loader_tool
from ask.tools.plugins.functions import create_tool, get_tool_options
from ask.tools.plugins.type_hints import ToolDefinitionError

REGISTER_FUNCTION = "register_tools"
make_tool = cache(create_tool)
"""Cached, because two entry points may name the same function."""


class ToolTarget(NamedTuple):
    """Where to find tools: a module or file, and a dotted name inside it ("" for the entire module).

    With `is_loader`, it is the function of a loader. `distribution` is the package whose entry point it is, if any.
    """

    location: str
    attribute: str = ""
    is_file: bool = False
    is_loader: bool = False
    distribution: str = ""


class ExplainedError(ToolDefinitionError):
    """An error whose text says what to do."""

    def __init__(self, reason: Reason) -> None:
        super().__init__("; ".join(filter(None, reason)))


def load_tools(targets: Iterable[ToolTarget]) -> tuple[list[Tool], list[ToolDefinitionError]]:
    """Load and check the tools of a plugin. Return them, and what is wrong with each that is invalid.

    Raises:
        ToolDefinitionError: no target is a valid tool.
        Exception, SystemExit: anything that the plugin's code raises.
    """
    all_tools, problems = [], []
    for target in targets:
        for value in _collect_values(_resolve_target(target), target):
            try:
                all_tools.append(_check_tool(_make_tool(value, target)))
            except ToolDefinitionError as error:
                problems.append(error)
    if problems and not all_tools:
        raise problems[0]
    # Two targets may lead to the same tool.
    tools = list({(tool.spec.name, id(tool.run)): tool for tool in all_tools}.values())
    names = [tool.spec.name for tool in tools]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise ToolDefinitionError(f"it has two tools named {duplicate}")
    return tools, problems


def format_plugin_error(error: BaseException) -> str:
    """Describe an error on one line, with its location in the plugin's code if known."""
    if isinstance(error, ToolDefinitionError):
        return str(error)
    if reason := explain_missing_name(error):
        return reason
    try:
        message = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - the plugin's own exception may have any method
        message = ""
    description = f"{type(error).__name__}: {message}" if message else type(error).__name__
    location = _find_error_location(error)
    return f"{description} ({location})" if location else description


def _find_error_location(error: BaseException) -> str:
    own_folder = str(Path(__file__).parent)
    frames = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith((own_folder, "<"))]
    if not frames or isinstance(error, SyntaxError | ImportError):
        return ""
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}"


def _resolve_target(target: ToolTarget) -> Any:
    name = Path(target.location).stem if target.is_file else target.location
    try:
        value: Any = _import_file(Path(target.location)) if target.is_file else import_module(name)
    except Exception as error:
        raise ExplainedError(explain_load_error(error, (name, target.attribute), target.distribution)) from error
    module = value
    for attribute in filter(None, target.attribute.split(".")):
        try:
            value = getattr(value, attribute)
        except AttributeError:
            names = ", ".join(_list_public_functions(value))
            raise ToolDefinitionError(f"it has no {attribute}{names and f', but {names}'}") from None
    if mismatch := explain_version(value, module, target.distribution):
        raise ExplainedError(mismatch)
    return value


@cache
def _import_file(path: Path) -> ModuleType:
    """Import a file as a top-level module under its own name, with its folder on `sys.path`."""
    sys.path.insert(0, str(path.parent))
    sys.dont_write_bytecode = True  # no __pycache__ next to the user's file
    # A file may have the name of a module that is needed, such as json.py.
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_"
    loader = SourceFileLoader(name, str(path))
    spec = spec_from_loader(name, loader)
    assert spec, "it has a loader"  # noqa: S101
    module = sys.modules[name] = module_from_spec(spec)
    loader.exec_module(module)
    return module


def _make_tool(value: Any, target: ToolTarget) -> Tool:
    if target.is_loader:
        return create_loader_tool(value)
    if isinstance(value, Tool):
        return value
    make = make_tool if callable(value) else create_tool  # which says what is wrong; a ToolSpec cannot be cached
    return make(value)


def _collect_values(value: Any, target: ToolTarget) -> Iterator[Any]:
    """Yield the tools and functions that a target means."""
    if target.is_loader or isinstance(value, Tool):
        yield value
    elif isinstance(value, ModuleType):
        if hasattr(value, REGISTER_FUNCTION):
            yield from _call_register_function(getattr(value, REGISTER_FUNCTION))
            return
        marked = list(dict.fromkeys(filter(get_tool_options, vars(value).values())))
        if not marked:
            available = _list_public_functions(value)
            hint = (
                f"; pass one, as in {Path(target.location).name}:{available[0]}" if target.is_file and available else ""
            )
            raise ToolDefinitionError(f"it has no function decorated with @tool, and no {REGISTER_FUNCTION}{hint}")
        yield from marked
    elif getattr(value, "__name__", "") == REGISTER_FUNCTION:
        yield from _call_register_function(value)
    else:
        yield value


def _list_public_functions(value: Any) -> list[str]:
    """Return the names of the public functions that a module defines itself; [] for anything but a module."""
    return [
        name
        for name, member in (vars(value).items() if isinstance(value, ModuleType) else ())
        if getattr(member, "__module__", "") == value.__name__ and hasattr(member, "__code__") and name[:1] != "_"
    ]


def _call_register_function(register_function: Callable[[], Any]) -> Iterable[Any]:
    """Return what `register_tools` returns: tools and functions."""
    values = register_function()
    if not isinstance(values, Iterable) or isinstance(values, str | Mapping):
        raise ToolDefinitionError(f"{REGISTER_FUNCTION} returns {type(values).__name__}, not a list of tools")
    return values


def _check_tool(tool: Tool) -> Tool:
    """Return the tool if it is valid.

    Raises:
        ToolDefinitionError: it is invalid.
    """
    spec = tool.spec
    if not isinstance(spec, ToolSpec) or not isinstance(spec.name, str) or not isinstance(spec.description, str):
        name = getattr(spec, "name", spec)
        raise ToolDefinitionError(f"the tool {name!r} has no ToolSpec with a name and a description")
    if not isinstance(spec.parameters, Mapping) or spec.parameters.get("type", "object") != "object":
        raise ToolDefinitionError(f"{spec.name}: its parameters must be a JSON Schema of type object")
    try:
        json.dumps(dict(spec.parameters), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolDefinitionError(f"{spec.name}: its parameters are not JSON ({error})") from None
    if not callable(tool.run):
        raise ToolDefinitionError(f"{spec.name}: its run is not a function")
    return tool
