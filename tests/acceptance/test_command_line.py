"""Command lines: what comes out, where, and with which exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.acceptance.conftest import Model
from tests.acceptance.services import OPENROUTER, Call
from tests.model_server import DROP, HOLD, Reply
from tests.program import TEST_KEY, Ask, Home

VERSION = re.compile(r"\d+\.\d+\.\d+\S*")


def test_the_version_is_printed(ask: Ask) -> None:
    for option in ("--version", "-V"):
        result = ask(option)
        assert (result.code, result.stderr) == (0, "")
        assert VERSION.search(result.text)


@pytest.mark.slow
def test_help_names_every_command(ask: Ask) -> None:
    text = ask("--help").text
    commands = text.partition("Commands:")[2]
    names = re.findall(r"^  (\w+)", commands, re.MULTILINE)
    assert {"chat", "config", "doctor", "history", "init", "keys", "mcp", "models", "templates", "tools"} <= {*names}
    for name in names:
        result = ask(name, "--help")
        assert (result.code, result.stderr) == (0, "")
        assert result.text.startswith(f"Usage: ask {name}")


def test_the_demo_provider_answers_without_a_key_or_a_network(ask: Ask, home: Home) -> None:
    (home.work / "notes.txt").write_text("hello")
    result = ask("-p", "demo", "which files are here?", env={"OPENROUTER_API_KEY": ""})
    assert result.code == 0
    assert "notes.txt" in result.text


WRONG = [
    (["--no-such-option", "hi"], "--no-such-option"),
    (["-p", "opena", "hi"], "openai"),
    (["-f", "missing.txt", "hi"], "missing.txt"),
    (["--schema", "age itn", "hi"], "int"),
    (["history", "show", "nothing"], "nothing"),
]
MORE_WRONG = [
    (["--max-rounds", "0", "hi"], "0"),
    (["--timeout", "soon", "hi"], "soon"),
    (["--disable-tool", "bahs", "hi"], "bash"),
    (["--resume", "nothing", "hi"], "nothing"),
    (["templates", "show", "nothing"], "nothing"),
]


@pytest.mark.parametrize(
    ("arguments", "value"),
    [*WRONG, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE_WRONG)],
    ids=lambda value: "_".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_is_refused_before_anything_is_sent(
    ask: Ask, model: Model, arguments: list[str], value: str
) -> None:
    result = ask(*arguments)
    assert result.code in (2, 4, 9)
    assert (result.stdout, model.bodies) == (b"", [])
    assert value in result.stderr
    assert "Traceback" not in result.stderr


def test_no_question_is_exit_code_2(ask: Ask, model: Model) -> None:
    result = ask(stdin=b"")
    assert (result.code, result.stdout, model.bodies) == (2, b"", [])


def test_a_missing_key_is_exit_code_4_and_says_how_to_set_one(ask: Ask, model: Model) -> None:
    result = ask("hi", env={"OPENROUTER_API_KEY": "", "OPENROUTER_BASE_URL": "https://example.com/api"})
    assert (result.code, result.stdout, model.bodies) == (4, b"", [])
    assert "OPENROUTER_API_KEY" in result.stderr
    assert "ask keys set openrouter" in result.stderr


def test_a_refused_key_is_exit_code_6_and_is_sent_once(ask: Ask, model: Model) -> None:
    refusal = {"error": {"message": "User not found.", "code": 401}}
    model.server.reply(Reply((json.dumps(refusal).encode(),), status=401))
    result = ask("hi")
    assert (result.code, result.stdout, len(model.bodies)) == (6, b"", 1)
    assert "401" in result.stderr
    assert TEST_KEY not in result.stderr


@pytest.mark.parametrize("status", [429, 503, *(pytest.param(status, marks=pytest.mark.slow) for status in (500, 502))])
def test_a_failure_that_may_pass_is_tried_again(ask: Ask, model: Model, status: int) -> None:
    model.server.reply(Reply((b'{"error": {"message": "not now"}}',), status=status))
    model.say("Here I am.")
    result = ask("hi")
    assert (result.code, result.text, len(model.bodies)) == (0, "Here I am.\n", 2)


@pytest.mark.parametrize("status", [400, 500, *(pytest.param(status, marks=pytest.mark.slow) for status in (402, 404))])
def test_a_failure_that_stays_is_an_error_with_its_status_and_reason(ask: Ask, model: Model, status: int) -> None:
    model.server.reply(Reply((b'{"error": {"message": "the reason"}}',), status=status))
    result = ask("hi")
    assert result.code != 0
    assert result.stdout == b""
    assert str(status) in result.stderr
    assert "the reason" in result.stderr


def test_a_server_that_cannot_be_reached_is_an_error_that_names_it(ask: Ask) -> None:
    result = ask("--base-url", "http://127.0.0.1:9/api", "hi")
    assert result.code == 5
    assert "127.0.0.1:9" in result.stderr


def test_silence_is_an_error_after_the_timeout(ask: Ask, model: Model) -> None:
    model.server.reply(Reply((b"", HOLD)))
    result = ask("--timeout", "0.5", "hi", timeout=60)
    assert result.code == 5
    assert "0.5" in result.stderr


def test_a_stream_that_breaks_off_keeps_its_beginning_and_is_exit_code_10(ask: Ask, model: Model) -> None:
    whole = OPENROUTER.reply("one two three four")
    model.server.reply(Reply([*whole.steps[:2], DROP], content_type="text/event-stream"))
    result = ask("hi")
    assert result.code == 10
    assert result.text.startswith("one two")


def test_what_is_piped_in_is_part_of_the_question(ask: Ask, model: Model) -> None:
    model.say("A typo.")
    assert ask("what broke?", stdin=b"error: no such flle\n").text == "A typo.\n"
    [question] = model.last().user
    assert "what broke?" in question
    assert "error: no such flle" in question


def test_standard_input_alone_is_the_question(ask: Ask, model: Model) -> None:
    model.say("Fine.")
    assert ask(stdin=b"how are you?\n").text == "Fine.\n"
    assert model.last().user == ["how are you?"]


@pytest.mark.slow
def test_standard_input_is_left_to_others_with_no_stdin(ask: Ask, model: Model) -> None:
    model.say("ok")
    result = ask.shell("printf 'a\\nb\\n' | while read -r line; do ask --no-stdin \"say $line\"; done")
    assert result.text == "ok\nok\n"
    assert [sent.user for sent in model.transcripts()] == [["say a"], ["say b"]]


def test_text_is_sent_and_printed_as_utf_8_whatever_the_locale(ask: Ask, model: Model) -> None:
    model.say("Grüße, 世界 🌍")
    result = ask("Wie heißt 世界?", env={"LANG": "C", "LC_ALL": "C"})
    assert result.stdout.decode() == "Grüße, 世界 🌍\n"
    assert model.last().user == ["Wie heißt 世界?"]


def test_options_before_the_question_and_words_without_quotes(ask: Ask, model: Model) -> None:
    model.say("It removes files.")
    assert ask("-q", "what", "does", "rm", "-rf", "do").code == 0
    assert model.last().user == ["what does rm -rf do"]


def test_after_two_dashes_everything_is_the_question(ask: Ask, model: Model) -> None:
    model.say("Yes.")
    assert ask("--", "tools", "--help").code == 0
    assert model.last().user == ["tools --help"]


def test_json_is_one_object_that_says_it_all(ask: Ask, model: Model) -> None:
    (ask.cwd / "a.txt").write_text("contents of a")
    model.say("Look. ", Call("read_file", {"filepath": "a.txt"}))
    model.say("Done.")
    result = ask("--json", "read it")
    said = json.loads(result.stdout)
    assert result.stdout.count(b"\n") == 1
    assert (said["provider"], said["model"], said["rounds"]) == ("openrouter", OPENROUTER.model, 1)
    assert (said["exit_code"], said["error"], said["finish"]) == (0, None, "stop")
    assert said["text"].endswith("Done.")
    assert (said["usage"]["input_tokens"], said["usage"]["output_tokens"]) == (20, 10)
    [call] = said["tool_calls"]
    assert (call["name"], json.loads(call["arguments"]), call["failed"]) == ("read_file", {"filepath": "a.txt"}, False)
    assert "contents of a" in call["result"]
    assert re.fullmatch(r"[0-9a-f]{12}", said["conversation"])


def test_events_are_lines_that_add_up_to_the_answer(ask: Ask, model: Model) -> None:
    (ask.cwd / "a.txt").write_text("contents of a")
    model.say("Look.", Call("read_file", {"filepath": "a.txt"}))
    model.say("All done now.")
    lines = [json.loads(line) for line in ask("--events", "read it").text.splitlines()]
    kinds = [line["type"] for line in lines]
    assert kinds[-1] == "result"
    assert kinds.index("tool_call") < kinds.index("tool_result") < kinds.index("result")
    texts = "".join(line["text"] for line in lines if line["type"] == "text")
    assert texts.replace("\n", "") == "Look.All done now."
    assert lines[-1]["exit_code"] == 0


def test_an_error_is_in_the_json_object_too(ask: Ask, model: Model) -> None:
    model.server.reply(Reply((b'{"error": {"message": "the reason"}}',), status=400))
    result = ask("--json", "hi")
    said = json.loads(result.stdout)
    assert said["exit_code"] == result.code != 0
    assert "the reason" in said["error"]


def test_quiet_prints_the_answer_and_nothing_else(ask: Ask, model: Model) -> None:
    (ask.cwd / "a.txt").write_text("contents of a")
    model.say("", Call("read_file", {"filepath": "a.txt"}))
    model.say("Done.")
    result = ask("-q", "read it")
    assert (result.code, result.text, result.stderr) == (0, "Done.\n", "")


def test_code_is_printed_without_what_surrounds_it(ask: Ask, model: Model) -> None:
    model.say("Sure:\n```python\nprint(1)\n```\nThat prints 1.")
    assert ask("--code", "print 1").text == "print(1)\n"


def test_a_command_is_printed_and_not_run_in_a_pipe(ask: Ask, model: Model, home: Home) -> None:
    model.say("touch made")
    assert ask("--cmd", "make a file").text == "touch made\n"
    assert not (home.work / "made").exists()
    assert model.last().tools == []


def test_a_key_can_be_saved_listed_and_removed(ask: Ask) -> None:
    secret = "sk-or-saved-0123456789"
    assert ask("keys", "set", "openrouter", stdin=secret.encode() + b"\n").code == 0
    listed = ask("keys", "list")
    assert "openrouter" in listed.text
    assert secret not in listed.text
    assert ask("keys", "remove", "openrouter").code == 0


def test_a_saved_key_is_used(ask: Ask, model: Model) -> None:
    ask("keys", "set", "openrouter", stdin=b"sk-or-saved-0123456789\n")
    model.say("ok")
    assert ask("hi", env={"OPENROUTER_API_KEY": ""}).code == 0
    assert model.server.requests[0].headers["Authorization"] == "Bearer sk-or-saved-0123456789"


def test_settings_are_set_read_and_obeyed(ask: Ask, model: Model) -> None:
    ask = Ask(
        {name: value for name, value in ask.env.items() if name not in ("ASK_PROVIDER", "ASK_MODEL")},
        ask.cwd,
        installed=True,
    )
    assert ask("config", "set", "provider", "openrouter").code == 0
    assert ask("config", "set", "model", "vendor/from-config").code == 0
    assert ask("config", "get", "model").text.strip().strip('"') == "vendor/from-config"
    model.say("ok")
    assert ask("hi").code == 0
    assert model.bodies[0]["model"] == "vendor/from-config"


def test_every_list_is_json_on_request(ask: Ask) -> None:
    for command in ("providers", "tools", "templates"):
        listed = json.loads(ask(command, "--json").stdout)
        assert listed
    names = {one["name"] for one in json.loads(ask("providers", "--json").stdout)}
    assert {"openrouter", "openai", "anthropic", "ollama", "deepseek", "lmstudio", "moonshot", "xai", "gemini"} <= names


def test_a_named_prompt_brings_its_instructions(ask: Ask, model: Model) -> None:
    model.say("Fix typo")
    assert ask("-t", "commit", stdin=b"diff --git a/x b/x\n-flle\n+file\n").code == 0
    assert "commit" in model.last().system
    assert "+file" in model.last().user[0]


def test_a_closed_pipe_ends_the_run_quietly(ask: Ask, model: Model) -> None:
    model.say("line\n" * 50_000)
    result = ask.shell("ask hi | head -n 1")
    assert (result.text, "Traceback" in result.stderr) == ("line\n", False)


def test_a_full_disk_is_an_error(ask: Ask, model: Model) -> None:
    model.say("hello")
    result = ask.shell("ask hi > /dev/full")
    assert result.code not in (0, 141)
    assert "Traceback" not in result.stderr


def test_completions_come_from_the_program(ask: Ask) -> None:
    for shell in ("bash", "zsh", "fish"):
        result = ask("init", shell)
        assert result.code == 0
        assert "ask" in result.text


def test_it_runs_without_a_home(ask: Ask, model: Model, tmp_path: Path) -> None:
    model.say("ok")
    bare = {name: value for name, value in ask.env.items() if not name.startswith("XDG_")}
    other = Ask({**bare, "HOME": str(tmp_path / "none")}, ask.cwd, installed=True)
    assert other("hi").text == "ok\n"
