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
from ask.tools.plugins.decorator import mark_of
from ask.tools.plugins.functions import as_tool
from ask.tools.plugins.type_hints import NoTool

REGISTER = "register_tools"
made = cache(as_tool)
"""Two entry points may name one function."""


class Target(NamedTuple):
    """Where tools are: in a module, or a file, or what stands in it under a dotted name; "" for all of it."""

    place: str
    attribute: str = ""
    file: bool = False


def load(targets: Iterable[Target]) -> list[Tool]:
    """The tools of a plugin, each checked.

    Raises:
        NoTool: what it names is no tool.
        Exception, SystemExit: whatever its code raises.
    """
    found = [_checked(tool) for target in targets for tool in _tools_of(_find(target), target)]
    tools = list({(tool.spec.name, id(tool.run)): tool for tool in found}.values())
    names = [tool.spec.name for tool in tools]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise NoTool(f"it has two tools named {twice}")
    return tools


def reason(fault: BaseException) -> str:
    """Why something failed, on one line, with the place in the author's code where that is known."""
    if isinstance(fault, NoTool):
        return str(fault)
    said = " ".join(str(fault).split())
    told = f"{type(fault).__name__}: {said}" if said else type(fault).__name__
    place = _place(fault)
    return f"{told} ({place})" if place else told


def _place(fault: BaseException) -> str:
    here, trace, place = str(Path(__file__).parent), fault.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((here, "<")):
            place = f"{Path(file).name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return "" if isinstance(fault, SyntaxError | ImportError) else place


def _find(target: Target) -> Any:
    value: Any = _from_file(Path(target.place)) if target.file else import_module(target.place)
    for part in filter(None, target.attribute.split(".")):
        try:
            value = getattr(value, part)
        except AttributeError:
            there = ", ".join(name for name, _ in _functions(value)) if isinstance(value, ModuleType) else ""
            raise NoTool(f"there is no {part} in it" + (f", but {there}" if there else "")) from None
    return value


@cache
def _from_file(path: Path) -> ModuleType:
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


def _tools_of(value: Any, target: Target) -> Iterator[Tool]:
    if isinstance(value, Tool):
        yield value
    elif isinstance(value, ModuleType):
        if hasattr(value, REGISTER):
            yield from _registered(getattr(value, REGISTER))
            return
        marked = list({id(one): one for one in vars(value).values() if mark_of(one)}.values())
        if not marked:
            there = [name for name, _ in _functions(value)]
            choice = f"; name one, as {Path(target.place).name}:{there[0]}" if target.file and there else ""
            raise NoTool(f"it has no function marked with @tool, and no {REGISTER}{choice}")
        yield from map(made, marked)
    elif getattr(value, "__name__", "") == REGISTER:
        yield from _registered(value)
    else:
        yield made(value)


def _functions(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The functions that a module itself has, by name."""
    for name, value in vars(module).items():
        if getattr(value, "__module__", "") == module.__name__ and hasattr(value, "__code__") and name[:1] != "_":
            yield name, value


def _registered(register: Callable[[], Any]) -> Iterator[Tool]:
    """What `register_tools` gives: tools, or functions."""
    values = register()
    if not isinstance(values, Iterable) or isinstance(values, str | Mapping):
        raise NoTool(f"{REGISTER} returns {type(values).__name__}, and not a list of tools")
    for value in values:
        yield value if isinstance(value, Tool) else made(value)


def _checked(tool: Tool) -> Tool:
    """The tool, if it can be told of.

    Raises:
        NoTool: it cannot.
    """
    spec = tool.spec
    if not isinstance(spec, ToolSpec) or not isinstance(spec.name, str) or not isinstance(spec.description, str):
        raise NoTool(f"the tool {getattr(spec, 'name', spec)!r} has no ToolSpec with a name and a description")
    if not isinstance(spec.parameters, Mapping) or spec.parameters.get("type", "object") != "object":
        raise NoTool(f"{spec.name}: its parameters are no JSON Schema of type object")
    try:
        json.dumps(dict(spec.parameters), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as fault:
        raise NoTool(f"{spec.name}: its parameters are not JSON ({fault})") from None
    if not callable(tool.run):
        raise NoTool(f"{spec.name}: its run is no function")
    return tool
