"""Tools of plugins: which are offered from `--tool` and installed packages, and how broken ones are reported."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests import wire
from tests.cli.chat.chat_session import Chat
from tests.model_server import ModelServer
from tests.program import PROGRAMS, Ask, Home, Result, run
from tests.scenarios.sent_requests import check_sent_requests, list_offered_tools
from tests.slow_parameters import mark_others_slow
from tests.third_party_plugins import install, install_example, install_tools
from tests.tool_names import DEFAULT_TOOLS
from tests.tools.plugins.conftest import Calling

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples/ask-tools-example"
GREET = """
from ask import tool

@tool(has_side_effects=False)
def greet(name: str) -> str:
    "Greet somebody."
    return f"Hello, {name}!"
"""
REGISTERS = """
from ask import Tool, ToolResult, ToolSpec

def register_tools():
    return [Tool(ToolSpec("greet", "", {}), lambda arguments, context: ToolResult("x"))]
"""
BROKEN = {
    "raises": ("raise ValueError('no\\nway')", "", "ValueError: no way (ask_{}.py, line 1)"),
    "exits": ("import sys; sys.exit('bye')", "", "SystemExit: bye (ask_{}.py, line 1)"),
    "dies": ("import os; os._exit(3)", "", "its process ended (exit status 3)"),
    "has a mistake in it": ("def f(:", "", "SyntaxError: invalid syntax (ask_{}.py, line 1)"),
    "lacks a package": ("import no_such_package", "", "it needs the module no_such_package, which is not installed"),
    "names what is not there": (GREET, ":great", "it has no great, but greet"),
    "has no tools": ("def greet(name: str): ...", "", "it has no function decorated with @tool, and no register_tools"),
    "has no hint": (GREET.replace(": str", ""), "", "greet: the parameter name: no type hint"),
    "has a hint without schema": (
        GREET.replace(": str", ": bytes"),
        "",
        "the parameter name: bytes has no JSON Schema",
    ),
    "registers nothing": ("def register_tools(): pass", "", "register_tools returns NoneType, not a list of tools"),
    "registers anything": ("def register_tools(): return [5]", "", "5 is not a function"),
    "registers a specification": (
        "from ask import *\ndef register_tools(): return [ToolSpec('a', '', {'type': 'object'})]",
        "",
        "is not a function",
    ),
    "registers no JSON": (
        "from ask import *\ndef register_tools(): return [Tool(ToolSpec('a', '', {'type': {1}}), print)]",
        "",
        "a: its parameters must be a JSON Schema of type object",
    ),
    "names two alike": (GREET + "@tool(name='greet')\ndef other() -> None: ...", "", "it has two tools named greet"),
    "names anything": ("it = 5", ":it", "5 is not a function"),
    "names a wrong module": ("", "_there", "there is no module ask_names_a_wrong_module_there"),
    "imports a later name": ("from ask import tol", "", "it uses ask.tol (did you mean tool?), which version 2 of"),
    "needs a later version": ("api_version = 3\n" + GREET, ":greet", "has version 2; upgrade ask"),
    "needs a later version and fails without": ("api_version = 3\n1 / 0", "", "it needs version 3 of the plugin API"),
}
FORMS = {
    "a module with marked functions": (GREET, ""),
    "a marked function": (GREET, ":greet"),
    "a function": (GREET.replace("@tool(has_side_effects=False)", ""), ":greet"),
    "a module that registers functions": ("def greet(name: str): ...\ndef register_tools(): return [greet]", ""),
    "what registers them": ("def greet(name: str): ...\ndef register_tools(): return [greet]", ":register_tools"),
    "a module that registers tools": (REGISTERS, ""),
    "a module that is noisy": (GREET + "import os\nprint('noise')\nos.system('echo noise; echo noise >&2')", ""),
}


def with_packages(ask: Ask, folder: Path) -> Ask:
    return replace(ask, packages=folder)


def list_plugin_tools(server: ModelServer) -> list[str]:
    """Return the tools in the last request, except ask's own."""
    own = set(DEFAULT_TOOLS)
    return [name for name in list_offered_tools(server.requests[-1].json) if name not in own]


def hello(ask: Ask, server: ModelServer, *options: str) -> Result:
    server.reply(wire.says("Hello."))
    return ask("-m", wire.MODEL, *options, "hi")


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the example plugin, with its module laid out as installed."""
    source = (EXAMPLE / "ask_tools_example.py").read_text()
    entry_points = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]["ask.tools"]
    modules = {"ask_tools_example": source}
    return install(tmp_path_factory.mktemp("tools"), "ask-tools-example", entry_points, modules, "ask.tools")


# Packages


def test_a_tool_of_a_package_is_offered_and_called(ask: Ask, home: Home, server: ModelServer, example: Path) -> None:
    ask = with_packages(ask, example)
    arguments = {"degrees": 451, "unit": "fahrenheit"}
    server.reply(wire.calls(("convert_temperature", arguments)), wire.says("232.78 °C."))
    result = ask("-m", wire.MODEL, "how much is 451 °F?")
    assert (result.text, result.code) == ("232.78 °C.\n", 0)
    first, second = check_sent_requests(server)
    assert list_plugin_tools(server) == ["convert_temperature", "count_words", "remember"]
    assert list_offered_tools(first) == list_offered_tools(second)
    assert "\n- convert_temperature: Convert a temperature.\n" in first["messages"][0]["content"]
    assert second["messages"][-1] == {"role": "tool", "tool_call_id": "call_0", "content": "232.78"}
    (logged,) = [json.loads(line) for line in (home.data / "audit.jsonl").read_text().splitlines()]
    assert (logged["tool"], logged["rule"]) == ("convert_temperature", "unrestricted")


@pytest.mark.slow
def test_the_example_installed_by_pip_is_offered_and_passes_its_own_tests(ask: Ask, home: Home, tmp_path: Path) -> None:
    example = install_example(tmp_path / "installed", "ask-tools-example")
    assert "convert_temperature" in [row["name"] for row in list_tools(with_packages(ask, example))]
    options = ["-q", "-n0", "-p", "no:cacheprovider", "-W", "error", "--rootdir", str(home.work)]
    own = f"--basetemp={home.path}/pytest"  # the default folder is shared, and pytest deletes old folders in it
    env = {**home.env, "PYTHONPATH": str(example)}
    result = run([str(PROGRAMS / "pytest"), *options, own, str(EXAMPLE / "tests")], env=env, cwd=home.work, timeout=60)
    assert result.code == 0, result.text


@pytest.mark.slow
def test_entry_point_may_name_modules_functions_or_register_tools(ask: Ask, home: Home, server: ModelServer) -> None:
    packages = home.path / "packages"
    forms = {form.replace(" ", "_"): named for form, named in FORMS.items()}
    for name, (source, attribute) in forms.items():
        install_tools(packages, name, source.replace("greet", name), attribute.replace("greet", name))
    result = hello(with_packages(ask, packages), server)
    assert (result.text, result.stderr, result.code) == ("Hello.\n", "", 0)
    assert sorted(list_plugin_tools(server)) == sorted(forms)


@pytest.mark.slow
def test_each_broken_package_is_reported_and_the_others_work(ask: Ask, home: Home, server: ModelServer) -> None:
    packages = install_tools(home.path / "packages", "nice", GREET)
    expected_reports = {}
    for fault, (source, attribute, reason) in BROKEN.items():
        name = fault.replace(" ", "_")
        install_tools(packages, name, source, attribute)
        expected_reports[f"ask-{name}"] = reason.format(name)
    result = hello(with_packages(ask, packages), server)
    assert (result.text, result.code) == ("Hello.\n", 0)
    for line, (distribution, reason) in zip(
        sorted(result.stderr.splitlines()), sorted(expected_reports.items()), strict=True
    ):
        assert distribution in line
        assert reason in line
    assert list_plugin_tools(server) == ["greet"]


def test_an_invalid_function_of_a_package_is_left_out(ask: Ask, home: Home, server: ModelServer) -> None:
    source = GREET + "@tool\ndef shout(name): ...\n"
    ask = with_packages(ask, install_tools(home.path / "packages", "mixed", source))
    result = hello(ask, server)
    assert (result.text, result.code) == ("Hello.\n", 0)
    assert "ask-mixed: shout: the parameter name: no type hint" in result.stderr
    assert list_plugin_tools(server) == ["greet"]
    (home.work / "mixed.py").write_text(source)
    explicit = hello(ask, server, "--tool", "mixed.py")
    assert (explicit.code, "shout: the parameter name" in explicit.stderr) == (4, True), "the user can correct it"


@pytest.mark.slow
def test_a_package_that_hangs_while_loading_is_left_out(ask: Ask, home: Home, server: ModelServer) -> None:
    packages = install_tools(home.path / "packages", "slow", "import time; time.sleep(600)")
    result = hello(with_packages(ask, packages), server, "--command-timeout", "1")
    assert result.text == "Hello.\n"
    last = result.stderr.splitlines()[-1]
    assert "ask-slow" in last
    assert "1 s" in last


@pytest.mark.slow
def test_a_duplicate_tool_name_is_left_out(ask: Ask, home: Home, server: ModelServer) -> None:
    packages = install_tools(home.path / "packages", "a", GREET.replace("greet", "bash"))
    install_tools(packages, "b", GREET)
    install_tools(packages, "c", GREET + "@tool(name='no way')\ndef other() -> None: ...")
    result = hello(with_packages(ask, packages), server)
    for line, values in zip(
        result.stderr.splitlines(), [("bash", "ask-a"), ("greet", "ask-c", "ask-b"), ("'no way'", "ask-c")], strict=True
    ):
        assert all(value in line for value in values)
    assert list_plugin_tools(server) == ["greet"]


def test_no_package_is_loaded_when_tools_are_off(ask: Ask, home: Home, server: ModelServer) -> None:
    packages = install_tools(home.path / "packages", "trace", "open('loaded', 'w'); " + "x = 1" + GREET)
    ask = with_packages(ask, packages)
    assert hello(ask, server, "--no-tools").stderr == ""
    assert ask("providers").code == 0
    assert not (ask.cwd / "loaded").exists()
    hello(ask, server)
    assert (ask.cwd / "loaded").exists()


@pytest.mark.slow
def test_a_tool_of_a_package_can_be_disabled_by_name(ask: Ask, home: Home, server: ModelServer) -> None:
    ask = with_packages(ask, install_tools(home.path / "packages", "nice", GREET))
    assert hello(ask, server, "--disable-tool", "greet").code == 0
    assert list_plugin_tools(server) == []
    home.configure('[tools]\ndisabled = ["greet"]\n')
    assert hello(ask, server).code == 0
    assert list_plugin_tools(server) == []
    assert hello(ask, server, "--no-tools").code == 0
    assert "did you mean greet?" in ask("--disable-tool", "great", "hi").stderr


def test_package_cannot_impersonate_ask(ask: Ask, home: Home) -> None:
    packages = install(home.path / "packages", "ask", {"x": "strange"}, {"strange": GREET}, "ask.tools")
    (row,) = [row for row in list_tools(with_packages(ask, packages)) if row["name"] == "greet"]
    assert (row["from"], row["safe"]) == ("package ask", "only with --allow-tool greet")


@pytest.mark.slow
def test_confirm_asks_before_tools_with_side_effects(ask: Ask, server: ModelServer, example: Path) -> None:
    ask = with_packages(ask, example)
    arguments = {"degrees": 1, "unit": "kelvin"}
    server.reply(wire.calls(("convert_temperature", arguments), ("remember", {"note": "milk"})), wire.says("Noted."))
    shown = ask.on_terminal("-m", wire.MODEL, "--confirm", "go", answers=[("Run this?", "y")])
    assert "note: milk" in shown.text
    assert (ask.cwd / "notes.txt").read_text() == "milk\n"


# --tool


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--tool", "mine.py"], ["count", "fail", "speak", "much", "chatter", "surroundings"]),
        (["--tool", "mine.py:count"], ["count"]),
        (["--tool", "./mine.py:much", "--tool", "mine.py:count"], ["much", "count"]),
        (["--tool", "mine.py:fail", "--tool", "mine.py:fail"], ["fail"]),
        (["--tool", "mine:count"], ["count"]),
        (["--tool", "textwrap:shorten_it", "--tool", "mine.py:count"], None),
    ],
)
def test_functions_are_named_on_the_command_line(
    options: Sequence[str], names: list[str] | None, tools: Path, ask: Ask, server: ModelServer
) -> None:
    result = hello(ask, server, *options)
    if names is None:
        assert (result.code, len(server.requests)) == (4, 0)
        assert "it has no shorten_it, but " in result.stderr
    else:
        assert (result.stderr, list_plugin_tools(server)) == ("", names)
        assert {path.name for path in tools.parent.iterdir()} <= {"mine.py", "__pycache__"}


def test_function_needs_no_decorator_and_can_import_neighboring_files(ask: Ask, calling: Calling) -> None:
    (ask.cwd / "part").mkdir()
    (ask.cwd / "part" / "neighbour.py").write_text("WORD = 'near'")
    (ask.cwd / "part" / "own.py").write_text("import neighbour\ndef say() -> str: return neighbour.WORD")
    assert calling(("say", {}), options=("--tool", "part/own.py:say")).results == ["near"]


def test_the_folder_for_files_that_a_result_names_exists(ask: Ask, home: Home, calling: Calling) -> None:
    body = "return (context.overflow_directory / 'a').write_text('abc')"
    code = f"import ask\ndef save(context: ask.ToolContext) -> int: {body}"
    (ask.cwd / "own.py").write_text(code)
    assert calling(("save", {}), options=("--tool", "own.py:save")).results == ["3"]
    assert [path.read_text() for path in home.data.glob("results/*/*")] == ["abc"]


@pytest.mark.parametrize(
    ("value", "code", "expected"),
    [
        ("none.py", 9, "none.py (No such file or directory)"),
        (".", 2, "--tool '.'"),
        ("./", 9, "./ (Is a directory)"),
        ("", 2, "--tool ''"),
        (":x", 2, "--tool ':x'"),
        ("mine.py:no", 4, "count, fail, speak, "),
        ("mine.py:a b", 2, "'mine.py:a b'"),
        ("nowhere", 4, "ModuleNotFoundError: No module named 'nowhere'"),
        ("plain.py", 4, "plain.py:bash"),
        ("plain.py:bash", 2, "@tool("),
        ("broken.py", 4, "SyntaxError: "),
        ("plain.py:grüße", 2, "'grüße'"),
    ],
)
def test_an_invalid_tool_option_ends_the_run_before_a_request(
    value: str, code: int, expected: str, *, tools: Path, ask: Ask, server: ModelServer
) -> None:
    (tools.parent / "plain.py").write_text("def bash(x: int): ...\ndef grüße(): ...\n")
    (tools.parent / "broken.py").write_text("def f(:\n")
    result = ask("--tool", value, "hi")
    assert (result.code, result.stdout, server.requests) == (code, b"", [])
    assert expected in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("off", [{"args": ["--no-tools"]}, {"env": {"ASK_TOOLS": "0"}}])
def test_the_tool_option_is_refused_when_tools_are_off(off: dict[str, object], tools: Path, ask: Ask) -> None:
    result = ask(*off.get("args", []), "--tool", tools.name, "hi", env=off.get("env"))  # type: ignore[misc, arg-type]
    assert (result.code, "--tool" in result.stderr) == (2, True)


def test_template_with_a_tool_list_excludes_other_tools(home: Home, tools: Path, ask: Ask, server: ModelServer) -> None:
    (home.config / "templates").mkdir(parents=True)
    (home.config / "templates" / "mine.md").write_text("+++\ntools = ['bash']\n+++\nBe brief.")
    result = hello(ask, server, "-t", "mine", "--tool", f"{tools.name}:count")
    assert result.stderr.count("\n") == 1
    assert "count" in result.stderr
    assert list_plugin_tools(server) == []


@pytest.mark.slow
def test_a_chat_keeps_the_state_of_a_tool(tools: Path, ask: Ask, server: ModelServer) -> None:
    server.reply(*(reply for _ in range(2) for reply in (wire.calls(("count", {})), wire.says("Counted."))))
    with Chat(ask, "-m", wire.MODEL, "--tool", tools.name) as chat:
        assert "count" in chat.send("/tools list")
        chat.send("one")
        chat.send("two")
        chat.quit()
    results = [message["content"] for message in server.requests[-1].json["messages"] if message["role"] == "tool"]
    assert results == ["1", "2"]


# Safe mode


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_safe_mode_loads_and_offers_only_allowed_tools(home: Home, tools: Path, ask: Ask, server: ModelServer) -> None:
    packages = home.path / "packages"
    ask = with_packages(ask, install_tools(packages, "trace", f"open('{home.path}/loaded', 'w')\n" + GREET))
    with_file = ("--safe", "--tool", tools.name)
    result = hello(ask, server, *with_file)
    assert list_plugin_tools(server) == []
    assert result.stderr.count("\n") == 1
    assert "mine.py" in result.stderr
    assert "--allow-tool" in result.stderr
    assert not (home.path / "loaded").exists()
    result = hello(ask, server, "--safe", "--tool", "mine.py:count", "--tool", "mine.py:much", "--allow-tool", "count")
    assert "--allow-tool much" in result.stderr
    assert "--allow-tool count" not in result.stderr
    assert list_plugin_tools(server) == ["count"]
    assert not (home.path / "loaded").exists()
    assert hello(ask, server, "--safe", "--allow-tool", "greet").stderr == ""
    assert list_plugin_tools(server) == ["greet"]
    result = ask("--safe", "--allow-tool", "gret", "hi")
    assert (result.code, "did you mean greet?" in result.stderr) == (2, True), result.stderr


@pytest.mark.needs("bwrap")
def test_disabled_tool_causes_no_notice_in_safe_mode(home: Home, ask: Ask, server: ModelServer) -> None:
    ask = with_packages(ask, install_tools(home.path / "packages", "nice", GREET))
    home.configure('[tools]\ndisabled = ["greet"]\n')
    assert hello(ask, server, "--safe").stderr == ""


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_an_allowed_tool_runs_in_safe_mode(tools: Path, ask: Ask, calling: Calling) -> None:
    run = calling(("count", {}), options=("--safe", "--tool", tools.name, "--allow-tool", "count"))
    assert (run.results, run.ended.text) == (["1"], "Done.\n")


@pytest.mark.parametrize("level", mark_others_slow(["--safe", "--safe-files"]))
@pytest.mark.needs("bwrap")
def test_the_file_of_an_allowed_tool_is_read_only_in_safe_mode(tools: Path, calling: Calling, level: str) -> None:
    source = tools.read_text()
    write = ("write_file", {"filepath": tools.name, "content": "import os"})
    run = calling(write, ("count", {}), options=(level, "--tool", tools.name, "--allow-tool", "count"))
    assert (run.results[0][:6], run.results[1], tools.read_text()) == ("Error:", "1", source)
    assert str(tools) in run.ended.stderr


# ask tools


def list_tools(ask: Ask, *options: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(ask("tools", "--json", *options).text)
    return rows


@pytest.mark.slow
def test_ask_tools_lists_plugin_tools_with_origin_and_schema(ask: Ask, tools: Path, example: Path) -> None:
    rows = {row["name"]: row for row in list_tools(with_packages(ask, example), "--tool", tools.name)}
    assert rows["count"] == {
        "name": "count",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
        "description": "Count the calls of this.",
        "runs_or_writes": False,
        "offered": True,
        "safe": "only with --allow-tool count",
        "from": "mine.py",
    }
    assert (rows["remember"]["from"], rows["remember"]["runs_or_writes"]) == ("ask-tools-example", True)
    assert (rows["bash"]["safe"], rows["fetch_url"]["safe"]) == ("sandboxed", "asks for hosts")


@pytest.mark.slow
def test_disabled_tools_are_listed_as_not_offered(ask: Ask, example: Path) -> None:
    ask = with_packages(ask, example)
    off = replace(ask, env={**ask.env, "ASK_TOOLS": "0"})
    assert [row["name"] for row in list_tools(off)] == [row["name"] for row in list_tools(ask)]
    assert not any(row["offered"] for row in list_tools(off))
    safe = replace(ask, env={**ask.env, "ASK_SAFE": "1"})
    assert {row["name"] for row in list_tools(safe) if not row["offered"]} == {
        "convert_temperature",
        "count_words",
        "remember",
    }


@pytest.mark.slow
def test_doctor_reports_which_packages_load(ask: Ask, home: Home) -> None:
    packages = install_tools(home.path / "packages", "odd", "1 / 0")
    ask = with_packages(ask, install_tools(packages, "nice", GREET))
    home.configure('[tools]\ndisabled = ["greet", "other"]\n')
    rows = json.loads(ask("doctor", "--offline", "--json").text)
    found = {row["check"]: (row["state"], row["found"]) for row in rows if row["check"].startswith("ask-")}
    reason = "cannot load its tools: ZeroDivisionError: division by zero (ask_odd.py, line 1)"
    assert found == {"ask-nice": ("ok", "tools: greet"), "ask-odd": ("problem", reason)}
    warned = [row["found"] for row in rows if row["check"] == "tools" and row["state"] == "warning"]
    assert warned == ["tools.disabled contains the unknown tool other"]
