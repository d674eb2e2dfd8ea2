"""Loaders of packages: `-f PREFIX:REST` and `-t PREFIX:REST`, and what their mistakes lead to."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ask.cli.completion import BUILTIN_LOADERS as COMPLETED
from ask.inputs.loaders import BUILTIN_LOADERS
from tests import wire
from tests.cli.chat.chat_session import Chat
from tests.inputs.test_attachments import files_in
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home
from tests.sample_files import png
from tests.slow_parameters import mark_others_slow
from tests.third_party_plugins import install

SOURCE = f'''
import asyncio, os, sys, time
import ask

def load(rest):
    return f"the issue {{rest}}"

def load_files(rest):
    return [f"about {{rest}}", ask.Attachment("b.txt", "", b"two"), ask.Attachment("c.png", "", {png()!r})]

async def load_later(rest):
    await asyncio.sleep(0)
    return f"later {{rest}}"

def fail(rest):
    return {{}}[rest]

def explain(rest):
    raise ask.AskError(f"there is no issue {{rest}}", "issues are numbers")

def leave(rest):
    os._exit(3)

def leave_politely(rest):
    sys.exit("bye")

def wait(rest):
    time.sleep(60)

def shout(rest):
    print("shouted", flush=True)
    os.system("echo from a child")
    return "text"

def show_environment(rest):
    return str(dict(os.environ))

def return_number(rest):
    return 5

def return_nothing(rest):
    return None

def return_empty_list(rest):
    return []

def return_bytes(rest):
    return [ask.Attachment("a", "", "text")]

def return_video(rest):
    return ask.Attachment("a.webm", "", b"\\x1a\\x45\\xdf\\xa3\\0" + b"x" * 50)

def tell(rest):
    return ask.PromptTemplate("Tell me {{{{how|briefly}}}}: {{{{input}}}}", "You tell tales.", "Tales")

def tell_wrongly(rest):
    return ask.PromptTemplate(5)

def write_template(rest):
    return """+++
system = "You are brief."
provider = "demo"
model = "expensive"
tools = ["read_file"]
[options]
temperature = 2
+++
About {{{{input}}}}"""

def need_later_version(rest):
    return rest

need_later_version.api_version = 3

class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("nested")

def fail_oddly(rest):
    raise Unprintable

def explain_oddly(rest):
    raise ask.AskError("the tool failed: " + "m" * 100_000)

class Text(str):
    def encode(self, *arguments):
        return 5

def return_subclass(rest):
    return Text("a subclass")

def return_many(rest):
    return ["x"] * int(rest)

def return_long(rest):
    return "x" * int(rest)

def return_long_name(rest):
    return ask.Attachment("n" * 10_000, "", b"text")

def fork(rest):
    return f"child {{os.fork()}}"

def flood(rest):
    for _ in range(20_000):
        os.write(1, b"y" * 65_536)
    return "text"

def load_slowly(rest):
    time.sleep(0.6)
    return rest

calls = []

def count(rest):
    calls.append(rest)
    if rest == "leave":
        os._exit(3)
    return f"call {{len(calls)}}, process {{os.getpid()}}."

class Loader:
    pass
'''
FUNCTIONS = [
    *("load", "load_files", "load_later", "fail", "explain", "leave", "leave_politely", "wait", "shout"),
    *("show_environment", "return_number", "return_nothing", "return_empty_list", "return_bytes", "return_video"),
    *("fail_oddly", "explain_oddly", "return_subclass", "return_many", "return_long", "return_long_name"),
    *("fork", "flood", "count", "load_slowly"),
    *("tell", "tell_wrongly", "write_template", "missing", "Loader", "need_later_version"),
]


@pytest.fixture
def ask(ask: Ask, home: Home, server: ModelServer) -> Ask:
    """A command with the package ask-odd, each function of which is the loader of a prefix, as in `odd-load:`."""
    server.reply(wire.says("yes"))
    entry_points = {f"odd-{name.lower().replace('_', '-')}": f"ask_odd:{name}" for name in FUNCTIONS}
    entry_points |= dict.fromkeys(("git", "https", "mcp", "commit", "Odd", "own"), "ask_odd:load")
    packages = install(home.path / "packages", "ask-odd", entry_points, {"ask_odd": SOURCE}, "ask.loaders")
    return replace(ask, packages=packages)


def asked(server: ModelServer) -> str:
    return wire.asked(server.requests[-1].json)


def test_text_is_attached_under_what_was_typed(ask: Ask, server: ModelServer) -> None:
    result = ask("-f", "odd-load:5: größer", "why?")
    assert (result.code, result.stderr) == (0, "")
    assert asked(server) == 'why?\n\n<file name="odd-load:5: größer">\nthe issue 5: größer\n</file>'


def test_several_files_are_attached_by_their_content(ask: Ask, server: ModelServer) -> None:
    assert ask("-f", "odd-load-files:x", "why?").code == 0
    body = server.requests[-1].json
    question = body["messages"][-1]["content"][0]["text"]
    assert '<file name="odd-load-files:x">\nabout x\n</file>' in question
    assert '<file name="b.txt">\ntwo\n</file>' in question
    assert files_in(body) == [png()]


def test_a_coroutine_is_awaited(ask: Ask, server: ModelServer) -> None:
    assert ask("-f", "odd-load-later:x", "why?").code == 0
    assert "later x" in asked(server)


def test_safe_mode_allows_what_the_user_names(ask: Ask, server: ModelServer) -> None:
    assert ask("--safe-files", "-f", "odd-load:5", "why?").code == 0
    assert "the issue 5" in asked(server)


@pytest.mark.slow
def test_the_process_does_not_get_keys(ask: Ask, server: ModelServer) -> None:
    assert ask.process("-f", "odd-show-environment:", "why?").code == 0
    assert TEST_KEY not in asked(server)
    assert "PYTHONPATH" in asked(server)


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("prefix", "code", "reason"),
    [
        ("fail", 4, "KeyError: 'x' (ask_odd.py, line"),
        ("explain", 9, "there is no issue x: issues are numbers"),
        ("leave", 4, "exit status 3"),
        ("leave-politely", 4, "SystemExit: bye"),
        ("return-number", 4, "int"),
        ("return-nothing", 4, "NoneType"),
        ("return-empty-list", 9, "odd-return-empty-list:x"),
        ("return-bytes", 4, "bytes"),
        ("return-video", 9, "a.webm"),
        ("fail-oddly", 4, "Unprintable (ask_odd.py, line"),
        ("explain-oddly", 9, "ask: the tool failed: mmm"),
        ("tell", 9, "-t odd-tell:x"),
        ("tell-wrongly", 4, "prompt"),
        ("missing", 4, "missing"),
        ("need-later-version", 4, "it needs version 3 of the plugin API, and this ask has version 2: upgrade ask"),
        ("loader", 4, "function"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_loader(
    prefix: str, code: int, reason: str, ask: Ask, server: ModelServer
) -> None:
    result = ask("-f", f"odd-{prefix}:x", "why?")
    assert (result.code, result.stderr.count("\n"), result.stdout) == (code, 1, b"")
    assert reason in result.stderr
    assert len(result.stderr) < 1_100
    assert code == 9 or f"odd-{prefix} (ask-odd)" in result.stderr
    assert not server.requests


def test_a_slow_loader_is_killed(ask: Ask, server: ModelServer) -> None:
    start = time.monotonic()
    result = ask("--command-timeout", "2", "-f", "odd-wait:x", "why?")
    assert result.code == 4
    assert "2 s" in result.stderr
    assert time.monotonic() - start < 20
    assert not server.requests


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    "source",
    [
        "odd-return-many:10001",
        "odd-return-long:60000001",
        pytest.param("odd-return-long:250000000", marks=pytest.mark.slow),
    ],
)
def test_too_much_is_an_error(source: str, ask: Ask, server: ModelServer) -> None:
    result = ask("-f", source, "why?")
    assert (result.code, result.stderr.count("\n")) == (9, 1)
    assert "60 MB or 10,000 files" in result.stderr
    assert not server.requests


@pytest.mark.slow
def test_odd_texts_and_names_are_attached(ask: Ask, server: ModelServer) -> None:
    result = ask("-f", "odd-return-many:10000", "-f", "odd-return-subclass:", "-f", "odd-return-long-name:", "why?")
    assert (result.code, result.stderr) == (0, "")
    assert "a subclass" in asked(server)
    assert '<file name="nnn' in asked(server)
    assert "n" * 255 not in asked(server)


def test_a_forked_process_returns_nothing(ask: Ask, server: ModelServer) -> None:
    result = ask("-f", "odd-fork:", "why?")
    assert (result.code, result.stderr) == (0, "")
    assert "child 0" not in asked(server)


@pytest.mark.slow
def test_endless_output_is_cut(ask: Ask) -> None:
    result = ask.shell("ulimit -v 1000000; ask -f odd-flood: why?", timeout=90)
    assert (result.code, result.stderr.count("\n")) == (0, 1)
    assert len(result.stderr) < 400


def test_what_a_loader_prints_is_a_notice(ask: Ask) -> None:
    result = ask("-f", "odd-shout:x", "why?")
    assert result.text == "yes\n"
    assert result.stderr.count("\n") == 1
    assert "odd-shout (ask-odd)" in result.stderr
    assert "shouted from a child" in result.stderr


@pytest.mark.parametrize("source", mark_others_slow(["https:x", "mcp:x", "Odd:x", "unknown:x"]))
def test_other_prefixes_are_names_of_files(source: str, ask: Ask, server: ModelServer) -> None:
    result = ask("-f", source, "why?")
    assert result.code == 9
    (ask.cwd / source).write_text("a file")
    assert ask("-f", source, "why?").code == 0
    assert "a file" in asked(server)


def test_a_built_in_loader_and_an_existing_file_come_first(ask: Ask, server: ModelServer) -> None:
    assert "repository" in ask("-f", "git:HEAD", "why?").stderr
    (ask.cwd / "odd-load:5").write_text("a file")
    assert ask("-f", "odd-load:5", "why?").code == 0
    assert "a file" in asked(server)


def test_a_misspelled_prefix_is_suggested(ask: Ask) -> None:
    result = ask("-f", "odd-laod:5", "why?")
    assert result.code == 9
    assert "odd-load:5?" in result.stderr


def test_two_packages_with_one_prefix_are_named(ask: Ask, home: Home, server: ModelServer) -> None:
    install(home.path / "packages", "ask-twin", {"odd-load": "ask_odd:load"}, {}, "ask.loaders")
    result = ask("-f", "odd-load:5", "why?")
    assert result.code == 4
    assert all(name in result.stderr for name in ("ask-odd", "ask-twin", "uninstall"))
    assert not server.requests


def test_nothing_is_loaded_unless_it_is_named(ask: Ask, home: Home) -> None:
    install(home.path / "packages", "ask-bad", {"bad": "ask_bad:load"}, {"ask_bad": "raise ValueError"}, "ask.loaders")
    for arguments in (["why?"], ["--help"], ["--complete", "resources"], ["-f", "odd-load:1", "why?"]):
        result = ask(*arguments)
        assert (result.code, result.stderr) == (0, "")


def test_prefixes_are_completed(ask: Ask) -> None:
    for kind in ("resources", "prompts"):
        words = [line.partition("\t")[0] for line in ask("--complete", kind).text.splitlines()]
        assert {"git:", "gh:", "github:", "odd-load:"} <= set(words)
    assert {prefix.removesuffix(":") for prefix in COMPLETED} == set(BUILTIN_LOADERS)


@pytest.mark.slow
def test_doctor_names_unusable_loaders(ask: Ask) -> None:
    rows = json.loads(ask("doctor", "--offline", "--json").text)
    found = {row["found"]: row["state"] for row in rows if row["check"] == "ask-odd"}
    assert found["loader: odd-load:"] == "ok"
    assert {state for text, state in found.items() if "'https'" in text or "'Odd'" in text} == {"warning"}
    assert [state for text, state in found.items() if "odd-missing" in text] == ["problem"]


@pytest.mark.slow
def test_a_chat_attaches_with_file(ask: Ask, server: ModelServer) -> None:
    with Chat(ask) as chat:
        chat.send("/file odd-load:5")
        chat.send("why?")
        chat.complete("/file odd-loa", "odd-load:")
        chat.quit("\x15\x04")
    assert "the issue 5" in asked(server)


# Templates


@pytest.mark.slow
def test_a_template_of_a_loader_is_filled_in(ask: Ask, server: ModelServer) -> None:
    assert ask("-t", "odd-tell:x", "--var", "how=loudly", "a tale").code == 0
    assert asked(server) == "Tell me loudly: a tale"
    assert "You tell tales." in str(server.requests[-1].json["messages"][0])
    result = ask("-t", "odd-tell:x", "--var", "who=you", "a tale")
    assert result.code == 2
    assert "odd-tell:x" in result.stderr


@pytest.mark.slow
def test_a_loaded_template_can_only_leave_out_tools(ask: Ask, server: ModelServer) -> None:
    """The provider, model and options stay those that the user has chosen."""
    assert ask("-m", wire.MODEL, "--no-tools", "before").code == 0
    before = server.requests[-1].json
    result = ask("-m", wire.MODEL, "-t", "odd-write-template:x", "tea")
    assert result.code == 0
    body = server.requests[-1].json
    assert asked(server) == "About tea"
    assert body["model"] == before["model"]
    assert "temperature" not in body
    assert [tool["function"]["name"] for tool in body["tools"]] == ["read_file"]
    assert result.stderr.count("\n") == 1
    assert all(key in result.stderr for key in ("provider", "model", "options"))
    assert ask("--no-tools", "-t", "odd-write-template:x", "tea").code == 0
    assert "tools" not in server.requests[-1].json


@pytest.mark.slow
def test_a_text_is_a_template_and_files_are_not(ask: Ask, server: ModelServer) -> None:
    assert ask("-t", "odd-load:5", "why?").code == 0
    assert asked(server) == "the issue 5\n\nwhy?"
    result = ask("-t", "odd-load-files:5", "why?")
    assert result.code == 9
    assert "-f odd-load-files:5" in result.stderr


def test_a_template_of_that_name_comes_first(ask: Ask, home: Home, server: ModelServer) -> None:
    assert ask("-t", "commit:body", "a diff").code == 0
    assert "the issue" not in asked(server)
    folder = home.config / "templates"
    folder.mkdir(parents=True)
    (folder / "own.md").write_text('+++\n[tasks]\nshort = "in short"\n+++\nat length')
    assert ask("-t", "own:short", "x").code == 0
    assert asked(server) == "in short\n\nx"


@pytest.mark.slow
def test_a_template_can_be_read_before_it_is_used(ask: Ask, server: ModelServer) -> None:
    shown = ask("templates", "show", "odd-tell:x").text
    assert "You tell tales." in shown
    assert "Tell me" in shown
    assert json.loads(ask("templates", "show", "odd-tell:x", "--json").text)["description"] == "Tales"
    assert not server.requests


# ask map


@pytest.mark.slow
def test_map_reads_templates_and_files_of_loaders(ask: Ask, server: ModelServer) -> None:
    result = ask("map", "-m", wire.MODEL, "-t", "odd-tell:x", "--input-format", "lines", "-", stdin=b"one\ntwo\n")
    assert result.code == 0, result.stderr
    assert sorted(map(wire.asked, (request.json for request in server.requests))) == [
        "Tell me briefly: one",
        "Tell me briefly: two",
    ]


@pytest.mark.slow
def test_a_row_fills_in_what_follows_a_prefix(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "rows.csv").write_text("n\n5\n")
    result = ask("map", "-m", wire.MODEL, "what? {{n}}", "-f", "odd-load:{{n}}", "rows.csv")
    assert result.code == 0, result.stderr
    assert "the issue 5" in asked(server)


@pytest.mark.slow
def test_one_process_serves_the_rows_until_it_ends(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "rows.csv").write_text("n\n1\n2\nleave\n4\n")
    result = ask("map", "-m", wire.MODEL, "what? {{n}}", "-f", "odd-count:{{n}}", "rows.csv")
    assert result.code == 12
    texts = "".join(wire.asked(request.json) for request in server.requests)
    answers = dict(re.findall(r"odd-count:(\d)\">\n(call \d, process \d+)", texts))
    assert {row: text[:6] for row, text in answers.items()} == {"1": "call 1", "2": "call 2", "4": "call 1"}
    pids = {int(text.rpartition(" ")[2]) for text in answers.values()}
    assert len(pids) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.slow
def test_slow_loaders_delay_neither_answers_nor_ctrl_c(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "rows.csv").write_text("n\n" + "".join(f"{number}\n" for number in range(50)))
    with ask.start("map", "-m", wire.MODEL, "what? {{n}}", "-f", "odd-load-slowly:{{n}}", "rows.csv") as running:
        server.wait_for_requests(1)
        running.signal()
        result = running.finish()
    assert result.code == 130
    assert len(server.requests) < 25


@pytest.mark.parametrize("file", mark_others_slow(["odd-load:5", "git:HEAD"]))
def test_a_row_cannot_choose_a_loader(file: str, ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "rows.csv").write_text(f"n\n{file}\n")
    result = ask("map", "-m", wire.MODEL, "what? {{n}}", "-f", "{{n}}", "rows.csv")
    assert result.code == 12
    assert not server.requests
    (ask.cwd / file).write_text("a file")
    assert ask("map", "-m", wire.MODEL, "what? {{n}}", "-f", "{{n}}", "rows.csv").code == 0
    assert "a file" in asked(server)


def test_a_row_cannot_read_the_clipboard(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "rows.csv").write_text("n\nclipboard:\n")
    for _ in range(2):
        assert ask("map", "-m", wire.MODEL, "what? {{n}}", "-f", "{{n}}", "rows.csv").code == 12
        (ask.cwd / "clipboard:").write_text("a file")
    assert not server.requests
