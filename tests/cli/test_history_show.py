"""`ask history show`: a conversation as it was shown on the terminal."""

from __future__ import annotations

import json
import re
import signal
from typing import Any

import pytest

from ask.messages import Attachment, Message, Usage
from tests import wire
from tests.history.saved import NOW, assistant, called, result, save, user
from tests.model_server import DROP, ModelServer
from tests.program import Ask, Home

ECHO = ("bash", {"command": "echo out"})
FAIL = ("bash", {"command": "echo oops >&2; exit 3"})


def body(text: str) -> list[str]:
    """Return the output without the lines with time and role."""
    return [line for line in text.splitlines() if ", openrouter:" not in line]


def test_the_newest_conversation_is_shown_by_default(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(ECHO, FAIL, content="Looking."), wire.says("Done."), wire.says("Again.\n\nYes."))
    asked = ask("first\nquestion")
    identity = asked.stderr.splitlines()[-1].split()[-1] if "conversation" in asked.stderr else ""
    assert ask("--resume", identity or "1", "second").code == 0
    shown = ask("history", "show")
    lines = body(shown.text)
    assert lines[:4] == ["> first", "> question", "Looking.", "· bash: echo out"]
    assert lines[4].startswith("· bash: echo oops")
    assert lines[5].startswith("· exit code: 3 ")
    assert lines[6:] == ["Done.", "", "> second", "Again.", "", "Yes."]
    assert (shown.stderr, shown.code) == ("", 0)


def test_the_system_prompt_that_a_continued_conversation_keeps_is_shown(ask: Ask, server: ModelServer) -> None:
    for _ in range(3):
        server.reply(wire.says("Yes."))
    ask("-s", "Be brief.\nBe kind.", "first")
    ask("--resume", "1", "second")
    ask("--resume", "1", "-s", "Be\x1b[2J wild.", "third")
    assert body(ask("history", "show").text) == [
        *("· system: Be brief.", "· system: Be kind.", "> first", "Yes.", ""),
        *("> second", "Yes.", "", "· system: Be\x1b[2J wild.", "> third", "Yes."),
    ]
    assert body(ask("history", "show", "--last", "1").text)[0] == "· system: Be\x1b[2J wild."


def test_tools_shows_calls_with_arguments_and_results(ask: Ask, home: Home) -> None:
    good = called('{"command": "echo a\\necho b", "timeout": 5}', started=NOW, seconds=0.51, failed=False)
    bad = called("no JSON", "nix", started=NOW, seconds=0.0, failed=True)
    entries = [assistant("Look.", good, bad), result(good, "a\nb\n"), result(bad, "Error: there is no tool")]
    save(home.data / "history.db", "a1", user("q"), *entries, assistant("Done."))
    assert body(ask("history", "show", "--tools", "a1").text) == [
        *("> q", "Look."),
        *("· bash, 0.5 s", "    command: echo a", "    echo b", "    timeout: 5", "  | a", "  | b"),
        *("· nix, 0.0 s, failed", "    no JSON", "  | Error: there is no tool", "Done."),
    ]


def test_failed_runs_show_their_error(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(400, "too bad"))
    assert ask("hi").code == 6
    lines = body(ask("history", "show").text)
    assert lines[0] == "> hi"
    assert lines[1].startswith("· exit code 6: ")
    assert "too bad" in lines[1]


def test_a_partial_answer_is_marked(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("Half an ans"), DROP))
    code = ask("hi").code
    lines = body(ask("history", "show").text)
    assert lines[:3] == ["> hi", "Half an ans", "· the answer was cut off here"]
    assert lines[3].startswith(f"· exit code {code}: ")


def test_killed_run_and_its_unfinished_calls_are_marked(ask: Ask, home: Home) -> None:
    ran, waited = called("{}", started=NOW), called('{"a": 1}')
    entries = [assistant("", ran, waited)]
    save(home.data / "history.db", "a1", user("q"), *entries, ended=None, exit_code=None)
    lines = body(ask("history", "show").text)
    assert lines[2] == "· interrupted; it may or may not have run"
    assert lines[4].startswith("· not run")
    assert lines[5] == "· unfinished: still running, or killed"


def test_summaries_are_labeled(ask: Ask, home: Home) -> None:
    path = home.data / "history.db"
    save(path, "a1", user("q"), assistant("answer"))
    save(path, "a1", user("write a summary"), assistant("What was said."), first_kept_run=1)
    lines = body(ask("history", "show").text)
    assert lines[:2] == ["> q", "answer"]
    assert lines[3].startswith("· a summary")
    assert lines[4:] == ["What was said."]


def test_last_limits_the_number_of_runs(ask: Ask, home: Home) -> None:
    for question in ("one", "two", "three"):
        save(home.data / "history.db", "a1", user(question), assistant(question.upper()))
    assert body(ask("history", "show", "-n", "2").text) == ["> two", "TWO", "", "> three", "THREE"]


def test_json_equals_the_exported_object(ask: Ask, home: Home) -> None:
    save(home.data / "history.db", "a1", user("q"), assistant("yes", usage=Usage(3, 2)), cost=0.5)
    shown = json.loads(ask("history", "show", "--json").stdout)
    assert shown == json.loads(ask("history", "export", "--format", "json").stdout)
    assert shown["runs"][0]["messages"][1]["content"] == "yes"


@pytest.mark.slow
def test_no_control_characters_reach_a_terminal(ask: Ask, home: Home) -> None:
    evil = "\x1b]0;owned\x07\x9b2J\u202egnp.exe"
    record = called(json.dumps({"command": evil, evil: [evil]}), evil, started=NOW, seconds=1.0, failed=True)
    attached = user(evil)._replace(message=Message("user", evil, attachments=(Attachment(evil, "", b"1"),)))
    about: dict[str, Any] = {"provider": evil, "model": evil, "error": evil, "exit_code": 1}
    entries = [assistant(evil, record, reasoning=evil), result(record, evil)]
    save(home.data / "history.db", "a1", attached, *entries, title=evil, **about)
    for command in (["show"], ["show", "--tools"], ["list"], ["search", "gnp"], ["stats"]):
        shown = ask.on_terminal("history", *command, env={"TERM": "dumb"}).stdout.decode()
        assert "\\x1b]0;owned\\x07\\x9b2J\\u202e" in shown or len(shown.split("…")) > 1
        assert not set("\x1b\x07\x9b\u202e") & set(shown)


def test_long_question_is_shortened_on_a_terminal_and_complete_in_a_pipe(ask: Ask, home: Home) -> None:
    long = "word " * 400_000
    save(home.data / "history.db", "a1", user(long), assistant("yes"), title="long")
    shown = ask.on_terminal("history", "show", env={"PAGER": "cat"}).text
    assert len(shown) < 10_000
    assert "1,995,000" in shown
    assert shown.rstrip().endswith("yes")
    assert len(ask("history", "show").text) > len(long)


def test_answers_are_rendered_on_a_terminal(ask: Ask, home: Home) -> None:
    save(home.data / "history.db", "a1", user("q"), assistant("# Title\n\n- **one** and `two`\n"))
    shown = ask.on_terminal("history", "show", env={"PAGER": "cat"}).text
    assert "•" in shown
    assert "**" not in shown
    source = ask.on_terminal("history", "show", env={"TERM": "dumb"}).text
    assert "- **one** and `two`\n" in source


def test_files_and_piped_text_of_a_question_are_cut_on_a_terminal(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.says("A loop."))
    ask("what broke?", stdin="".join(f"line {number}\n" for number in range(300)).encode())
    shown = ask.on_terminal("history", "show", env={"PAGER": "cat"}).text
    assert "what broke?" in shown
    assert "line 11\n" in re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "line 12\n" not in shown
    assert "288 more lines" in shown
    assert "<stdin>" not in shown
    assert "line 299\n" in ask("history", "show").text


@pytest.mark.needs("less")
def test_a_long_conversation_is_paged_on_a_terminal(ask: Ask, home: Home) -> None:
    save(home.data / "history.db", "a1", user("q"), assistant("\n\n".join(f"line {n}" for n in range(100))))
    with ask.start_on_terminal("history", "show") as shown:
        shown.wait_for("line 5")
        assert b"line 60" not in shown.stdout
        shown.type_in("G")
        shown.wait_for("line 99")
        shown.type_in("q")
        assert shown.finish().code == 0


@pytest.mark.needs("less")
def test_the_pager_shows_unicode_in_any_locale(ask: Ask, home: Home) -> None:
    save(home.data / "history.db", "abc", user("grüße 数据"))
    shown = ask.on_terminal("history", "show", env={"LC_ALL": "C", "PAGER": "less"})
    assert (shown.code, "grüße 数据" in shown.text) == (0, True)


@pytest.mark.slow
@pytest.mark.parametrize("pager", ["cat", "no-such-program", "'", "true", "head -n 3"])
def test_any_pager_or_none_ends_without_an_error(pager: str, ask: Ask, home: Home) -> None:
    save(home.data / "history.db", "a1", user("q"), *[assistant("line\n" * 5_000)] * 4)
    assert ask.on_terminal("history", "show", env={"PAGER": pager}).code == 0


@pytest.mark.parametrize("pager", ["false", "sh -c 'cat >/dev/null; exit 3'"])
def test_a_pager_that_fails_is_reported(pager: str, ask: Ask, home: Home) -> None:
    save(home.data / "history.db", "a1", user("q"), assistant("yes"))
    shown = ask.on_terminal("history", "show", env={"PAGER": pager})
    assert (shown.code, "PAGER=cat" in shown.text) == (2, True)


def test_a_signal_ends_the_pager_too(ask: Ask, home: Home) -> None:
    save(home.data / "history.db", "a1", user("q"), assistant("yes"))
    pager = "bash -c 'trap \"echo restored; exit\" TERM; echo shown; while :; do sleep 0.05; done'"
    with ask.start_on_terminal("history", "show", env={"PAGER": pager}) as running:
        running.wait_for("shown")
        running.signal(signal.SIGTERM)
        shown = running.finish()
    assert (shown.code, "restored" in shown.text) == (143, True)


def test_reasoning_is_shown_on_a_terminal_only(ask: Ask, home: Home) -> None:
    save(home.data / "history.db", "a1", user("q"), assistant("yes", reasoning="I wonder"))
    assert "I wonder\n" in ask.on_terminal("history", "show", env={"TERM": "dumb"}).text
    assert "I wonder" not in ask("history", "show").text


@pytest.mark.parametrize(("words", "expected"), [([], "ask: "), (["a1"], "'a1'")])
def test_missing_conversation_is_a_usage_error(words: list[str], expected: str, ask: Ask, home: Home) -> None:
    missing = ask("history", "show", *words)
    assert (missing.code, missing.stdout) == (2, b"")
    assert expected in missing.stderr
    assert not home.data.exists()


def test_a_closed_pipe_ends_the_command_quietly(ask: Ask, home: Home) -> None:
    save(home.data / "history.db", "a1", user("q"), *[assistant("line\n" * 10_000)] * 10)
    left = ask.shell("set -o pipefail; ask history show | head -n 2")
    assert (left.code, left.stderr) == (0, "")
