"""Who may import whom. A room imports from the rooms before it in the list, function-level imports included."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

import ask

ROOT = Path(__file__).parents[1]
ROOMS = [
    *("version", "text", "suggestions", "differences", "json_values", "installation"),
    *("messages", "redaction", "errors"),
    *("state_files", "attachments"),
    *("context", "tool_schemas", "provider", "hookspecs", "chat_stream", "strict_schema", "chat_completions"),
    *("framing", "chunks", "events"),
    *("server_tables", "config", "keys", "prompts", "templates", "schemas"),
    *("certificates", "gzip_stream", "dialing", "http_adapter", "network_errors", "transport"),
    *("import_guard", "plugins", "refusals", "redacted_exchange", "exchange", "models_cache", "history", "completion"),
    *("tools", "mcp", "originals", "safety", "tool_plugins", "calls"),
    "agent",
    *("render", "cli", "profile", "__main__"),
]
PACKAGES = {
    "click": {"cli", "__main__"},
    "referencing": {"schemas", "tool_schemas"},
    "jsonschema_specifications": {"schemas", "tool_schemas"},
    "requests": {"http_adapter", "network_errors", "transport", "tools"},
    "urllib3": {"http_adapter", "transport", "tools"},
    "idna": {"tools"},
    "bs4": {"tools"},
    "ddgs": {"tools"},
    "markdownify": {"tools"},
    "pluggy": {"hookspecs", "plugins"},
    "docstring_parser": {"tool_plugins"},
    "jsonschema": {"schemas"},
    "markdown_it": {"render"},
    "pygments": {"render"},
    "rich": {"render"},
    "platformdirs": {"config"},
    "pathspec": {"cli"},
    "tomli_w": {"keys", "cli"},
    "tomlkit": {"cli"},
    **{package: {"mcp"} for package in ("mcp", "mcp_types", "anyio", "httpx2", "pydantic")},
    "ask_completions": {"cli"},
    "prompt_toolkit": {"cli"},
    "ask_prompts": {"prompts"},
    "ask_shell": {"cli"},
}
"""What is not in the standard library, and the only rooms that import it."""
TERMINAL = {"curses", "getpass", "pty", "readline", "termios", "tty"}
AT_THE_TERMINAL = {"safety", "render", "cli"}
OUTSIDE: dict[str, set[str]] = {
    "ask/testing": {"ask.testing", "pytest"},
    "providers": set(),
    "examples": {"ask.testing", "ask_provider_example", "ask_tools_example", "pytest"},
    "providers/demo.py": {"requests", "urllib3"},
}
"""What the parts that stand outside import beside the door, the standard library and their siblings.

The last that fits counts.
"""
FILE_LINES, FUNCTION_LINES = 400, 50


def files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(path: Path, *, for_types: bool = True) -> Iterator[tuple[str, str]]:
    """Each module that a file imports, with the name taken from it; "" for the module itself."""
    unwanted: set[ast.AST] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not for_types:
            unwanted.update(chain.from_iterable(map(ast.walk, node.body)))
        if node in unwanted:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (("." * node.level + (node.module or ""), alias.name) for alias in node.names)


INSIDE = [path for path in files("ask") if "testing" not in path.parts and path != ROOT / "ask/__init__.py"]


@pytest.mark.parametrize("path", INSIDE, ids=named)
def test_a_room_imports_only_from_the_rooms_before_it(path: Path) -> None:
    room = path.relative_to(ROOT / "ask").parts[0].removesuffix(".py")
    assert room in ROOMS, f"{room} is a new room: give it its place in ROOMS"
    known = ROOMS[: ROOMS.index(room)] + ([room] if path.parent != ROOT / "ask" else [])
    for module, name in imports(path):
        assert not module.startswith("."), f"{module}: imports are absolute"
        assert (module, name) != ("ask", ""), "the door is for outsiders"
        if module.split(".")[0] == "ask":
            target = name if module == "ask" else module.split(".")[1]
            assert target in known, f"{room} must not import {target}"


@pytest.mark.parametrize("path", INSIDE, ids=named)
def test_a_package_or_the_terminal_is_used_only_where_it_belongs(path: Path) -> None:
    room = path.relative_to(ROOT / "ask").parts[0].removesuffix(".py")
    for module, _ in imports(path, for_types=False):
        package = module.split(".")[0]
        if package in TERMINAL:
            assert room in AT_THE_TERMINAL, f"{room} must not know the terminal"
        elif package != "ask" and package not in sys.stdlib_module_names:
            assert room in PACKAGES.get(package, ()), f"{room} must not import {package}"


@pytest.mark.parametrize("path", files("ask/testing", "providers", "examples"), ids=named)
def test_what_stands_outside_comes_in_by_the_door(path: Path) -> None:
    part = [part for part in OUTSIDE if path.is_relative_to(ROOT / part)][-1]
    known = sys.stdlib_module_names | OUTSIDE[part]
    for module, name in imports(path):
        if module == "ask":
            assert name in ask.__all__, f"{name!r} is not public"
        elif not module.startswith("."):
            assert any(module == one or module.startswith(f"{one}.") for one in known), f"it must not import {module}"


@pytest.mark.parametrize("path", files("ask", "providers", "examples"), ids=named)
def test_files_and_functions_are_short(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= FILE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1  # decorators stand above
            assert lines <= FUNCTION_LINES, f"{node.name} has {lines} lines"
