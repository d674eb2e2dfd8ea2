"""Scenarios: confirmations, disabled tools, redacted keys and the log of tool calls."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests import wire
from tests.model_server import ModelServer, Reply
from tests.program import CTRL_C, TEST_KEY, Ask, Home, run_on_terminal
from tests.saved_history import read_saved_runs
from tests.scenarios.sent_requests import check_sent_requests, list_offered_tools, read_tool_results
from tests.slow_parameters import mark_others_slow
from tests.tool_names import DEFAULT_TOOLS
from tests.undo.runs import tree

TOUCH = ("bash", {"command": "echo x >> ran"})
PROMPT = "Run this? "
EXTENT = "Which? "
CHANGE = "Make this change? "
EDIT = "Command: "
CTRL_U = "\x15"
OTHER_KEYS = {
    "OPENAI_API_KEY": "sk-openai-0123456789",
    "AI_DEEPSEEK_API_KEY": "sk-deepseek-0123456789",
    "GOOGLE_API_KEY": "AIza-0123456789",
    "GROK_API_KEY": "xai-0123456789",
}


def test_the_confirmation_shows_command_directory_and_timeout(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "make test\necho done"})), wire.says("You declined."))
    result = ask.on_terminal("--confirm", "--command-timeout", "7", "Run the tests", answers=[(PROMPT, "n")])
    question = result.text[result.text.index("The model wants") : result.text.index("  y  Allow")]
    assert unwrap_lines(question) == [
        "The model wants to call bash:",
        "  command: make test",
        "  | echo done",
        f"  in {ask.cwd}, for at most 7 s",
    ]
    assert "You declined." in result.text


def test_yes_runs_the_command(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(TOUCH, ("bash", {"command": "echo y >> ran"})), wire.says("It ran."))
    result = ask.on_terminal("--confirm", "Run it", answers=[(PROMPT, "y"), (PROMPT, "Y")])
    assert result.code == 0
    assert (ask.cwd / "ran").read_text() == "x\ny\n"
    assert all(text.startswith("exit code: 0") for text in read_tool_results(check_sent_requests(server)[1]))


@pytest.mark.parametrize("answers", mark_others_slow([["\x1b"], ["\x04"], ["yep\n", "n"]], [["\x1b"]]))
def test_any_other_response_declines_the_call(ask: Ask, server: ModelServer, answers: list[str]) -> None:
    server.reply(wire.calls(TOUCH), wire.says("You declined."))
    result = ask.on_terminal("--confirm", "Run it", answers=[(PROMPT, answer) for answer in answers])
    assert result.code == 0
    assert not (ask.cwd / "ran").exists()
    assert is_declined(read_tool_results(check_sent_requests(server)[1]))


def test_the_model_gets_the_reason_for_a_no(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.calls(TOUCH), wire.says("I will."))
    result = ask.on_terminal(
        "--confirm", "Run it", answers=[(PROMPT, "w"), ("Tell the model: ", "use größe instead\n")]
    )
    assert result.code == 0
    assert not (ask.cwd / "ran").exists()
    [reply] = read_tool_results(check_sent_requests(server)[1])
    assert reply.endswith("declined by the user: use größe instead")
    assert [(line["decision"], line["rule"]) for line in home.read_tool_log()] == [("deny", "--confirm: no")]


def test_every_call_with_side_effects_is_confirmed(ask: Ask, server: ModelServer, home: Home) -> None:
    (ask.cwd / "old").write_text("1")
    server.reply(
        wire.calls(
            ("list_dir", {"dirpath": "."}),
            ("write_file", {"filepath": "new", "content": "1"}),
            ("read_file", {"filepath": "old"}),
            ("edit_file", {"filepath": "old", "old_text": "1", "new_text": "2"}),
            TOUCH,
        ),
        wire.says("Done."),
    )
    result = ask.on_terminal("--confirm", "Do it", answers=[(CHANGE, "y"), (CHANGE, "n"), (PROMPT, "y")])
    assert result.code == 0
    assert (result.text.count(CHANGE), result.text.count(PROMPT)) == (2, 1)
    assert {path.name: path.read_text() for path in ask.cwd.iterdir()} == {"old": "1", "new": "1", "ran": "x\n"}
    assert is_declined(read_tool_results(check_sent_requests(server)[1])[3:4])
    assert [(line["decision"], line["rule"]) for line in home.read_tool_log()] == [
        ("allow", "reads only"),
        ("allow", "--confirm: yes"),
        ("allow", "reads only"),
        ("deny", "--confirm: no"),
        ("allow", "--confirm: yes"),
    ]


def test_input_typed_before_the_confirmation_is_ignored(ask: Ask, server: ModelServer) -> None:
    typed = threading.Event()
    answer = [wire.event(chunk) for chunk in wire.stream(None, [TOUCH])]
    server.reply(Reply([b"", typed, *answer, wire.sse()], content_type="text/event-stream"), wire.says("You declined."))
    with ask.start_on_terminal("--confirm", "Run it") as running:
        server.wait_for_requests(1)
        running.type_in("y\n")
        running.wait_for("y\r\n")  # the terminal's echo
        typed.set()
        running.wait_for(PROMPT)
        running.type_in("n")
        assert running.finish().code == 0
    assert not (ask.cwd / "ran").exists()
    assert is_declined(read_tool_results(check_sent_requests(server)[1]))


@pytest.mark.slow
def test_yes_on_standard_input_does_not_confirm(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(TOUCH), wire.says("You declined."))
    command = ["bash", "-c", "printf 'yes\\nyes\\n' | ask --confirm 'Run it'"]
    result = run_on_terminal(command, env=ask.env, cwd=ask.cwd, answers=[(PROMPT, "n")])
    assert result.code == 0
    assert not (ask.cwd / "ran").exists()
    assert is_declined(read_tool_results(check_sent_requests(server)[1]))


def test_calls_are_denied_without_a_terminal(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.calls(("list_dir", {"dirpath": "."}), TOUCH), wire.says("I may not."))
    result = ask("--confirm", "Run it", stdin=b"yes\nyes\n")
    assert (result.text, result.code) == ("I may not.\n", 8)
    assert [line for line in result.stderr.splitlines() if "bash" in line] == ["· bash: echo x >> ran · not run"]
    assert "--yes" in result.stderr.splitlines()[-1]
    assert "denied" not in result.stderr.splitlines()[-2]  # "not run" and "refused" say it
    assert not (ask.cwd / "ran").exists()
    assert read_tool_results(check_sent_requests(server)[1])[1].startswith("Error: denied")
    assert [line["rule"] for line in home.read_tool_log()] == ["reads only", "--confirm: no terminal"]
    server.reply(wire.calls(TOUCH), wire.says("I may not."))
    refused, _ = ask("-q", "--confirm", "Run it", stdin=b"").stderr.splitlines()
    assert refused == "ask: bash: echo x >> ran refused: no terminal to confirm on"


def list_visible_files(work: Path) -> dict[str, tuple[object, ...]]:
    """List all files except the placeholders that a safe run shows for protected names."""
    return {path: found for path, found in tree(work).items() if not Path(path).name.startswith(".")}


def swap_for_link(work: Path) -> None:
    (work / "f").unlink()
    (work / "f").symlink_to("other")


def swap_folder(work: Path) -> None:
    (work / "d").rename(work / "moved")
    (work / "d").mkdir()
    (work / "d/f").write_text("a\n")


def swap_folder_for_link(work: Path) -> None:
    swap_folder(work)
    (work / "d/f").unlink()
    (work / "d").rmdir()
    (work / "d").symlink_to("other.d")


def change_content(work: Path) -> None:
    (work / "f").write_text("a\nvaluable\n")


def create_file(work: Path) -> None:
    (work / "new/f").parent.mkdir()
    (work / "new/f").write_text("a\n")


SWAPS: dict[Callable[[Path], None], str] = {
    swap_for_link: "f",
    swap_folder: "d/f",
    swap_folder_for_link: "d/f",
    change_content: "f",
    create_file: "new/f",
}
IN_EVERY_RUN = {
    ("write_file", swap_folder_for_link, "--safe"),
    ("write_file", change_content, ""),
    ("edit_file", create_file, "--safe"),
}


@pytest.mark.parametrize(
    ("tool", "swap", "mode"),
    [
        pytest.param(
            *case,
            marks=[pytest.mark.slow] * (case not in IN_EVERY_RUN) + [pytest.mark.needs("bwrap")] * ("--safe" in case),
        )
        for case in itertools.product(("write_file", "edit_file"), SWAPS, ("", "--safe"))
    ],
)
def test_a_file_swapped_after_its_diff_was_shown_is_not_written(
    ask: Ask, server: ModelServer, tool: str, swap: Callable[[Path], None], mode: str
) -> None:
    name = SWAPS[swap]
    work = ask.cwd
    for folder in ("d", "other.d"):
        (work / folder).mkdir()
    for path in ("f", "d/f", "other", "other.d/f"):
        (work / path).write_text("a\n")
    arguments = {"content": "b\n"} if tool == "write_file" else {"old_text": "a", "new_text": "b"}
    server.reply(wire.calls((tool, {"filepath": name, **arguments})), wire.says("It failed."))
    with ask.start_on_terminal("--confirm", *mode.split(), "Do it") as running:
        running.wait_for(CHANGE)
        swap(work)
        before = list_visible_files(work)
        running.type_in("y")
        assert running.finish().code == 0
    assert read_tool_results(check_sent_requests(server)[1])[0].startswith("Error: ")
    assert list_visible_files(work) == before


@pytest.mark.parametrize(
    "safe",
    [pytest.param((), marks=pytest.mark.slow), pytest.param(("--safe",), marks=pytest.mark.needs("bwrap"))],
    ids=["outside safe mode", "safe"],
)
def test_approved_files_are_written_through_links_and_into_new_folders(
    ask: Ask, server: ModelServer, home: Home, safe: tuple[str, ...]
) -> None:
    (home.work / "f").write_text("a\n")
    (home.work / "link").symlink_to("f")
    (home.work / "loop").symlink_to("loop")
    server.reply(
        wire.calls(
            ("edit_file", {"filepath": "link", "old_text": "a", "new_text": "b"}),
            ("write_file", {"filepath": "deep/er/new", "content": "c"}),
            ("write_file", {"filepath": "loop", "content": "d"}),
            *((("write_file", {"filepath": "/tmp/in the sandbox", "content": "e"}),) if safe else ()),
        ),
        wire.says("Done."),
    )
    answers = [(CHANGE, "y")] * (4 if safe else 3)
    assert ask.on_terminal("--confirm", *safe, "Do it", answers=answers).code == 0
    assert (home.work / "link").readlink() == Path("f")
    assert (home.work / "f").read_text() == "b\n"
    assert (home.work / "deep/er/new").read_text() == "c"
    tool_result = read_tool_results(check_sent_requests(server)[1])
    assert tool_result[2].startswith("Error: ")
    assert not safe or tool_result[3].startswith("created")


def test_ctrl_c_at_the_confirmation_ends_the_run(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.calls(TOUCH, ("list_dir", {"dirpath": "."})))
    result = ask.on_terminal("--confirm", "Run it", answers=[(PROMPT, CTRL_C)])
    assert result.code == 130
    assert not (ask.cwd / "ran").exists()
    assert len(check_sent_requests(server)) == 1
    assert [(line["tool"], line["decision"], line["rule"]) for line in home.read_tool_log()] == [
        ("bash", "deny", "interrupted"),
        ("list_dir", "deny", "interrupted"),
    ]


@pytest.mark.parametrize("options", [(), pytest.param(("--plain",), marks=pytest.mark.slow)], ids=["live", "plain"])
def test_the_screen_and_the_history_contain_the_edited_command(
    ask: Ask, server: ModelServer, home: Home, options: tuple[str, ...]
) -> None:
    server.reply(wire.calls(TOUCH, ("bash", {"command": "echo untouched"})), wire.says("Done."))
    edited = [(PROMPT, "e"), (EDIT + "echo x >> ran", CTRL_U + "echo y > different\n"), (PROMPT, "y")]
    result = ask.on_terminal("--confirm", *options, "Run it", answers=edited)
    assert result.code == 0
    assert (ask.cwd / "different").exists()
    assert not [line for line in result.text.splitlines() if "· bash" in line], "both are in the questions"
    assert "Command: " in result.text
    calls = read_saved_runs(home)[0].entries[1].message.tool_calls
    assert [json.loads(call.arguments)["command"] for call in calls] == ["echo y > different", "echo untouched"]
    [repeated] = [one["tool_calls"] for one in check_sent_requests(server)[1]["messages"] if "tool_calls" in one]
    assert [call["function"]["arguments"] for call in repeated] == [call.arguments for call in calls]
    shown = ask("history", "show", result.conversation).text
    assert "echo y > different" in shown
    assert "echo x" not in shown
    assert ask("history", "search", "different").code == 0
    assert ask("history", "search", "ran").stdout == b""
    ask("--resume", result.conversation, "And now?")
    assert "echo x" not in server.requests[-1].body.decode()


@pytest.mark.slow
def test_events_contain_the_edited_command(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.calls(TOUCH), wire.says("Done."))
    edited = [(PROMPT, "e"), (EDIT + "echo x >> ran", CTRL_U + "echo y > different\n")]
    command = ["bash", "-c", "ask --confirm --events 'Run it' > events"]
    assert run_on_terminal(command, env=ask.env, cwd=ask.cwd, answers=edited).code == 0
    events = [json.loads(line) for line in (ask.cwd / "events").read_text().splitlines()]
    commands = [json.loads(event["arguments"])["command"] for event in events if "arguments" in event]
    assert commands == ["echo y > different"] * 2


@pytest.mark.parametrize("options", [("--confirm", "--yes"), ("--confirm", "-y")])
def test_the_yes_option_asks_nothing(ask: Ask, server: ModelServer, home: Home, options: tuple[str, ...]) -> None:
    server.reply(wire.calls(TOUCH), wire.says("It ran."))
    result = ask(*options, "Run it")
    assert (result.text, result.code) == ("It ran.\n", 0)
    assert (ask.cwd / "ran").exists()
    assert [line["rule"] for line in home.read_tool_log()] == ["--yes"]


@pytest.mark.slow
def test_always_applies_to_the_chosen_calls_in_this_run(ask: Ask, server: ModelServer, home: Home) -> None:
    write = ("write_file", {"filepath": "new", "content": "1"})
    server.reply(wire.calls(TOUCH, write), wire.calls(TOUCH), wire.says("Done."))
    server.reply(wire.calls(TOUCH), wire.says("You declined."))
    answers = [(PROMPT, "m"), (EXTENT, "1"), (CHANGE, "n")]
    assert ask.on_terminal("--confirm", "Do it", answers=answers).code == 0
    assert (ask.cwd / "ran").read_text() == "x\nx\n"
    assert not (ask.cwd / "new").exists()
    assert [(line["tool"], line["decision"], line["rule"]) for line in home.read_tool_log()] == [
        ("bash", "allow", "--confirm: always"),
        ("write_file", "deny", "--confirm: no"),
        ("bash", "allow", "approved: command"),
    ]
    assert ask.on_terminal("--confirm", "Do it", answers=[(PROMPT, "n")]).code == 0
    assert (ask.cwd / "ran").read_text() == "x\nx\n"


def test_an_approval_for_the_folder_is_remembered_until_it_is_forgotten(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    log = ("bash", {"command": "ls -l; ls"})
    server.reply(*([wire.calls(log), wire.says("Done.")] * 4))
    assert ask.on_terminal("--confirm", "Do it", answers=[(PROMPT, "a")]).code == 0
    assert ask("--confirm", "Do it").code == 0
    assert replace(ask, cwd=home.path)("--confirm", "Do it").code == 8
    [row] = json.loads(ask("tools", "approvals", "--json").text)
    assert (row["approves"], row["value"], row["folder"]) == ("program", "ls", str(ask.cwd))
    assert (home.data / "approvals.json").stat().st_mode & 0o777 == 0o600
    assert ask("tools", "forget", row["id"]).code == 0
    assert ask("--confirm", "Do it").code == 8
    assert [line["rule"] for line in home.read_tool_log()] == [
        *("--confirm: always", "approved: program ls"),
        *("--confirm: no terminal", "--confirm: no terminal"),
    ]


def test_the_approval_of_a_command_with_a_key_ends_with_the_run(ask: Ask, server: ModelServer, home: Home) -> None:
    command = ("bash", {"command": f"echo {TEST_KEY} >> ran"})
    server.reply(wire.calls(command, command), wire.says("Done."), wire.calls(command), wire.says("Denied."))
    first = ask.on_terminal("--confirm", "Do it", answers=[(PROMPT, "m"), (EXTENT, "3")])
    assert (first.code, (home.work / "ran").read_text()) == (0, f"{TEST_KEY}\n" * 2)
    assert "for this run only" in " ".join(first.text.split())
    assert not (home.data / "approvals.json").exists()
    assert ask("--confirm", "Do it").code == 8


def test_allowed_and_denied_commands_are_not_confirmed(ask: Ask, server: ModelServer, home: Home) -> None:
    home.configure('[tools]\nallow = ["touch *"]\ndeny = ["git push", "write_file"]\n')
    commands = ["touch a", "cd . && git push", "touch b > c"]
    calls = [("bash", {"command": command}) for command in commands]
    server.reply(wire.calls(*calls, ("write_file", {"filepath": "d", "content": ""})), wire.says("Done."))
    assert ask("--confirm", "Do it").code == 8
    assert [path.name for path in ask.cwd.iterdir()] == ["a"]
    assert [(line["decision"], line["rule"]) for line in home.read_tool_log()] == [
        ("allow", "allow: touch *"),
        ("deny", "deny: git push"),
        ("deny", "--confirm: no terminal"),
        ("deny", "deny: write_file"),
    ]
    tool_result = read_tool_results(check_sent_requests(server)[1])
    assert "git push" in tool_result[1]


def test_an_invalid_rule_is_an_error_before_anything_is_sent(ask: Ask, server: ModelServer, home: Home) -> None:
    home.configure('[tools]\ndeny = ["git push; ls"]\n')
    result = ask("Do it")
    assert (result.code, server.requests) == (4, [])
    assert "tools.deny" in result.stderr


# A program of the same name, earlier on PATH, is run should the command be let through.
REBOOT = ("bash", {"command": "reboot"})


@pytest.fixture
def fake_reboot(ask: Ask, home: Home) -> Ask:
    programs = home.path / "programs"
    programs.mkdir()
    (programs / "reboot").write_text("#!/bin/sh\necho rebooted >> ran\n")
    (programs / "reboot").chmod(0o755)
    return replace(ask, env={**ask.env, "PATH": f"{programs}:{ask.env['PATH']}"})


def test_a_dangerous_command_is_confirmed_even_with_yes(fake_reboot: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.calls(REBOOT, REBOOT), wire.says("Done."))
    assert fake_reboot.on_terminal("--yes", "Do it", answers=[(PROMPT, "n"), (PROMPT, "y")]).code == 0
    assert (home.work / "ran").read_text() == "rebooted\n"
    assert [line["rule"] for line in home.read_tool_log()] == [
        "dangerous command: reboot: no",
        "dangerous command: reboot: yes",
    ]


@pytest.mark.parametrize("options", [(), ("--yes",), pytest.param(("--safe",), marks=pytest.mark.needs("bwrap"))])
def test_a_dangerous_command_is_refused_without_a_terminal(
    fake_reboot: Ask, server: ModelServer, home: Home, options: tuple[str, ...]
) -> None:
    server.reply(wire.calls(REBOOT), wire.says("It was refused."))
    result = fake_reboot(*options, "Do it")
    assert (result.text, result.code) == ("It was refused.\n", 8)
    assert "reboot" in result.stderr
    assert not (home.work / "ran").exists()
    assert read_tool_results(check_sent_requests(server)[1])[0].startswith("Error: denied")


def test_a_command_can_be_edited_and_the_model_is_informed(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.calls(TOUCH), wire.says("You changed it."))
    answers = [(PROMPT, "e"), (EDIT + "echo x >> ran", CTRL_U + "echo y > other\n")]
    result = ask.on_terminal("--confirm", "Run it", answers=answers)
    assert result.code == 0
    assert [path.name for path in ask.cwd.iterdir()] == ["other"]
    [tool_result] = read_tool_results(check_sent_requests(server)[1])
    assert "echo y > other" in tool_result
    assert tool_result.endswith("exit code: 0")
    [line] = home.read_tool_log()
    assert (line["decision"], line["rule"]) == ("allow", "--confirm: edited")
    assert json.loads(line["arguments"]) == {"command": "echo y > other"}


def test_ctrl_c_while_editing_ends_the_run(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.calls(TOUCH))
    result = ask.on_terminal("--confirm", "Run it", answers=[(PROMPT, "e"), (EDIT + "echo x >> ran", CTRL_C)])
    assert result.code == 130
    assert list(ask.cwd.iterdir()) == []
    assert [line["rule"] for line in home.read_tool_log()] == ["interrupted"]


def test_the_confirmation_of_a_write_shows_the_diff(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "old").write_text("a\nb\n")
    server.reply(
        wire.calls(
            ("write_file", {"filepath": "new", "content": "1\n"}),
            ("edit_file", {"filepath": "old", "old_text": "b", "new_text": "\x1bc"}),
        ),
        wire.says("You declined."),
    )
    shown = ask.on_terminal("--confirm", "--command-timeout", "7", "Do it", answers=[(CHANGE, "n")] * 2).text
    assert "\x1b[31m  | -b\x1b[0m" in shown
    plain = re.sub(r"\x1b\[\d+m", "", shown)
    new, old = (part.split("  y  Allow")[0] for part in plain.split("The model wants to call ")[1:])
    assert unwrap_lines(new) == ["write_file:", "  filepath: new", f"  the new file {ask.cwd}/new:", "  | +1"]
    assert unwrap_lines(old) == [
        *("edit_file:", "  filepath: old", f"  the changes to {ask.cwd}/old:"),
        *("  | @@ -1,2 +1,2 @@", "  |  a", "  | -b", r"  | +\x1bc"),
    ]


def test_invisible_characters_in_a_command_are_shown_in_the_confirmation(ask: Ask, server: ModelServer) -> None:
    hostile = "ls \x1b[2K\r\x1b[1A\u202eevil\u200b \u0440m \x9b2J" + " " * 2_000 + "; touch ran \x07"
    server.reply(wire.calls(("bash", {"command": hostile})), wire.says("No."))
    result = ask.on_terminal("--confirm", "List", answers=[(PROMPT, "n")])
    question = result.text[result.text.index("The model wants") : result.text.index(PROMPT)]
    assert all(" " <= character <= "~" or character == "\n" for character in question)
    assert "".join(question.splitlines()[1:3]).replace("  > ", "") == (
        r"  command: ls \x1b[2K\x0d\x1b[1A\u202eevil\u200b \u0440m \x9b2J[2000 spaces]; touch ran \x07"
    )
    assert not (ask.cwd / "ran").exists()


@pytest.mark.slow
def test_confirmations_contain_only_printable_ascii(ask: Ask, server: ModelServer) -> None:
    tricks = [
        "\x1b[2K\r",
        "\u202e",
        "\u200b",
        " " * 2_000,
        "\u0430\u0435",
        "\x1b]52;c;cm0=\x07",
        "\n" * 60,
        "\x9b1A",
        "\0",
    ]
    wanted = [("bash", {"command": f"ls {trick} x"}) for trick in tricks]
    wanted += [("write_file", {"filepath": f"a{trick}b", "content": trick}) for trick in tricks]
    server.reply(wire.calls(*wanted), wire.says("You declined."))
    answers = [("Run this", "n")] * len(tricks) + [("Make this change", "n")] * len(tricks)
    result = ask.on_terminal("--confirm", "Do it", answers=answers, env={"NO_COLOR": "1"})
    questions = re.findall(r"(The model wants.*?\? )No$", result.text, re.DOTALL | re.MULTILINE)
    assert len(questions) == len(wanted)
    for question in questions:
        assert re.fullmatch(r"[ -~\n]*", question)
    assert "declined" not in result.text.replace("You declined.", ""), "the user has just said so"


def test_disabled_tools_are_neither_offered_nor_run(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.calls(TOUCH, ("write_file", {"filepath": "ran", "content": ""})), wire.says("I cannot."))
    result = ask("--disable-tool", "write_file,bash", "Do it")
    assert (result.text, result.code) == ("I cannot.\n", 0)
    assert list(ask.cwd.iterdir()) == []
    first, second = check_sent_requests(server)
    assert list_offered_tools(first) == [name for name in DEFAULT_TOOLS if name not in ("write_file", "bash")]
    assert "bash" not in first["messages"][0]["content"]
    assert "write_file" not in first["messages"][0]["content"]
    for name, tool_result in zip(["bash", "write_file"], read_tool_results(second), strict=True):
        assert tool_result.startswith("Error: ")
        assert all(tool in tool_result for tool in (repr(name), *list_offered_tools(first)))
    assert [(line["tool"], line["decision"], line["rule"]) for line in home.read_tool_log()] == [
        ("bash", "deny", "not offered"),
        ("write_file", "deny", "not offered"),
    ]


def test_tools_can_be_disabled_by_option_and_configuration(ask: Ask, server: ModelServer, home: Home) -> None:
    home.configure('[tools]\ndisabled = ["list_dir"]\n')
    server.reply(wire.says("Hello."))
    assert ask("--disable-tool", "bash", "--disable-tool", "edit_file", "hello").code == 0
    remaining = [name for name in DEFAULT_TOOLS if name not in ("list_dir", "bash", "edit_file")]
    assert list_offered_tools(check_sent_requests(server)[0]) == remaining


def test_an_unknown_tool_name_is_an_error_before_anything_is_sent(ask: Ask, server: ModelServer, home: Home) -> None:
    result = ask("--disable-tool", "bsah", "hello")
    assert (result.stdout, result.code) == (b"", 2)
    [line] = result.stderr.splitlines()
    assert "'bsah'" in line
    assert "bash" in line.replace("bsah", "")
    home.configure('[tools]\ndisabled = ["bsah"]\n')
    result = ask("hello")
    assert (result.stdout, result.code) == (b"", 2)
    assert "tools.disabled" in result.stderr
    assert server.requests == []


def test_every_call_runs_and_is_logged_by_default(ask: Ask, server: ModelServer, home: Home) -> None:
    outside = home.path / "home" / "notes"
    server.reply(
        wire.calls(
            ("write_file", {"filepath": str(outside), "content": "x"}), TOUCH, ("read_file", {"filepath": "no"})
        ),
        wire.says("Done."),
    )
    result = ask.on_terminal("Do it")
    assert result.code == 0
    assert "[y/N]" not in result.text
    assert outside.read_text() == "x"
    assert [(line["tool"], line["decision"], line["rule"], line["failed"]) for line in home.read_tool_log()] == [
        ("write_file", "allow", "unrestricted", False),
        ("bash", "allow", "unrestricted", False),
        ("read_file", "allow", "unrestricted", True),
    ]


def test_keys_are_neither_sent_nor_logged(ask: Ask, server: ModelServer, home: Home) -> None:
    (ask.cwd / "keys.env").write_text(f"OPENROUTER_API_KEY={TEST_KEY}\nOPENAI={OTHER_KEYS['OPENAI_API_KEY']}\n")
    home.config.mkdir()
    (home.config / "keys.toml").write_text('anthropic = "sk-ant-0123456789"\n')
    server.reply(
        wire.calls(
            ("bash", {"command": "echo [$OPENROUTER_API_KEY]; cat keys.env; cat keys.env >&2"}),
            ("read_file", {"filepath": "keys.env"}),
            ("read_file", {"filepath": str(home.config / "keys.toml")}),
            ("bash", {"command": f"echo {TEST_KEY}; : sk-ant-0123456789"}),
            ("list_dir", {"dirpath": TEST_KEY}),
        ),
        wire.says("They are hidden."),
    )
    result = ask("-v", "Show my keys", env=OTHER_KEYS)
    assert (result.text, result.code) == ("They are hidden.\n", 0)
    tool_result = read_tool_results(check_sent_requests(server)[1])
    assert "[]\n" in tool_result[0]
    assert tool_result[1] == "OPENROUTER_API_KEY=[key removed]\nOPENAI=[key removed]\n"
    log = (home.data / "audit.jsonl").read_text()
    for key in (TEST_KEY, "sk-ant-0123456789", *OTHER_KEYS.values()):
        assert not any(key in text for text in (*tool_result, log, result.stderr))


def test_no_part_of_a_key_split_by_chunks_or_truncation_leaks(ask: Ask, server: ModelServer, home: Home) -> None:
    (ask.cwd / "key").write_text(TEST_KEY)
    around = f"head -c {14_990} /dev/zero | tr '\\0' x"
    server.reply(
        wire.calls(
            ("bash", {"command": "head -c 9 key; sleep 0.1; tail -c +10 key"}),
            ("bash", {"command": f"{around}; cat key; {around}; cat key; {around}"}),
        ),
        wire.says("They are hidden."),
    )
    result = ask("-v", "--events", "Show my keys")
    tool_result = read_tool_results(check_sent_requests(server)[1])
    assert tool_result[0] == "exit code: 0\nstdout:\n[key removed]"
    [spilled] = home.data.glob("results/*/*")
    assert spilled.read_text().count("[key removed]") == 2
    for text in (*tool_result, spilled.read_text(), result.text, result.stderr):
        assert TEST_KEY[:9] not in text


def test_commands_get_the_environment_without_keys(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "env"})), wire.says("Done."))
    assert ask("Show it", env=OTHER_KEYS | {"EDITOR": "ed", "MY_API_URL": "here"}).code == 0
    [tool_result] = read_tool_results(check_sent_requests(server)[1])
    names = {line.partition("=")[0] for line in tool_result.splitlines()}
    assert names >= {"PATH", "HOME", "LANG", "EDITOR", "MY_API_URL", "OPENROUTER_BASE_URL"}
    assert not names & {"OPENROUTER_API_KEY", *OTHER_KEYS}


def is_declined(tool_results: list[str]) -> bool:
    """Check for the single result of a call that the user declined."""
    return len(tool_results) == 1 and tool_results[0].startswith("Error: ") and "declined" in tool_results[0]


def unwrap_lines(question: str) -> list[str]:
    """Join the lines of a confirmation that the terminal's width has wrapped."""
    return question.replace("\n  > ", "").splitlines()
