"""Imports what a plugin names, and makes tools of it. This runs in the plugin's own process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ask.messages import ToolSpec
from ask.tools.base import Tool
from ask.tools.plugins.decorator import get_tool_options
from ask.tools.plugins.functions import as_tool
from ask.tools.plugins.type_hints import ToolDefinitionError

REGISTER_FUNCTION = "register_tools"
make_tool = cache(as_tool)
"""Two entry points may name one function."""


class ToolTarget(NamedTuple):
    """Where tools are: in a module, or a file, or what stands in it under a dotted name; "" for all of it."""

    location: str
    attribute: str = ""
    is_file: bool = False


def load_tools(targets: Iterable[ToolTarget]) -> list[Tool]:
    """The tools of a plugin, each checked.

    Raises:
        NoTool: what it names is no tool.
        Exception, SystemExit: whatever its code raises.
    """
    found = [_check_tool(tool) for target in targets for tool in _collect_tools(_resolve_target(target), target)]
    tools = list({(tool.spec.name, id(tool.run)): tool for tool in found}.values())
    names = [tool.spec.name for tool in tools]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ToolDefinitionError(f"it has two tools named {twice}")
    return tools


def format_plugin_error(error: BaseException) -> str:
    """Why something failed, on one line, with the place in the author's code where that is known."""
    if isinstance(error, ToolDefinitionError):
        return str(error)
    said = " ".join(str(error).split())
    told = f"{type(error).__name__}: {said}" if said else type(error).__name__
    place = _find_error_location(error)
    return f"{told} ({place})" if place else told


def _find_error_location(error: BaseException) -> str:
    here, trace, place = str(Path(__file__).parent), error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((here, "<")):
            place = f"{Path(file).name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return "" if isinstance(error, SyntaxError | ImportError) else place


def _resolve_target(target: ToolTarget) -> Any:
    value: Any = _import_file(Path(target.location)) if target.is_file else import_module(target.location)
    for part in filter(None, target.attribute.split(".")):
        try:
            value = getattr(value, part)
        except AttributeError:
            there = (
                ", ".join(name for name, _ in _iter_public_functions(value)) if isinstance(value, ModuleType) else ""
            )
            raise ToolDefinitionError(f"there is no {part} in it" + (f", but {there}" if there else "")) from None
    return value


@cache
def _import_file(path: Path) -> ModuleType:
    """A file's module, found by others under the file's name, as if Python ran it."""
    sys.path.insert(0, str(path.parent))
    sys.dont_write_bytecode = True
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_"
    loader = SourceFileLoader(name, str(path))
    spec = spec_from_loader(name, loader)
    assert spec, "it has a loader"  # noqa: S101
    module = module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def _collect_tools(value: Any, target: ToolTarget) -> Iterator[Tool]:
    if isinstance(value, Tool):
        yield value
    elif isinstance(value, ModuleType):
        if hasattr(value, REGISTER_FUNCTION):
            yield from _call_register_function(getattr(value, REGISTER_FUNCTION))
            return
        marked = list({id(one): one for one in vars(value).values() if get_tool_options(one)}.values())
        if not marked:
            there = [name for name, _ in _iter_public_functions(value)]
            choice = f"; name one, as {Path(target.location).name}:{there[0]}" if target.is_file and there else ""
            raise ToolDefinitionError(f"it has no function marked with @tool, and no {REGISTER_FUNCTION}{choice}")
        yield from map(make_tool, marked)
    elif getattr(value, "__name__", "") == REGISTER_FUNCTION:
        yield from _call_register_function(value)
    else:
        yield make_tool(value)


def _iter_public_functions(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The functions that a module itself has, by name."""
    for name, value in vars(module).items():
        if getattr(value, "__module__", "") == module.__name__ and hasattr(value, "__code__") and name[:1] != "_":
            yield name, value


def _call_register_function(register_function: Callable[[], Any]) -> Iterator[Tool]:
    """What `register_tools` gives: tools, or functions."""
    values = register_function()
    if not isinstance(values, Iterable) or isinstance(values, str | Mapping):
        raise ToolDefinitionError(f"{REGISTER_FUNCTION} returns {type(values).__name__}, and not a list of tools")
    for value in values:
        yield value if isinstance(value, Tool) else make_tool(value)


def _check_tool(tool: Tool) -> Tool:
    """The tool, if it can be told of.

    Raises:
        NoTool: it cannot.
    """
    spec = tool.spec
    if not isinstance(spec, ToolSpec) or not isinstance(spec.name, str) or not isinstance(spec.description, str):
        raise ToolDefinitionError(
            f"the tool {getattr(spec, 'name', spec)!r} has no ToolSpec with a name and a description"
        )
    if not isinstance(spec.parameters, Mapping) or spec.parameters.get("type", "object") != "object":
        raise ToolDefinitionError(f"{spec.name}: its parameters are no JSON Schema of type object")
    try:
        json.dumps(dict(spec.parameters), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as fault:
        raise ToolDefinitionError(f"{spec.name}: its parameters are not JSON ({fault})") from None
    if not callable(tool.run):
        raise ToolDefinitionError(f"{spec.name}: its run is no function")
    return tool
