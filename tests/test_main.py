"""How the program ends: signals, unexpected errors and unusual environments, never with a traceback."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import wire
from tests.model_server import HOLD, ModelServer, Reply
from tests.program import ASK, CTRL_C, TEST_KEY, Ask, Home, Result, Running, run

PLUGIN = """
from ask import ChatCompletions

class Stranger(ChatCompletions):
    {body}

provider = Stranger(name="stranger", base_url="http://127.0.0.1:1/v1", key_env="STRANGER_API_KEY", default_model="m")
"""
LINGERING = "echo $$ > pid; sleep 60 & echo started; wait; sleep 60"


def install(folder: Path, body: str) -> dict[str, str]:
    """Install a third-party provider; return the environment that finds it."""
    info = folder / "stranger-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ask.providers]\nstranger = stranger_plugin:provider\n")
    (folder / "stranger_plugin.py").write_text(PLUGIN.format(body=body))
    return {"PYTHONPATH": str(folder), "STRANGER_API_KEY": "sk-stranger-secret"}


def one_line(result: Result, code: int) -> str:
    """Return the only error line of a failed run."""
    assert (result.code, result.stdout, result.stderr.count("\n")) == (code, b"", 1)
    assert result.stderr.startswith("ask: ")
    return result.stderr


def wait_until(true: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


# Signals


@pytest.mark.parametrize("number", [signal.SIGHUP, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_ends_the_running_command_too(number: int, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": LINGERING}), content="Let me see."), wire.says("never"))
    with ask.start("hi") as running:
        wait_until(lambda: (ask.cwd / "pid").exists() and (ask.cwd / "pid").read_text().endswith("\n"))
        command = int((ask.cwd / "pid").read_text())
        running.signal(number)
        result = running.finish()
    assert (result.code, result.text) == (128 + number, "Let me see.\n")
    assert "Traceback" not in result.stderr
    wait_until(lambda: not is_alive(command))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow)],
)
def test_a_signal_ends_an_answer_and_keeps_the_printed_text(
    number: int, code: int, ask: Ask, server: ModelServer
) -> None:
    server.reply(wire.streams(wire.text("so far"), HOLD))
    with ask.start("hi") as running:
        running.wait_for("so far")
        running.signal(number)
        result = running.finish()
    assert result.code == code
    assert result.stdout.rstrip(b"\n") == b"so far"
    assert "Traceback" not in result.stderr
    server.wait_for_abandoned()


@pytest.mark.slow
def test_a_run_under_nohup_survives_sighup(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("so far"), 0.5, wire.text(" so good"), wire.finish()))
    with Running(["nohup", ASK, "hi"], env=ask.env, cwd=ask.cwd) as running:
        running.wait_for("so far")
        running.signal(signal.SIGHUP)
        result = running.finish()
    assert (result.code, result.text) == (0, "so far so good\n")


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_ends_the_wait_for_standard_input(number: int, ask: Ask, server: ModelServer) -> None:
    source, pipe = os.pipe()
    with ask.start("what", "broke?", stdin=source) as running:
        os.close(source)
        running.wait_for("reading stdin until it ends")
        time.sleep(0.1)  # it must be reading already, or the signal would not interrupt it
        running.signal(number)
        result = running.finish()
    os.close(pipe)
    assert (result.code, result.stdout) == (128 + number, b"")
    assert "Traceback" not in result.stderr
    assert server.requests == []


def test_ctrl_c_on_a_terminal_ends_quietly(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("so far"), HOLD))
    with ask.start_on_terminal("--plain", "--no-tools", "hi") as running:
        running.wait_for("so far")
        time.sleep(0.2)  # Python can miss a signal in the few instructions before a system call blocks
        running.type_in(CTRL_C)
        result = running.finish()
    assert result.code == 130
    assert result.text.splitlines()[0].startswith("so far")
    assert "Traceback" not in result.text


def test_ctrl_c_leaves_the_cursor_at_the_start_of_a_line(ask: Ask, server: ModelServer) -> None:
    server.reply(Reply((HOLD,)))
    with ask.start_on_terminal("models", "-p", "openrouter") as running:
        server.wait_for_requests(1)
        running.type_in(CTRL_C)
        result = running.finish()
    assert (result.code, result.text) == (130, "^C\n")


def test_closing_the_terminal_ends_the_run(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": LINGERING})))
    with ask.start_on_terminal("hi") as running:
        running.wait_for("  started")
        command = int((ask.cwd / "pid").read_text())
        running.signal(signal.SIGHUP)
        assert running.finish().code == 129
    wait_until(lambda: not is_alive(command))


# Unexpected exceptions


@pytest.mark.slow
def test_an_exception_in_a_plugin_hook_is_a_one_line_error(ask: Ask, tmp_path: Path) -> None:
    body = "def provider_build_request(self, request, key): raise RuntimeError(f'two\\nlines with {key}')"
    env = install(tmp_path / "site", body)
    line = one_line(ask("-p", "stranger", "hi", env=env), 4)
    assert "RuntimeError: two lines with [key removed]" in line
    result = ask("-v", "-p", "stranger", "hi", env=env)
    assert result.code == 4
    assert "Traceback (most recent call last)" in result.stderr
    assert "stranger_plugin.py" in result.stderr
    assert "sk-stranger-secret" not in result.stderr


@pytest.mark.slow
def test_the_traceback_of_a_hook_that_takes_too_long_shows_where_it_was(ask: Ask, tmp_path: Path) -> None:
    body = "def provider_build_request(self, request, key): __import__('time').sleep(60)"
    env = install(tmp_path / "site", body)
    result = ask("-v", "--timeout", "0.1", "-p", "stranger", "hi", env=env)
    assert result.code == 4
    assert "stranger_plugin.py" in result.stderr


@pytest.mark.slow
def test_an_unexpected_exception_is_one_line_and_exits_with_1(ask: Ask, tmp_path: Path) -> None:
    body = """
    def provider_build_request(self, request, key):
        import ask, collections
        methods = dict.fromkeys(("__getitem__", "__iter__", "__len__"), lambda *_: 1 / 0)
        return ask.HttpRequest("/", {}, type("Odd", (collections.abc.Mapping,), methods)())
"""
    env = install(tmp_path / "site", body)
    line = one_line(ask("-p", "stranger", "hi", env=env), 1)
    assert "ZeroDivisionError" in line
    assert "-v" in line
    result = ask("-v", "-p", "stranger", "hi", env=env)
    assert (result.code, result.stdout) == (1, b"")
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.endswith(line)


@pytest.mark.slow
def test_a_missing_package_is_one_line_and_exits_with_3(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "requests.py").write_text("raise ModuleNotFoundError('No module named requests', name='requests')")
    env = {"PYTHONPATH": str(tmp_path)}
    for arguments in (["hi"], ["models"]):
        assert "the package requests is not installed" in one_line(ask(*arguments, env=env), 3)
    assert ask("--version", env=env).code == 0
    (tmp_path / "click.py").write_text("raise ModuleNotFoundError('No module named click', name='click')")
    assert "the package click is not installed" in one_line(ask("--version", env=env), 3)


@pytest.mark.parametrize(
    ("arguments", "env", "code"),
    [
        (["-p", "nobody", "hi"], {}, 4),
        (["-o", "x", "hi"], {}, 2),
        ([], {}, 2),
        (["-f", "missing.txt", "hi"], {}, 9),
        (["-f", "/etc", "-f", "/dev/fd/99", "hi"], {}, 9),
        (["-f", "http://127.0.0.1:9/page", "hi"], {}, 5),
        (["-f", "mcp://nobody/x", "hi"], {}, 9),
        (["--schema", "@missing.json", "hi"], {}, 9),
        (["--schema", '{"type": ', "hi"], {}, 2),
        (["-t", "nothing", "hi"], {}, 2),
        (["--tool", "missing.py", "hi"], {}, 9),
        (["--resume", "nothing", "hi"], {}, 2),
        (["-o", "temperature=9", "hi"], {}, 7),
        (["hi"], {"OPENROUTER_BASE_URL": "http://127.0.0.1:9/v1", "ASK_TRIES": "1"}, 5),
        (["hi"], {"OPENROUTER_BASE_URL": "http://nowhere.invalid/v1", "ASK_TRIES": "1"}, 5),
        (["hi"], {"OPENROUTER_BASE_URL": "nonsense"}, 4),
        (["hi"], {"OPENROUTER_API_KEY": "sk-\u043a\u043b\u044e\u0447"}, 4),
        (["hi"], {"ASK_SAFE": "perhaps"}, 4),
        (["hi"], {"OPENROUTER_BASE_URL": "https://127.0.0.1:9", "REQUESTS_CA_BUNDLE": "/missing.pem"}, 4),
        (["--record", "/missing/folder/x", "hi"], {}, 9),
        (["hi"], {"ASK_REPLAY": "/missing"}, 9),
    ],
)
def test_errors_of_the_user_have_no_traceback(ask: Ask, arguments: list[str], env: dict[str, str], code: int) -> None:
    result = ask("-v", *arguments, env=env)
    assert "Traceback" not in result.stderr
    assert result.stderr.splitlines()[-1].startswith("ask: ")
    assert "internal error" not in result.stderr
    assert result.code == code, result.stderr


def test_verbose_errors_contain_no_key(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(401, f"no such key: {TEST_KEY}"))
    result = ask("-v", "--key", "sk-given-0123456789", "hi", env={"DEEPSEEK_API_KEY": "sk-other-0123456789"})
    server.reply(wire.fails(401, "no such key: sk-given-0123456789 sk-other-0123456789"))
    again = ask("-v", "--key", "sk-given-0123456789", "hi", env={"DEEPSEEK_API_KEY": "sk-other-0123456789"})
    for key in (TEST_KEY, "sk-given-0123456789", "sk-other-0123456789"):
        assert key not in result.stderr + again.stderr


# Unusual environments


@pytest.mark.slow
def test_it_works_without_a_home_folder(ask: Ask, home: Home) -> None:
    path = home.env["PATH"]
    for env in (f"PATH={path}", f"PATH={path} HOME=", f"PATH={path} HOME=/proc/none"):
        result = ask.shell(
            f"env -i {env} XDG_CACHE_HOME={home.path}/cache XDG_DATA_HOME={home.data.parent} ask -p demo hi"
        )
        assert (result.code, result.stderr) == (0, "")
        assert result.text.startswith("I am the embedded demo")
    unwritable = ask.shell(f"env -i PATH={path} HOME=/proc/none ask -p demo 'run date'")
    assert (unwritable.code, unwritable.text != "") == (0, True)
    assert "cannot write the log of tool calls" in unwritable.stderr


@pytest.mark.slow
def test_a_deleted_working_directory_is_a_one_line_error(ask: Ask) -> None:
    def in_no_folder(command: str) -> Result:
        return ask.shell(f"mkdir gone; cd gone; rmdir ../gone; {command}")

    assert "working directory" in one_line(in_no_folder("ask hi"), 9)
    assert one_line(in_no_folder("ask -f x hi"), 9)
    for command in ("ask --version", "ask providers", "ask tools", "ask keys list", "ask keys set demo <<< key"):
        assert in_no_folder(command).code == 0


@pytest.mark.parametrize(
    "content", ["provider = ", "max_rounds = 'x'", "providers = 1", "\xff\xfe", "[network]\ntries = true"]
)
def test_an_invalid_config_is_a_one_line_error_with_exit_code_4(content: str, ask: Ask, home: Home) -> None:
    home.config.mkdir()
    (home.config / "config.toml").write_text(content, encoding="latin-1")
    for arguments in (["hi"], ["models"]):
        assert "config.toml" in one_line(ask(*arguments), 4)


def test_a_missing_key_comes_with_advice(ask: Ask) -> None:
    line = one_line(ask("hi", env={"OPENROUTER_API_KEY": "", "OPENROUTER_BASE_URL": ""}), 4)
    assert all(hint in line for hint in ("OPENROUTER_API_KEY", "ask keys set openrouter", "-p demo"))


def test_python_m_ask_works(ask: Ask) -> None:
    assert ask.shell("python -m ask --version").text == ask("--version").text


@pytest.mark.parametrize(
    "module",
    ["ask.records", "sqlite3", *(pytest.param(one, marks=pytest.mark.slow) for one in ("gc", "click", "ask.cli.ask"))],
)
@pytest.mark.parametrize(
    "command",
    [
        pytest.param([ASK], id="ask"),
        pytest.param([sys.executable, "-m", "ask"], id="python -m ask", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_modules_are_imported_ends_quietly(
    module: str, command: list[str], number: int, ask: Ask
) -> None:
    folder = ask.cwd / "path"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        f"""
import os, signal, sys
class Interrupt:
    def find_spec(name, *_):
        if name == {module!r}:
            sys.meta_path.remove(Interrupt)
            os.kill(os.getpid(), {int(number)})
sys.meta_path.insert(0, Interrupt)
"""
    )
    result = run([*command, "hi"], env={**ask.env, "PYTHONPATH": str(folder)}, cwd=ask.cwd)
    assert (result.code in (128 + number, -number), result.stdout, result.stderr) == (True, b"", "")


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_whose_exception_is_discarded_ends_the_run_too(number: int, ask: Ask, server: ModelServer) -> None:
    server.reply(Reply((HOLD,)))
    folder = ask.cwd / "path"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        f"""
import signal, sys
class Interrupt:
    def __del__(self):
        signal.raise_signal({int(number)})
    def find_spec(name, *_):
        if name == "ask.agent.run":
            sys.meta_path.remove(Interrupt)
            Interrupt()
sys.meta_path.insert(0, Interrupt)
"""
    )
    result = run([ASK, "-p", "openrouter", "hi"], env={**ask.env, "PYTHONPATH": str(folder)}, cwd=ask.cwd)
    assert result.code == 128 + number
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_command_lines_can_run_repeatedly_in_one_process(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("One."), wire.says("Two."))
    lines = [["hi"], ["history", "list"], ["-c", "hi"], ["--nosuch"], ["--no-save", "-p", "nosuch", "hi"], ["tools"]]
    program = (
        f"from ask.__main__ import run_and_report_errors as run; print([run(line) for line in {[*lines, *lines]}])"
    )
    result = run([sys.executable, "-c", program], env={**ask.env, "ASK_SESSION": "one"}, cwd=ask.cwd)
    codes = [0, 0, 0, 2, 4, 0]
    assert result.text.splitlines()[-1] == str(codes * 2), result.stderr
    assert result.text.splitlines()[0] == "One."


# Plugins that misbehave on import


def install_with(folder: Path, code: str) -> dict[str, str]:
    """Install a provider whose module runs this code on import. Returns the environment that finds it."""
    environment = install(folder, "pass")
    module = folder / "stranger_plugin.py"
    module.write_text(code + module.read_text())
    return environment


@pytest.mark.parametrize(
    "code",
    [
        "import os; os._exit(3)",
        pytest.param("from os import _exit\n_exit(0)", marks=pytest.mark.slow),
        pytest.param("import sys; sys.exit(3)", marks=pytest.mark.slow),
    ],
)
def test_a_provider_that_exits_on_import_is_reported(code: str, ask: Ask, tmp_path: Path) -> None:
    env = install_with(tmp_path / "site", f"{code}\n")
    listed = ask("providers", env=env)
    assert listed.code == 0
    assert "openrouter" in listed.text
    [line] = listed.stderr.splitlines()
    assert "stranger" in line
    assert "stranger" in one_line(ask("-p", "stranger", "hi", env=env), 4)


PRINTING = (
    r"print('\x1b[31mred')",
    r"import sys; sys.stderr.write('\x1b[31mred')",
    r"import os; os.write(1, b'\x1b[31mred'); os.write(2, b'\x1b[2J')",
    r"""import os; os.system("printf '\\033[31mred'")""",
)


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    "code", [PRINTING[0], PRINTING[3], *(pytest.param(code, marks=pytest.mark.slow) for code in PRINTING[1:3])]
)
def test_import_output_of_a_provider_is_one_escaped_line(code: str, ask: Ask, tmp_path: Path) -> None:
    env = install_with(tmp_path / "site", f"{code}\n")
    result = ask("providers", "--json", env=env)
    assert "stranger" in {row["name"] for row in json.loads(result.text)}
    assert result.stderr
    for line in result.stderr.splitlines():
        assert "stranger (stranger)" in line
        assert r"\x1b[31mred" in line


def test_import_output_of_a_provider_does_not_reach_a_terminal(ask: Ask, tmp_path: Path) -> None:
    code = r"import os; os.write(1, b'\x1b[31mred'); os.write(2, b'\x1b[2J'); print('\x1b[31mred', flush=True)"
    shown = ask.on_terminal("providers", env=install_with(tmp_path / "site", f"{code}\n")).text
    assert "stranger (stranger)" in shown
    assert r"\x1b[31mred" in shown
    assert "\x1b[31m" not in shown
    assert "\x1b[2J" not in shown


def test_a_quiet_run_does_not_report_output_of_a_provider(ask: Ask, tmp_path: Path) -> None:
    env = install_with(tmp_path / "site", "print('noise')\n")
    result = ask("-q", "-p", "stranger", "hi", env=env)
    assert "noise" not in result.stderr
    assert result.stdout == b""


def test_providers_can_use_streams_and_child_processes(ask: Ask, tmp_path: Path) -> None:
    code = """
import logging, os, sys
logging.basicConfig(stream=sys.stderr, format="%(message)s")
if not (child := os.fork()):
    os._exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
"""
    env = install_with(tmp_path / "site", code)
    with (tmp_path / "site/stranger_plugin.py").open("a") as module:
        module.write("import atexit\natexit.register(logging.warning, 'later')\n")
    program = "from ask.__main__ import run_and_report_errors; run_and_report_errors(['providers'])"
    listed = run([sys.executable, "-c", program], env={**ask.env, **env}, cwd=ask.cwd)
    assert "stranger" in listed.text
    assert listed.stderr == "later\n"


@pytest.mark.slow
def test_slow_providers_are_reported(ask: Ask, tmp_path: Path) -> None:
    env = install_with(tmp_path / "site", "import time; time.sleep(1.5)\n")
    listed = ask("providers", env=env)
    assert "stranger" in listed.text
    assert len([line for line in listed.stderr.splitlines() if "slow to load" in line and "stranger" in line]) == 1


@pytest.mark.slow
def test_slow_tool_files_are_reported(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "slow.py").write_text("import time; time.sleep(1.5)\ndef now() -> str:\n    return 'now'\n")
    server.reply(wire.says("Fine."))
    for options, lines in ((["--no-save"], 1), (["--no-save", "-q"], 0)):
        result = ask(*options, "--tool", "slow.py:now", "hi")
        assert result.text == "Fine.\n"
        assert len([line for line in result.stderr.splitlines() if "slow.py" in line]) == lines
