"""Standard output of ask carries only the answer, whatever a provider of a package prints, and whenever."""

from __future__ import annotations

import json

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home, run_on_terminal
from tests.test_third_party_plugins import with_packages
from tests.third_party_plugins import CHAT_PROVIDER, install, install_provider

CHAT = CHAT_PROVIDER.format(name="odd").replace("provider = ChatCompletions", "provider = Odd")
NOISY = (
    """
import atexit, ctypes, os, subprocess, sys, threading, time
from ask import ChatCompletions

libc = ctypes.CDLL(None)
saved_stdout = sys.stdout


def make_noise():
    while True:
        print("noise of print", flush=True)
        print("noise of a saved stream", file=saved_stdout, flush=True)
        os.write(1, b"noise of os.write\\n")
        libc.puts(b"noise of native code")
        libc.fflush(None)
        subprocess.run(["echo", "noise of a child"])
        time.sleep(0.01)


def start():
    threading.Thread(target=make_noise, daemon=True).start()
    subprocess.Popen(["sh", "-c", "sleep 0.3; echo noise of a late child"])
    print("noise without a line end", end="")


start()
atexit.register(print, "noise at exit")


class Odd(ChatCompletions):
    def provider_build_request(self, request, key):
        start()
        if os.fork() == 0:
            time.sleep(0.3)
            os.write(1, b"noise of a fork\\n")
            os._exit(0)
        return super().provider_build_request(request, key)
"""
    + CHAT
)


def install_noisy(ask: Ask, home: Home, server: ModelServer, source: str = NOISY) -> Ask:
    packages = install_provider(home.path / "packages", "odd", source)
    return with_packages(ask, packages, ODD_BASE_URL=server.base_url)


@pytest.mark.parametrize(
    "options",
    [
        [],
        pytest.param(["--no-stream"], marks=pytest.mark.slow),
        pytest.param(["--extract"], marks=pytest.mark.slow),
        pytest.param(["-v"], marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_an_answer_is_all_there_is_on_stdout(ask: Ask, home: Home, server: ModelServer, options: list[str]) -> None:
    ask = install_noisy(ask, home, server)
    if "--no-stream" in options:
        server.reply(wire.says("one two", whole=True))
    else:
        server.reply(wire.streams(wire.text("one "), 0.3, wire.text("two")))
    result = ask("-p", "odd", *options, "hi")
    assert (result.text, result.code) == ("one two\n", 0), result.stderr[-2000:]
    for source in ("print", "a saved stream", "os.write", "native code", "a child"):
        assert f"noise of {source}\n" in result.stderr


@pytest.mark.parametrize("option", ["--json", pytest.param("--events", marks=pytest.mark.slow)])
def test_json_on_stdout_is_valid(ask: Ask, home: Home, server: ModelServer, option: str) -> None:
    ask = install_noisy(ask, home, server)
    server.reply(wire.streams(wire.text("one "), 0.3, wire.text("two")))
    result = ask("-p", "odd", option, "hi")
    assert result.code == 0
    values = [json.loads(line) for line in (result.text.splitlines() if option == "--events" else [result.text])]
    assert "noise" not in str([value for value in values if value.get("type") != "notice"])
    assert values[-1]["text"] == "one two"


@pytest.mark.parametrize(
    "command",
    [
        "providers",
        pytest.param("models -p odd", marks=pytest.mark.slow),
        pytest.param("doctor --json", marks=pytest.mark.slow),
        pytest.param("compare -p odd hi -m odd-1 -m odd-2", marks=pytest.mark.slow),
    ],
)
def test_output_of_other_commands_is_theirs(ask: Ask, home: Home, server: ModelServer, command: str) -> None:
    ask = install_noisy(ask, home, server)
    server.reply(
        lambda request: (
            wire.whole_reply({"data": [{"id": "odd-1"}, {"id": "odd-2"}]})
            if request.method == "GET"
            else wire.says("one")
        )
    )
    result = ask(*command.split())
    assert "odd" in result.text
    assert "noise" not in result.text
    assert "noise of print" in result.stderr


@pytest.mark.parametrize("output", ["-", pytest.param("out.jsonl", marks=pytest.mark.slow)])
def test_rows_of_map_are_all_there_is_on_stdout(ask: Ask, home: Home, server: ModelServer, output: str) -> None:
    ask = install_noisy(ask, home, server)
    server.reply(lambda request: wire.whole_reply(wire.answer("yes")))
    rows = [f"row {number}" for number in range(10)]
    options = [] if output == "-" else ["-O", output]
    result = ask("map", "-p", "odd", "Say {{line}}", *options, stdin="\n".join(rows).encode())
    assert result.code == 0, result.stderr[-2000:]
    assert (result.text == "") == bool(options)
    text = (home.work / output).read_text() if options else result.text
    assert [json.loads(line)["line"] for line in text.splitlines()] == rows
    noise = [line for line in result.stderr.splitlines() if "noise" in line and "fork" not in line]
    assert noise
    assert "noise of print" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--tools"], ["--engine", "dask"]], ids=" ".join)
def test_rows_in_other_processes_are_all_there_is_on_stdout(
    ask: Ask, home: Home, server: ModelServer, options: list[str]
) -> None:
    ask = install_noisy(ask, home, server)
    server.reply(lambda request: wire.says("yes", whole=not request.json.get("stream")))
    rows = [f"row {number}" for number in range(4)]
    result = ask("map", "-p", "odd", "Say {{line}}", *options, stdin="\n".join(rows).encode(), timeout=120)
    assert result.code == 0, result.stderr[-2000:]
    assert [json.loads(line)["line"] for line in result.text.splitlines()] == rows


@pytest.mark.slow
def test_output_of_hooks_in_map_is_escaped_and_names_the_plugin(ask: Ask, home: Home, server: ModelServer) -> None:
    source = f"""
from ask import ChatCompletions
import os
class Odd(ChatCompletions):
    def provider_build_request(self, request, key):
        print("\\x1b[31mscarlet", key)
        os.write(2, b"more\\n")
        return super().provider_build_request(request, key)
{CHAT}""".replace("needs_key=False", 'key_env="ODD_API_KEY"')
    ask = install_noisy(ask, home, server, source)
    server.reply(lambda request: wire.whole_reply(wire.answer("yes")))
    key = "sk-odd-0123456789abcdef"
    result = ask("map", "-p", "odd", "Say {{line}}", stdin=b"one\n", env={"ODD_API_KEY": key})
    assert result.code == 0
    lines = [line for line in result.stderr.splitlines() if "scarlet" in line or "more" in line]
    assert lines
    assert all(line.startswith("ask: the plugin odd printed: ") for line in lines)
    assert "\x1b" not in result.stderr
    assert key not in result.stderr


SLEEPING = f"""
import time
from ask import ChatCompletions
class Odd(ChatCompletions):
    def provider_build_request(self, request, key):
        try:
            time.sleep(60)
        except Exception:
            pass
        return super().provider_build_request(request, key)
{CHAT}"""
SPINNING = SLEEPING.replace("time.sleep(60)", "exec('while True: pass')")


@pytest.mark.parametrize("source", [SLEEPING, pytest.param(SPINNING, marks=pytest.mark.slow)], ids=["sleep", "loop"])
@pytest.mark.parametrize("command", ["map", pytest.param("compare", marks=pytest.mark.slow)])
def test_hooks_in_threads_have_the_time_limit(
    ask: Ask, home: Home, server: ModelServer, source: str, command: str
) -> None:
    ask = install_noisy(ask, home, server, source)
    if command == "map":
        result = ask("map", "-p", "odd", "--timeout", "1", "Say {{line}}", stdin=b"one\ntwo\n")
    else:
        result = ask("compare", "-p", "odd", "--timeout", "1", "-m", "odd-1", "-m", "odd-2", "hi")
    assert result.code == 4
    assert result.seconds < 15
    assert "provider_build_request took longer than 1 s" in result.stderr
    assert server.requests == []


def test_ctrl_c_ends_a_map_whose_hooks_sleep(ask: Ask, home: Home, server: ModelServer) -> None:
    ask = install_noisy(ask, home, server, SLEEPING.replace("try:", "print('started', flush=True)\n        try:"))
    with ask.start("map", "-p", "odd", "Say {{line}}", stdin=b"one\n") as running:
        running.wait_for("started")
        running.signal()
        running.wait_for("Ctrl-C again")
        running.signal()
        result = running.finish()
    assert result.code == 130


def test_a_process_of_a_plugin_does_not_keep_stdout_open(ask: Ask, home: Home, server: ModelServer) -> None:
    source = f"""
import os, subprocess, time
from ask import ChatCompletions
class Odd(ChatCompletions):
    def provider_build_request(self, request, key):
        if os.fork() == 0:
            time.sleep(8)
            open("ended", "w").close()
            os._exit(0)
        subprocess.Popen(["sh", "-c", "sleep 8; touch ended"])
        return super().provider_build_request(request, key)
{CHAT}"""
    ask = install_noisy(ask, home, server, source)
    server.reply(wire.says("one"))
    result = ask.shell('x=$(ask -p odd hi 2>/dev/null); test -e ended || echo "<$x>"')
    assert result.text == "<one>\n"


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    "ending", ["return super().provider_build_request(request, key)", "raise ValueError", "exit()"]
)
@pytest.mark.parametrize("command", ["-p odd hi", pytest.param("map -p odd {{line}}", marks=pytest.mark.slow)])
def test_a_forked_child_ends_with_its_hook(
    ask: Ask, home: Home, server: ModelServer, command: str, ending: str
) -> None:
    """It would otherwise run on as a second ask. It keeps no pipe open either, on which `cat` waits."""
    source = f"""
import os
from ask import ChatCompletions

class Odd(ChatCompletions):
    def provider_build_request(self, request, key):
        if child := os.fork():
            os.waitpid(child, 0)
            return super().provider_build_request(request, key)
        {ending}
{CHAT}"""
    ask = install_noisy(ask, home, server, source)
    server.reply(wire.says("one"), wire.says("two"))
    result = ask.shell(f"echo row | ask {command} 2>errors | cat; cat errors")
    assert "one" in result.text
    assert "two" not in result.text
    assert "Error" not in result.text
    assert len(server.requests) == 1


@pytest.mark.parametrize("command", ["-p odd hi", pytest.param("map -p odd {{line}}", marks=pytest.mark.slow)])
def test_a_hook_cannot_end_ask_with_success(ask: Ask, home: Home, server: ModelServer, command: str) -> None:
    source = f"""
import os
from ask import ChatCompletions

class Odd(ChatCompletions):
    def provider_build_request(self, request, key):
        os._exit(0)
{CHAT}"""
    result = install_noisy(ask, home, server, source).shell(f"echo row | ask {command}")
    assert (result.code, "os._exit(0)" in result.stderr) == (4, True), result.stderr


@pytest.mark.slow
def test_rows_with_tools_print_nothing_if_the_plugin_prints_nothing(ask: Ask, home: Home, server: ModelServer) -> None:
    """The processes of the rows are forked after output was redirected more than once."""
    server.reply(wire.says("Hello."))
    source = CHAT_PROVIDER.format(name="odd")
    result = install_noisy(ask, home, server, source)("map", "-p", "odd", "--tools", "do {{line}}", stdin=b"1\n2\n3\n")
    assert result.code == 0, result.stderr
    assert "printed" not in result.stderr
    assert "Error" not in result.stderr


@pytest.mark.slow
def test_a_closed_pipe_ends_the_run_silently(ask: Ask, home: Home, server: ModelServer) -> None:
    quiet = f"from ask import ChatCompletions\nclass Odd(ChatCompletions): pass\n{CHAT}"
    ask = install_noisy(ask, home, server, quiet)
    lines = [wire.text(f"line {number}\n") for number in range(40)]
    server.reply(wire.streams(*lines[:2], 0.5, *lines[2:]))
    result = ask.shell('ask -p odd hi | head -n 1; echo "${PIPESTATUS[@]}"')
    assert (result.text, result.stderr) == ("line 0\n0 0\n", "")


@pytest.mark.parametrize("redirection", ["2>&-", "> out 2>&1", "2>/dev/full"])
@pytest.mark.slow
def test_stderr_may_be_closed_or_the_same_file(ask: Ask, home: Home, server: ModelServer, redirection: str) -> None:
    quiet = f"from ask import ChatCompletions\nprint('noise')\nclass Odd(ChatCompletions): pass\n{CHAT}"
    ask = install_noisy(ask, home, server, quiet)
    server.reply(wire.says("one"))
    result = ask.shell(f"ask -p odd hi {redirection}; echo $?; cat out 2>/dev/null")
    lines = result.text.splitlines()
    assert "0" in lines
    assert "one" in lines


@pytest.mark.slow
def test_an_accepted_command_writes_to_the_terminal_on_stdout(ask: Ask, home: Home, server: ModelServer) -> None:
    ask = install_noisy(ask, home, server)
    server.reply(wire.says("```bash\necho $((40 + 2)) > /dev/stdout\n```"))
    result = run_on_terminal(
        ["bash", "-c", "ask -p odd --cmd count 2>errors"], env=ask.env, cwd=ask.cwd, answers=[("ancel)", "r\n")]
    )
    assert result.text.endswith("\n42\n")
    assert "noise" not in result.text


@pytest.mark.slow
def test_an_answer_on_a_terminal_is_laid_out_although_stderr_is_a_file(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    ask = install_noisy(ask, home, server)
    server.reply(wire.says("a **bold** word"))
    result = run_on_terminal(["bash", "-c", "ask -p odd hi 2>errors"], env=ask.env, cwd=ask.cwd)
    assert "\x1b[1mbold" in result.text
    assert "noise" not in result.text
    listing = run_on_terminal(["bash", "-c", "stty cols 200; ask providers 2>errors"], env=ask.env, cwd=ask.cwd)
    assert max(map(len, listing.text.splitlines())) > 80
    statistics = run_on_terminal(["bash", "-c", "stty cols 40; ask history stats 2>errors"], env=ask.env, cwd=ask.cwd)
    assert "odd-1" in statistics.text
    assert "noise" not in statistics.text
    assert max(map(len, statistics.text.splitlines())) <= 40


@pytest.mark.slow
def test_a_chat_prompts_on_stdout_although_stderr_is_a_file(ask: Ask, home: Home, server: ModelServer) -> None:
    quiet = f"from ask import ChatCompletions\nclass Odd(ChatCompletions): pass\n{CHAT}"
    ask = install_noisy(ask, home, server, quiet)
    editor = home.path / "editor"
    editor.write_text('#!/bin/sh\ntest -t 1 && echo on terminal\necho edited > "$1"\n')
    editor.chmod(0o755)
    server.reply(wire.says("one"), wire.says("two"))
    env = {**ask.env, "VISUAL": str(editor)}
    answers = [("m>", "hi\r"), ("one", ""), ("m>", "\x18\x05"), ("on terminal", ""), ("edited", "\r"), ("two", "\x04")]
    result = run_on_terminal(["bash", "-c", "ask chat -p odd 2>errors"], env=env, cwd=ask.cwd, answers=answers)
    assert result.code == 0
    assert server.requests[1].json["messages"][-1]["content"] == "edited"


COMMAND = """
import os, threading, click
@click.command()
def noisy():
    thread = threading.Thread(target=print, args=("from a thread",))
    thread.start(); thread.join()
    os.write(1, b"from os.write\\n")
    os.system("echo from a child")
"""


def test_the_command_of_a_package_owns_stdout(ask: Ask, home: Home) -> None:
    install(home.path / "packages", "ask-noisy", {"noisy": "ask_noisy:noisy"}, {"ask_noisy": COMMAND}, "ask.commands")
    result = with_packages(ask, home.path / "packages")("noisy")
    assert sorted(result.text.splitlines()) == ["from a child", "from a thread", "from os.write"]
    assert result.stderr == ""
