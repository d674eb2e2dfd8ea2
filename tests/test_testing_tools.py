"""`ask.testing.ToolContract` passes correct tools, and names the mistake of each faulty one."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
import time
from pathlib import Path
from typing import ClassVar
from xml.etree import ElementTree as ET

import pytest

from ask import Tool, ToolContext, ToolError, ToolResult, ToolSpec, tool
from ask.testing import ToolContract
from tests.slow_parameters import mark_others_slow
from tests.test_testing import ROOT, run_pytest


@tool
def read_line(path: str, context: ToolContext, number: int = 1) -> str:
    """Return a line of a file.

    Args:
        path: the path of the file.
        number: the number of the line.
    """
    print("reading", path)  # noqa: T201
    os.write(1, b"\x00\xff not a frame\n")
    try:
        return (context.directory / path).read_text().splitlines()[number - 1]
    except (OSError, IndexError) as error:
        raise ToolError(f"no such line: {error}") from None


async def show_environment() -> str:
    """Return the environment variables."""
    return str(dict(os.environ))


def register_tools() -> list[Tool]:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "description": "a number"}}, "required": ["n"]}
    spec = ToolSpec("double", "Double a number.", schema)
    return [Tool(spec, lambda arguments, context: ToolResult(str(2 * arguments["n"])))]


class TestFunctions(ToolContract):
    tools = (read_line, show_environment)
    calls: ClassVar = {"read_line": [{"path": "a.txt"}, {"path": "a.txt", "number": 2}], "show_environment": [{}]}
    wrong_calls: ClassVar = {"read_line": [{"path": "missing.txt"}, {"path": "a.txt", "number": 9}]}

    def prepare(self, directory: Path) -> None:
        (directory / "a.txt").write_text("one\ntwo\n")


@tool(has_side_effects=False)
async def count_words(path: str, context: ToolContext) -> dict[str, int]:
    """Count the words of a file, with temporary files, a thread and a program.

    Args:
        path: the path of the file.
    """
    await asyncio.sleep(0.01)
    await asyncio.to_thread(time.sleep, 0.01)
    process = await asyncio.create_subprocess_exec("cat", context.directory / path, stdout=asyncio.subprocess.PIPE)
    text, _ = await process.communicate()
    with tempfile.TemporaryFile() as copy:
        copy.write(text)
    return {"words": len(text.split())}


@pytest.mark.slow
class TestReadingTools(ToolContract):
    tools = (count_words,)
    calls: ClassVar = {"count_words": [{"path": "a.txt"}]}

    def prepare(self, directory: Path) -> None:
        (directory / "a.txt").write_text("one\ntwo\n")


@pytest.mark.slow
class TestRegisteredTools(ToolContract):
    tools = tuple(register_tools())
    calls: ClassVar = {"double": [{"n": 2}]}


READER = """
import os, pathlib
import ask
@ask.tool(has_side_effects=False)
def f() -> str:
 'Do it.'
 """
FAULTY = {
    "no_hint": ("def f(a):\n 'Do it.'", {}, "test_tools_load", "no type hint"),
    "no_description": ("def f() -> str:\n return 'x'", {}, "test_names_and_descriptions_are_present", "docstring"),
    "no_parameter_description": (
        "def f(a: str) -> str:\n 'Do it.'",
        {"a": "x"},
        "test_parameters_are_described",
        "Args:",
    ),
    "raises": ("def f() -> str:\n 'Do it.'\n return [][1]", {}, "test_calls_return_text", "IndexError"),
    "blocks": ("def f() -> str:\n 'Do it.'\n import time; time.sleep(60)", {}, "test_calls_return_text", "after 1 s"),
    "exits": ("def f() -> str:\n 'Do it.'\n import os; os._exit(3)", {}, "test_calls_return_text", "exit status 3"),
    "no_tool_error": (
        "def f() -> str:\n 'Do it.'\n return {}['x']",
        None,
        "test_wrong_calls_are_explained",
        "KeyError",
    ),
    "wrong_call_accepted": ("def f() -> str:\n 'Do it.'", None, "test_wrong_calls_are_explained", "Raise"),
    "no_calls": ("def f() -> str:\n 'Do it.'", ..., "test_calls_return_text", "no calls of f"),
    "invalid_schema": (
        "import ask\nf = ask.Tool(ask.ToolSpec('f', 'Do it.', {'type': 'object', 'properties': 5}), print)",
        {},
        "test_schema_is_valid_and_accepted_by_providers",
        "valid JSON Schema",
    ),
    "bytes": ("def f() -> bytes:\n 'Do it.'\n return b'\\xff'", {}, "test_calls_return_text", "returned bytes"),
    "generator": (
        "def f() -> str:\n 'Do it.'\n yield 'x'",
        {},
        "test_calls_return_text",
        r"call f\(\{\}\) failed: the tool returned a value of type generator.*return text",
    ),
    "map": ("def f() -> object:\n 'Do it.'\n return map(str, [1])", {}, "test_calls_return_text", "of type map"),
    "async_generator": (
        "async def f() -> object:\n 'Do it.'\n yield 'x'",
        {},
        "test_calls_return_text",
        "of type async_generator",
    ),
    "object": (
        "class Weather: pass\ndef f() -> object:\n 'Do it.'\n return Weather()",
        {},
        "test_calls_return_text",
        "of type Weather, which has no text.*return text",
    ),
    "nested_object": (
        "class Weather: pass\ndef f() -> object:\n 'Do it.'\n return [{'now': Weather()}]",
        {},
        "test_calls_return_text",
        "of type Weather, which has no text",
    ),
    "sleeps_in_async": (
        "async def f() -> str:\n 'Do it.'\n import time; time.sleep(0.8); return 'x'",
        {},
        "test_async_tools_do_not_block",
        r"call f\(\{\}\) blocks.*(time\.sleep|took).*asyncio\.sleep",
    ),
    "waits_in_async": (
        "import subprocess\nasync def f() -> str:\n 'Do it.'\n subprocess.run(['sleep', '0.7']); return 'x'",
        {},
        "test_async_tools_do_not_block",
        r"call f\(\{\}\) blocks.*took 0\.\d s",
    ),
    "requests_in_async": (
        "import socket\nasync def f() -> str:\n 'Do it.'\n return str(socket.getaddrinfo('127.0.0.1', 80))",
        {},
        "test_async_tools_do_not_block",
        r"blocks.*getaddrinfo.*to_thread",
    ),
    "forgotten_await": (
        "async def g(): return 'x'\nasync def f() -> str:\n 'Do it.'\n g()\n return 'x'",
        {},
        "test_async_tools_do_not_block",
        r"coroutine 'g' was never awaited.*await",
    ),
    "undeclared_write": (
        READER + "open('n.txt', 'a').write('x')\n return 'x'",
        {},
        "test_side_effects_are_declared",
        r"call f\(\{\}\) changed .*n\.txt.*has_side_effects=False",
    ),
    "undeclared_removal": (
        READER + "os.path.exists('a.txt') and os.remove('a.txt')\n return 'x'",
        {},
        "test_side_effects_are_declared",
        r"changed .*a\.txt.*has_side_effects=False",
    ),
    "undeclared_program": (
        READER + "os.system('date >> b.txt')\n return 'x'",
        {},
        "test_side_effects_are_declared",
        r"changed b\.txt.*has_side_effects=False",
    ),
    "undeclared_write_elsewhere": (
        READER + "path = pathlib.Path('/var/tmp/contract-notes'); path.write_text('x'); path.unlink()\n return 'x'",
        {},
        "test_side_effects_are_declared",
        r"changed /var/tmp/contract-notes.*has_side_effects=False",
    ),
    "bad_name": (
        "def f(a: str) -> str:\n 'Do it.'\nf.__name__ = 'do it!'",
        {},
        "test_names_and_descriptions_are_present",
        "do it!",
    ),
}


@pytest.mark.parametrize("mistake", mark_others_slow(FAULTY))
def test_mistake_is_reported(mistake: str, tmp_path: Path) -> None:
    source, arguments, fails, says = FAULTY[mistake]
    target = "tools_module.register_tools()[0]" if "ask.Tool(" in source else "tools_module.f"
    if "ask.Tool(" in source:
        source += "\ndef run(arguments, context): ...\nf = f._replace(run=run)\ndef register_tools(): return [f]"
    (tmp_path / "tools_module.py").write_text(source)
    attribute = "wrong_calls" if arguments is None else "calls"
    calls = {} if arguments is ... else {"f": [arguments or {}]}
    lines = ["import tools_module", "from ask.testing import ToolContract", "class TestFaulty(ToolContract):"]
    lines += [" def prepare(self, directory): (directory / 'a.txt').write_text('x')"]
    lines += [f" tools = [{target}]", f" {attribute} = {calls}", f" timeout = {1 if mistake == 'blocks' else 10}"]
    (tmp_path / "test_faulty.py").write_text("\n".join(lines))
    run_pytest(tmp_path / "test_faulty.py", "-k", fails, f"--junitxml={tmp_path}/report.xml", path=[ROOT])
    cases = {case.attrib["name"]: case for case in ET.parse(tmp_path / "report.xml").iter("testcase")}
    failure = cases[fails].find("failure")
    assert failure is not None
    assert re.search(says, failure.attrib["message"])
