"""What each command imports and opens: unused code must not slow down the start."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from ask.safety.sandbox_init import build_python_command
from tests.program import Home, run

ROOT = Path(__file__).parents[1]
PROBE = """
import atexit, os, runpy, sys

touched, writing = [], []

def watch(event, arguments):
    if event == "open":
        touched.append(str(arguments[0]))
        if isinstance(arguments[1], str) and set(arguments[1]) & set("wax+") or (arguments[2] or 0) & os.O_ACCMODE:
            writing.append(str(arguments[0]))
    elif event in ("os.mkdir", "os.rename", "os.remove", "socket.connect", "subprocess.Popen"):
        writing.append(event)

def tell():
    modules = list(sys.modules)
    import json

    seen = {"modules": modules, "touched": list(touched), "writing": list(writing)}
    with open(report, "w") as file:
        json.dump(seen, file)

report = sys.argv.pop(1)
script = sys.argv.pop(1)
atexit.register(tell)
sys.addaudithook(watch)
exec(script)
"""
RUN_ASK = "runpy.run_module('ask', run_name='__main__')"
HEAVY = {
    "requests",
    "urllib3",
    "sqlite3",
    "markdown_it",
    "prompt_toolkit",
    "importlib.metadata",
    "pluggy",
}


@dataclass(frozen=True)
class ProcessTrace:
    """What a process imported, opened, printed and created."""

    modules: frozenset[str]
    touched: tuple[str, ...]
    writing: tuple[str, ...]

    @property
    def providers(self) -> set[str]:
        return {module.partition(".")[2] for module in self.modules if module.startswith("ask_providers.")}


def observe_each(home: Home, lines: Sequence[Sequence[str]]) -> list[ProcessTrace]:
    """Run `ask` with each argument list in a fork of one fresh Python, and trace it."""
    reports = [str(home.path / f"report-{number}") for number in range(len(lines))]
    cases = [[report, RUN_ASK, *line] for report, line in zip(reports, lines, strict=True)]
    script = f"""
import os, sys
for case in {cases!r}:
    child = os.fork()
    if not child:
        sys.argv[1:] = case
        exec({PROBE!r})
        break
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{{case}} failed")
"""
    result = run([sys.executable, "-c", script], env={**home.env, "PYTHONDONTWRITEBYTECODE": "1"}, cwd=home.work)
    assert result.code == 0, result.stderr
    return [parse_report(Path(report)) for report in reports]


def parse_report(report: Path) -> ProcessTrace:
    seen = json.loads(report.read_text())
    return ProcessTrace(frozenset(seen["modules"]), tuple(seen["touched"]), tuple(seen["writing"]))


def observe(home: Home, *args: str, script: str = RUN_ASK, env: Mapping[str, str] | None = None) -> ProcessTrace:
    """Run `ask` with these arguments, or a script, and trace it."""
    report = home.path / "report"
    command = [sys.executable, "-c", PROBE, str(report), script, *args]
    result = run(command, env={**home.env, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}, cwd=home.work)
    assert result.code == 0, result.stderr
    return parse_report(report)


def test_version_and_help_load_nothing_heavy_and_no_provider(home: Home) -> None:
    unwanted = HEAVY | {
        "ask_providers",
        "ask.agent.tool_loop",
        "ask.plugin_api.provider",
        "ask.config.config_file",
        "ask.plugin_api.types",
        "json",
        "tomllib",
    }
    observe(home, "--complete", "providers")  # which writes the index of plugins
    for arguments in ("--version", "--help", "-V", "-h"):
        seen = observe(home, arguments)
        assert "click" in seen.modules
        needed = {"json"} if arguments in ("--help", "-h") else set()  # for the index, which names commands
        assert seen.modules & unwanted <= needed
        assert not seen.writing


@pytest.mark.slow
def test_help_of_a_subcommand_loads_nothing_heavy_and_no_provider(home: Home) -> None:
    commands = [
        "providers",
        "models",
        "tools",
        "keys",
        "history",
        "history list",
        "undo",
        "chat",
        "init",
        "config",
        "config set",
        "doctor",
        "templates",
        "templates new",
        "safe",
        "context",
        "skills",
        "mcp",
        "mcp add",
    ]
    every = observe_each(home, [[*command.split(), "--help"] for command in commands])
    unwanted = HEAVY | {"ask_providers", "ask.agent.tool_loop", "tomllib"}
    loaded = {command: seen.modules & unwanted for command, seen in zip(commands, every, strict=True)}
    assert not any(loaded.values()), loaded
    assert all("click" in seen.modules for seen in every)


def test_demo_loads_only_what_it_uses_and_no_other_provider(home: Home) -> None:
    observe(home, "-p", "demo", "hi")
    second = observe(home, "-p", "demo", "--no-save", "hi")
    of_requests = observe(home, script="import requests").modules
    assert second.providers == {"demo"}
    assert second.modules & {"tomllib", "tomli_w", "markdown_it", "prompt_toolkit", "sqlite3"} == set()
    assert "importlib.metadata" not in second.modules - of_requests
    assert "ask.testing" not in second.modules
    assert not any(module.startswith("ask.templates") for module in second.modules)


@pytest.mark.needs("bwrap")
def test_safe_mode_loads_no_network_code_for_a_provider_that_sends_nothing(home: Home) -> None:
    seen = observe(home, "--safe", "-p", "demo", "hi")
    assert "ask.safety.sandbox" in seen.modules
    assert seen.modules & {"requests", "http.client", "ssl", "ask.safety.file_confinement"} == set()


def test_the_worker_of_a_sandbox_imports_little_before_its_self_test(home: Home) -> None:
    command = build_python_command("import ask.safety.sandbox_init; print(*sys.modules)")
    loaded = set(run(command, env={}, cwd=home.work).text.split())
    assert "ask.safety.self_test" in loaded
    assert loaded & {"json", "re", "enum", "functools", "contextlib", "collections", "pathlib", "typing"} == set()


def test_saving_loads_only_the_history(home: Home) -> None:
    without, saving = (observe(home, "-p", "demo", *args, "hi").modules for args in (["--no-save"], []))
    own = observe(home, script="import sqlite3").modules
    assert {name.split(".")[0] for name in saving - without - own} == {"ask"}


@pytest.mark.slow
def test_schema_checks_are_loaded_only_with_a_schema(home: Home) -> None:
    def checks(*args: str) -> set[str]:
        return {"jsonschema", "ask.schemas", "ask.plugin_api.strict_schema"} & observe(
            home, "-p", "demo", *args, "hi"
        ).modules

    assert checks() == set()
    assert checks("--schema", "name") == {"jsonschema", "ask.schemas", "ask.plugin_api.strict_schema"}


@pytest.mark.slow
def test_file_readers_are_loaded_only_with_a_file(home: Home) -> None:
    (home.work / "src").mkdir()
    (home.work / "src/a.py").write_text("pass\n")
    readers = {"ask.attachments", "ask.inputs.file_option", "ask.inputs.folders", "pathspec"}

    def reading(*args: str) -> set[str]:
        return readers & observe(home, "-p", "demo", *args, "hi").modules

    assert reading() == set()
    assert reading("-f", "src/a.py") == {"ask.attachments", "ask.inputs.file_option"}
    assert reading("-f", "src") == readers


@pytest.mark.slow
def test_plugin_code_is_loaded_only_with_plugin_tools(home: Home) -> None:
    def others(*args: str) -> set[str]:
        modules = observe(home, "-p", "demo", *args, "hi").modules
        return {name for name in modules if name.startswith(("ask.tools.plugins", "docstring"))}

    (home.work / "mine.py").write_text("def f() -> None: ...")
    assert others() == set()
    assert "ask.tools.plugins.plugin_process" in others("--tool", "mine.py:f")
    assert "docstring_parser" not in others("--tool", "mine.py:f"), "functions are read in a process of their own"


def test_a_chat_without_a_terminal_loads_no_line_editor(home: Home) -> None:
    assert "prompt_toolkit" not in observe(home, "chat", "-p", "demo", "hi").modules


@pytest.mark.slow
def test_a_second_run_reads_no_package_metadata(home: Home) -> None:
    def metadata(seen: ProcessTrace) -> list[str]:
        return [path for path in seen.touched if path.endswith(("entry_points.txt", "METADATA", "PKG-INFO"))]

    assert metadata(observe(home, "-p", "demo", "hi"))
    assert not metadata(observe(home, "-p", "demo", "hi"))


def test_a_run_with_tools_loads_no_other_provider(home: Home) -> None:
    (home.work / "note.txt").write_text("marzipan\n")
    seen = observe(home, "-p", "demo", "which files are here?")
    assert seen.providers == {"demo"}
    assert "ask.tools.files" in seen.modules
    undo_modules = {module for module in seen.modules if module.startswith("ask.undo.")}
    assert undo_modules == {"ask.undo.run_backups"}, "nothing was written"
    of_servers = ("ask.mcp.", "ask.agent.mcp", "mcp", "asyncio", "anyio", "httpx2", "pydantic")
    assert not any(module.split(".")[0] in of_servers or module.startswith(of_servers[:2]) for module in seen.modules)


def test_a_usage_error_loads_no_more_than_help(home: Home) -> None:
    script = f"try:\n    {RUN_ASK}\nexcept SystemExit as end:\n    sys.exit(0 if end.code == 2 else 1)"
    assert observe(home, "--no-such-option", script=script).modules & HEAVY == set()


@pytest.mark.slow
def test_importing_any_module_has_no_side_effects(home: Home) -> None:
    paths = [path.relative_to(ROOT) for path in sorted((ROOT / "ask").rglob("*.py"))]
    for name in ("exporter", "tracer"):  # OpenTelemetry's exporter loads requests
        paths.remove(Path(f"ask/traces/{name}.py"))
    modules = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths]
    seen = observe(home, script=f"import importlib\nfor name in {modules}: importlib.import_module(name)")
    assert set(modules) <= seen.modules
    assert not seen.writing
    assert not any(path.is_file() for path in home.path.rglob("*") if path.name != "report")
    assert seen.modules & {"requests", "tomllib", "ask_providers"} == set()
