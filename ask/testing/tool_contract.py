# ruff: noqa: S101 - the contract is checked by assertions
"""A pytest suite that checks tools, and runs them as ask does: in a process of their own."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ask import Provider, Tool, ToolError, ToolResult
from ask.config.redaction import Redactor
from ask.parsing import read_dict
from ask.testing import tool_audit
from ask.testing.base import fail
from ask.testing.conversation import KEY
from ask.testing.tool_audit import BLOCK, CHANGE, REPORT_PREFIX
from ask.tools.arguments import parse_arguments
from ask.tools.base import RunToolContext
from ask.tools.plugins.plugin_process import PluginEnvironment, PluginLoadError, ToolPlugin
from ask.tools.plugins.worker import UNEXPECTED_ERROR_PREFIX

NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""The names of tools and parameters that every provider accepts."""
LOAD_SECONDS = 30.0
MAX_STEP_SECONDS = 0.5
"""Seconds that an async function may run without awaiting."""
SLOW_STEP = re.compile(r"Executing <(?:Task|Handle).* took (\d+\.\d+) seconds")
NEVER_AWAITED = re.compile(r"coroutine '[^']*' was never awaited")
REPORT = re.compile(f"{REPORT_PREFIX}.*\n")
SECRET_VARIABLE = "CONTRACT_API_KEY"  # noqa: S105 - the name of a variable


class ToolContract:
    """Checks the specifications and sample calls of tools. Subclass it under a name that begins with `Test`.

    Attributes:
        tools: the functions and `ask.Tool`s to test. They must be importable by the names of their modules.
        calls: the arguments of calls that succeed, by tool name; at least one call for each tool.
        wrong_calls: the arguments of calls that fit the schema but must fail with a `ToolError`, by tool name.
        timeout: the time limit for one call, in seconds.
    """

    tools: ClassVar[Sequence[Callable[..., Any] | Tool]] = ()
    calls: ClassVar[Mapping[str, Sequence[Mapping[str, Any]]]] = {}
    wrong_calls: ClassVar[Mapping[str, Sequence[Mapping[str, Any]]]] = {}
    timeout: ClassVar[float] = 10.0
    output = ""

    def prepare(self, directory: Path) -> None:
        """Create in the working directory what the calls need. Override it; the default creates nothing."""

    @pytest.fixture
    def loading(self, tmp_path: Path) -> Iterator[Mapping[str, Tool] | PluginLoadError]:
        """Load the tools in their own process; yield them by name, or the reason why they cannot be loaded."""
        # In its debug mode, asyncio reports calls that block the event loop.
        variables = {**os.environ, SECRET_VARIABLE: KEY, "PYTHONASYNCIODEBUG": "1"}
        environment = PluginEnvironment(tmp_path, variables, LOAD_SECONDS)
        targets = dict.fromkeys((*map(_locate_tool, self.tools), (tool_audit.__name__, "", False)))
        with ExitStack() as stack:
            loaded: Mapping[str, Tool] | PluginLoadError
            try:
                plugin = ToolPlugin("the contract", list(targets), environment)
                stack.callback(plugin.close)
                loaded = {tool.spec.name: tool for tool in plugin.load_tools()}
            except PluginLoadError as error:
                loaded = error
            yield loaded

    @pytest.fixture
    def loaded(self, loading: Mapping[str, Tool] | PluginLoadError) -> Mapping[str, Tool]:
        if isinstance(loading, PluginLoadError) or not loading:
            pytest.skip("not run, because test_tools_load fails; correct that first")
        return loading

    def test_tools_load(self, loading: Mapping[str, Tool] | PluginLoadError) -> None:
        if not self.tools:
            fail(f"{type(self).__name__} has no tools. Set `tools` to the functions and ask.Tools to test.")
        if isinstance(loading, PluginLoadError):
            fail(f"The tools cannot be loaded: {loading}. Correct this, or ask cannot offer any of them.")

    def test_names_and_descriptions_are_present(self, loaded: Mapping[str, Tool]) -> None:
        for name, tool in loaded.items():
            assert NAME_PATTERN.fullmatch(name), (
                f"The tool's name is {name!r}. Use at most 64 letters, digits, _ and -: some providers reject others."
            )
            assert tool.spec.description.strip(), (
                f"The tool {name} has no description. Write a docstring: it tells the model what the tool is for."
            )

    def test_schema_is_valid_and_accepted_by_providers(self, loaded: Mapping[str, Tool]) -> None:
        from jsonschema import Draft202012Validator, SchemaError

        for name, tool in loaded.items():
            parameters = tool.spec.parameters
            try:
                Draft202012Validator.check_schema(parameters)
            except SchemaError as error:
                fail(f"The parameters of {name} are not valid JSON Schema: {error.message}. Correct the schema.")
            assert parameters.get("type") == "object", (
                f"The parameters of {name} have the type {parameters.get('type')!r}. Use a schema of type 'object'."
            )
            sent = Provider.normalize_tool(tool.spec, inline_references=True).parameters
            assert sent.get("properties", {}).keys() == parameters.get("properties", {}).keys(), (
                f"Providers do not accept the parameters of {name}: ask would send {sent}. Use plain names "
                "([A-Za-z0-9_-]), and no alternatives at the top level."
            )

    def test_parameters_are_described(self, loaded: Mapping[str, Tool]) -> None:
        for name, tool in loaded.items():
            properties = tool.spec.parameters.get("properties", {})
            missing = [each for each, schema in properties.items() if not schema.get("description")]
            assert not missing, (
                f"Parameters of {name} have no description: {', '.join(missing)}. Describe them under 'Args:' in the "
                "docstring, or in the schema."
            )

    def test_calls_return_text(self, loaded: Mapping[str, Tool], tmp_path: Path) -> None:
        """Sample calls succeed within the time limit, and neither print nor return secrets unredacted."""
        unknown, missing = sorted(self.calls.keys() - loaded.keys()), sorted(loaded.keys() - self.calls.keys())
        assert not missing, f"There are no calls of {', '.join(missing)}. Add arguments for each tool to `calls`."
        assert not unknown, f"`calls` names tools that do not exist: {', '.join(unknown)}. Correct the names."
        self.prepare(tmp_path)
        for tool, arguments in iterate_calls(loaded, self.calls):
            call = format_call(tool, arguments)
            try:
                result, printed = self.run(tool, arguments, tmp_path)
            except ToolError as error:
                fail(f"The call {call} failed: {error}. Correct the tool, or the arguments in `calls`.")
            assert not result.failed, f"The call {call} reported a failure: {result.text!r}. Correct the tool."
            assert KEY not in result.text + printed, f"The call {call} returned or printed a secret unredacted."

    def test_side_effects_are_declared(self, loaded: Mapping[str, Tool], tmp_path: Path) -> None:
        """Tools with has_side_effects=False, for whose calls nobody is asked, change no files in the sample calls."""
        self.prepare(tmp_path)
        for tool, arguments in self.iterate_known_calls(loaded):
            if tool.has_side_effects:
                continue
            before = _list_files(tmp_path)
            with suppress(ToolError):
                self.run(tool, arguments, tmp_path)
            changed = [*self.list_reports(CHANGE), *sorted(dict(before.items() ^ _list_files(tmp_path).items()))]
            if changed:
                fail(
                    f"The call {format_call(tool, arguments)} changed {changed[0]}, but the tool has "
                    "has_side_effects=False. Leave that out: ask then backs up files, and asks the user before calls "
                    "with --confirm."
                )

    def test_async_tools_do_not_block(self, loaded: Mapping[str, Tool], tmp_path: Path) -> None:
        """An async function awaits what takes time, and every coroutine that it creates."""
        self.prepare(tmp_path)
        for tool, arguments in self.iterate_known_calls(loaded):
            with suppress(ToolError):
                self.run(tool, arguments, tmp_path)
            call, longest = format_call(tool, arguments), max(map(float, SLOW_STEP.findall(self.output)), default=0.0)
            blocking = self.list_reports(BLOCK)
            if longest > MAX_STEP_SECONDS:
                blocking.append(f"one step took {longest:.1f} s")
            if blocking:
                fail(
                    f"The call {call} blocks in an async function ({blocking[0]}). Await asyncio.sleep, "
                    "asyncio.to_thread or an async library, or write a function without async."
                )
            if forgotten := NEVER_AWAITED.search(self.output):
                fail(f"In the call {call}, the {forgotten[0]}. Write await before the call of the async function.")

    def iterate_known_calls(self, loaded: Mapping[str, Tool]) -> Iterator[tuple[Tool, Mapping[str, Any]]]:
        """Yield the sample calls of tools that exist."""
        calls = {name: samples for name, samples in self.calls.items() if name in loaded}
        return iterate_calls(loaded, calls)

    def list_reports(self, word: str) -> list[str]:
        """Return what `tool_audit` reported during the last call, of one kind."""
        reports = (line.strip().removeprefix(REPORT_PREFIX) for line in REPORT.findall(self.output))
        return [report.removeprefix(f"{word} ") for report in reports if report.startswith(f"{word} ")]

    def test_wrong_calls_are_explained(self, loaded: Mapping[str, Tool], tmp_path: Path) -> None:
        """Calls that cannot succeed raise a `ToolError`, whose message is for the model."""
        self.prepare(tmp_path)
        for tool, arguments in iterate_calls(loaded, self.wrong_calls):
            call = format_call(tool, arguments)
            try:
                result, _ = self.run(tool, arguments, tmp_path)
            except ToolError as error:
                assert str(error).strip(), f"The call {call} raised an empty ToolError. Explain what is wrong."
                assert UNEXPECTED_ERROR_PREFIX not in str(error), (
                    f"The call {call} failed with an unexpected exception: {error}. Catch it and raise an "
                    "ask.ToolError that tells the model what is wrong."
                )
            else:
                assert result.failed, (
                    f"The call {call} returned {result.text!r}. Raise an ask.ToolError that tells the model "
                    "what is wrong."
                )

    def test_arguments_that_violate_the_schema_are_rejected(self, loaded: Mapping[str, Tool]) -> None:
        """A missing argument, and one of a wrong type, is explained to the model before the tool runs."""
        for tool in loaded.values():
            example = next(iter(self.calls.get(tool.spec.name, ())), {})
            for name in tool.spec.parameters.get("required", ()):
                self.check_rejected(tool, {key: value for key, value in example.items() if key != name}, name)
            for name, schema in tool.spec.parameters.get("properties", {}).items():
                # A single value in place of an array is accepted if it could be an element.
                schema_type = schema.get("type")
                checked_type = read_dict(schema.get("items")).get("type") if schema_type == "array" else schema_type
                if isinstance(checked_type, str):
                    self.check_rejected(tool, {**example, name: 7 if checked_type == "string" else "text"}, name)

    def check_rejected(self, tool: Tool, arguments: Mapping[str, Any], name: str) -> None:
        try:
            parse_arguments(tool.spec, json.dumps(arguments))
        except ToolError:
            return
        fail(
            f"The schema of {tool.spec.name} accepts {json.dumps(arguments)}, where {name} is missing or has the wrong "
            "type. State the type of each parameter and list the required ones."
        )

    def run(self, tool: Tool, arguments: Mapping[str, Any], directory: Path) -> tuple[ToolResult, str]:
        """Run a call in the tools' process; return its result, and what it printed.

        Raises:
            ToolError: the call failed or took too long.
        """
        printed: list[str] = []
        overflow_directory = directory / ".overflow"
        overflow_directory.mkdir(exist_ok=True)
        context = RunToolContext(
            directory, dict(os.environ), self.timeout, overflow_directory, printed.append, redactor=Redactor([KEY])
        )
        try:
            result = tool.run(parse_arguments(tool.spec, json.dumps(arguments)), context)
        finally:
            self.output = "".join(printed)
        return result, REPORT.sub("", self.output)


def _locate_tool(tool: Callable[..., Any] | Tool) -> tuple[str, str, bool]:
    """Return where the process finds a tool: its module and name, or the module that registers it."""
    if isinstance(tool, Tool):
        return tool.run.__module__, "", False
    return tool.__module__, tool.__qualname__, False


def iterate_calls(
    tools: Mapping[str, Tool], calls: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Iterator[tuple[Tool, Mapping[str, Any]]]:
    for name, samples in calls.items():
        for arguments in samples:
            yield tools[name], arguments


def format_call(tool: Tool, arguments: Mapping[str, Any]) -> str:
    return f"{tool.spec.name}({json.dumps(arguments, ensure_ascii=False)})"


def _list_files(directory: Path) -> dict[str, bytes]:
    """Return a digest of each file in a directory, by path."""
    files = (
        path for path in directory.rglob("*") if path.is_file() and not {".overflow", "__pycache__"} & set(path.parts)
    )
    return {str(path.relative_to(directory)): sha256(path.read_bytes()).digest() for path in files}
