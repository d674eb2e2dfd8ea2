"""`ask init` in real shells: key bindings, shell ids, and the user's own configuration."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import wire
from tests.model_server import HOLD, ModelServer, Reply
from tests.program import ASK, CTRL_C, Ask, Home, Running, run
from tests.shells import (
    ALT_A,
    ALT_E,
    BASH_THEN_OTHERS,
    EACH_SHELL,
    EVALS,
    KILL,
    MODES,
    READY,
    Shell,
    read_completed_words,
)

WORDS = "print three letters"
COMMAND = "printf '<%s>' a b"
FAILING = "ls /no/such/folder"
STATE = {
    "bash": "declare -p PROMPT_COMMAND; trap -p; bind -X; bind -s; declare -f; shopt; set -o; echo $ASK_SESSION; jobs",
    "zsh": "print -l $precmd_functions $preexec_functions; bindkey -L; trap; functions; setopt; print $ASK_SESSION",
    "fish": "functions --all; bind; echo $fish_complete_path $ASK_SESSION; functions --handlers",
}


@pytest.fixture
def env(ask: Ask) -> dict[str, str]:
    return {**ask.env, "ASK_PROVIDER": "openrouter", "ASK_MODEL": wire.MODEL}


def read_last_prompt(server: ModelServer) -> str:
    """Return the last prompt that the model got."""
    return json.dumps(server.requests[-1].json["messages"][1:], ensure_ascii=False)


@pytest.mark.slow_after_first
@pytest.mark.parametrize("shell", EACH_SHELL)
@pytest.mark.parametrize("mode", ["emacs", pytest.param("vi", marks=pytest.mark.slow)])
def test_the_key_replaces_the_line_by_a_command_with_the_cursor_at_its_end(
    shell: str, mode: str, home: Home, env: dict[str, str], server: ModelServer
) -> None:
    server.reply(wire.says(COMMAND))
    with Shell(shell, home, env, after=MODES[mode][shell]).on_terminal() as running:
        running.type_in(WORDS + ALT_A)
        shown = running.wait_for("a b", 20)
        assert WORDS in read_last_prompt(server)
        assert b"<a>" not in running.stdout, "it is never run by itself"
        running.type_in(" c\r")
        running.wait_for("<a><b><c>", 20, after=shown)
    assert len(server.requests) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shell", "mark"),
    [
        ("bash", "!"),
        pytest.param("zsh", "!", marks=pytest.mark.needs("zsh")),
        pytest.param("zsh", "", marks=pytest.mark.needs("zsh")),
        pytest.param("zsh", "@", marks=pytest.mark.needs("zsh")),
        pytest.param("fish", "", marks=pytest.mark.needs("fish")),
    ],
)
def test_a_command_of_the_key_runs_as_it_is_shown(
    shell: str, mark: str, home: Home, env: dict[str, str], server: ModelServer
) -> None:
    """Bash and zsh would replace !x by the last command in the history that begins with x."""
    server.reply(wire.says(f"printf '<%s>' {mark or '!'}printf"))
    setup = f"histchars={mark and mark + '^#'}" if shell == "zsh" else ""
    with Shell(shell, home, env, after=setup).on_terminal() as running:
        running.type_in("printf 'ear''lier\\n'\r")
        shown = running.wait_for("earlier", 20)
        shown = running.wait_for(READY, 20, after=shown)
        running.type_in(WORDS + ALT_A)
        shown = running.wait_for(f"{mark or '!'}printf", 20, after=shown)
        running.type_in("\r")
        shown = running.wait_for(f"<{mark or '!'}printf>", 20, after=shown)
        if mark:
            running.type_in(f"echo again {mark}nothing\r")
            running.wait_for("event not found", 20, after=shown)


@pytest.mark.slow
@pytest.mark.parametrize("shell", BASH_THEN_OTHERS)
def test_the_key_works_in_vi_command_mode(shell: str, home: Home, env: dict[str, str], server: ModelServer) -> None:
    server.reply(wire.says(COMMAND))
    with Shell(shell, home, env, after=MODES["vi"][shell]).on_terminal() as running:
        running.type_in(f"{WORDS}\x1b{ALT_A}")
        shown = running.wait_for("a b", 20)
        running.type_in("A c\r")
        running.wait_for("<a><b><c>", 20, after=shown)


@pytest.mark.slow
@pytest.mark.parametrize("shell", BASH_THEN_OTHERS)
def test_the_line_is_kept_if_there_is_no_command(
    shell: str, home: Home, env: dict[str, str], server: ModelServer
) -> None:
    server.reply(wire.fails(401, "bad key"), wire.says("a\x1b]0;b"), Reply((HOLD,)))
    with Shell(shell, home, env).on_terminal() as running:
        running.type_in(ALT_A)
        place = len(running.stdout)
        running.type_in("a b" + ALT_A)
        running.wait_for("bad key", 20, after=place)
        read_completed_words(running, "", "<a><b>")
        read_completed_words(running, "a c" + ALT_A, "<a><c>")
        place = len(running.stdout)
        running.type_in("a d" + ALT_A)
        server.wait_for_requests(3)
        running.wait_for("asking...", after=place)
        running.type_in(CTRL_C)
        server.wait_for_abandoned()
        read_completed_words(running, "", "<a><d>")
    assert len(server.requests) == 3, "an empty line asks nothing"


@pytest.mark.parametrize("shell", BASH_THEN_OTHERS)
@pytest.mark.parametrize("by", ["key", pytest.param("function", marks=pytest.mark.slow)])
def test_a_failure_is_explained_from_its_text_and_status(
    shell: str, by: str, home: Home, env: dict[str, str], server: ModelServer
) -> None:
    server.reply(wire.says("It is not there."))
    with Shell(shell, home, env).on_terminal() as running:
        place = len(running.stdout)
        running.type_in("ask-explain\r")
        running.wait_for("no command has failed", 20, after=place)
        for line in ("(exit 4)" if shell != "fish" else "sh -c 'exit 4'", FAILING, "true", ""):
            place = running.wait_for(READY, 20, after=place)
            running.type_in(f"{line}\r")
        running.wait_for(READY, 20, after=place)
        running.type_in("half a line" + ALT_E if by == "key" else "ask-explain\r")
        place = running.wait_for("It is not there.", 20, after=place)
        if by == "key":
            read_completed_words(running, "", "<half><a><line>")
    assert FAILING in read_last_prompt(server)
    assert "exit status 2" in read_last_prompt(server)
    assert FAILING in run([ASK, "history", "list"], env=env).text, "the title names the command"
    assert "tools" not in server.requests[-1].json


@pytest.mark.parametrize("shell", BASH_THEN_OTHERS)
@pytest.mark.slow
@pytest.mark.needs("tmux")
def test_under_tmux_the_output_is_included_in_the_explanation(
    shell: str, home: Home, env: dict[str, str], server: ModelServer
) -> None:
    server.reply(wire.says("Missing."))
    one = Shell(shell, home, env)
    (home.path / "tmux.conf").write_text(
        "set -g status off\n"
    )  # otherwise drawn within the text that the test waits for
    command = ["tmux", "-f", str(home.path / "tmux.conf"), "new-session", *one.command]
    env = {**env, "TMUX_TMPDIR": str(home.path), "SHELL": "/bin/sh"}
    with Running(command, env=env, cwd=home.work, terminal=True) as running:
        place = running.wait_for(READY, 30)
        running.type_in("echo earl''ier\r")
        place = running.wait_for(READY, 20, after=running.wait_for("earlier", 20, after=place))
        running.type_in(f"echo before; {FAILING}; (exit 3)\r" if shell != "fish" else f"echo before; {FAILING}\r")
        running.wait_for(READY, 20, after=running.wait_for("cannot access", 20, after=place))
        running.type_in("ask-explain\r")
        running.wait_for("Missing.", 30, after=place)
        running.type_in("exit\r")
        running.process.wait(20)
    assert "cannot access" in read_last_prompt(server)
    assert "earlier" not in read_last_prompt(server)


def record_states(home: Home, env: dict[str, str], shell: str, before: str) -> tuple[str, str, str, str]:
    """Return the shell's state before, after one and after two evaluations, and what evaluating printed."""
    first, once, twice = (home.path / name for name in ("first", "once", "twice"))
    dump = {"bash": "{ %s; } > %s 2>&1", "zsh": "{ %s } > %s 2>&1", "fish": "begin; %s; end > %s 2>&1"}[shell]
    evaluated = EVALS[shell].format("")
    check = f"test {'$status' if shell == 'fish' else '$?'} = 0 || touch {home.path / 'failed'}"
    lines = [check, dump % (STATE[shell], once), "echo [; " + evaluated, "echo ]", dump % (STATE[shell], twice)]
    one = Shell(shell, home, env, f"{before}\n{dump % (STATE[shell], first)}", "\n".join(lines))
    with one.on_terminal() as running:
        output = running.stdout.decode().partition("[")[2].partition("]")[0]
    return (*(file.read_text() for file in (first, once, twice)), output.strip())  # type: ignore[return-value]


@pytest.mark.slow
@pytest.mark.parametrize("shell", BASH_THEN_OTHERS)
def test_evaluating_the_script_twice_changes_nothing_more(shell: str, home: Home, env: dict[str, str]) -> None:
    _, once, twice, output = record_states(home, env, shell, "")
    assert "__ask" in once
    assert once == twice
    assert output == ""
    assert not (home.path / "failed").exists()


@pytest.mark.slow
@pytest.mark.parametrize("array", [True, False])
def test_prompt_command_traps_and_bindings_of_bash_are_kept(array: bool, home: Home, env: dict[str, str]) -> None:
    before = """
        trap 'DEBUGGED=1' DEBUG; trap 'ERRED=1' ERR; trap 'echo bye' EXIT; trap 'echo interrupted' INT
        bind -m emacs '"\\ea": "mine"'; bind -m vi-insert -x '"\\ea": own_function'; bind '"\\ee": kill-word'
    """
    mine = 'echo "[status $?]"'
    before += f"PROMPT_COMMAND=({mine!r} 'echo two')" if array else f"PROMPT_COMMAND={mine!r}"
    first, once, _, _ = record_states(home, env, "bash", before)
    for line in first.splitlines():
        if line.startswith(("trap", '"')):
            assert line in once
    assert '"\\ee": "__ask_explain"' not in once.partition("vi")[0]
    with Shell("bash", home, env, before).on_terminal() as running:
        place = len(running.stdout)
        running.type_in("(exit 3)\r")
        place = running.wait_for("[status 3]", after=place)
        read_completed_words(running, f"x{ALT_A}y", "<xminey>")
        running.type_in("exit\r")
        running.wait_for("bye", after=place)


@pytest.mark.slow
@pytest.mark.parametrize("value", ["=true", "=", ""])
def test_a_read_only_prompt_command_costs_no_key_and_no_completion(
    value: str, home: Home, env: dict[str, str], server: ModelServer
) -> None:
    # https://github.com/starship/starship/issues/4019, https://github.com/skywind3000/z.lua/issues/139
    server.reply(wire.says(COMMAND))
    with Shell("bash", home, env, f"readonly PROMPT_COMMAND{value}").on_terminal() as running:
        place = len(running.stdout)
        running.type_in(WORDS + ALT_A)
        place = running.wait_for("a b", 20, after=place)
        running.type_in("\r")
        place = running.wait_for("<a><b>", 20, after=place)
        running.type_in("false\r" + ALT_E)
        place = running.wait_for("PROMPT_COMMAND is read-only", 20, after=place)
        running.type_in("complete -p ask\r")
        running.wait_for("-F __ask", 20, after=place)
    assert b"PROMPT_COMMAND: readonly variable" not in running.stdout


@pytest.mark.slow
@pytest.mark.needs("zsh")
def test_hooks_and_bindings_of_zsh_are_kept(home: Home, env: dict[str, str]) -> None:
    before = """
        precmd_functions=(mine); mine() { print "[status $?]" }; precmd() { print also }
        bindkey -s '^[a' mine; zshexit() { print bye }; TRAPINT() { print interrupted; return 130 }
    """
    with Shell("zsh", home, env, before).on_terminal() as running:
        place = len(running.stdout)
        running.type_in("(exit 3)\r")
        place = running.wait_for("[status 3]", after=running.wait_for("also", after=place) and place)
        read_completed_words(running, f"x{ALT_A}y", "<xminey>")
        running.type_in("exit\r")
        running.wait_for("bye", after=place)


@pytest.mark.slow
@pytest.mark.needs("fish")
def test_bindings_of_fish_are_kept(home: Home, env: dict[str, str]) -> None:
    with Shell("fish", home, env, "bind \\ea 'commandline -i mine'").on_terminal() as running:
        read_completed_words(running, f"x{ALT_A}y", "<xminey>")


@pytest.mark.slow
@pytest.mark.parametrize("shell", BASH_THEN_OTHERS)
def test_a_custom_key_is_bound(shell: str, home: Home, env: dict[str, str], server: ModelServer) -> None:
    server.reply(wire.says(COMMAND))
    with Shell(shell, home, env, options=" --key ctrl-g --explain-key none").on_terminal() as running:
        running.type_in(WORDS + "\x07")
        running.wait_for("a b", 20)


@pytest.mark.slow
@pytest.mark.needs("zsh")
def test_zsh_with_the_patterns_of_sh_reads_the_script_with_emulate(
    home: Home, env: dict[str, str], server: ModelServer
) -> None:
    server.reply(wire.says(COMMAND))
    with Shell("zsh", home, env, "setopt sh_glob; eval() { emulate zsh -c $1 }").on_terminal() as running:
        running.type_in(WORDS + ALT_A)
        running.wait_for("a b", 20)


@pytest.mark.parametrize("shell", BASH_THEN_OTHERS)
def test_each_interactive_shell_gets_an_id_unless_the_user_set_one(shell: str, home: Home, env: dict[str, str]) -> None:
    def named(**more: str) -> str:
        command = Shell(shell, home, {}).command_with("-ic")
        result = run([*command, "echo name=$ASK_SESSION"], env={**env, **more}, cwd=home.work)
        (found,) = re.findall("^name=(.*)$", result.text, re.MULTILINE)
        return str(found)

    first = named()
    assert first.startswith("shell-")
    assert named(ASK_SESSION=first) != first
    assert named(ASK_SESSION="work") == "work"


@pytest.mark.parametrize("shell", BASH_THEN_OTHERS)
def test_continue_continues_the_conversation_of_this_shell(
    shell: str, home: Home, env: dict[str, str], server: ModelServer
) -> None:
    server.reply(wire.says("Yes."))
    with Shell(shell, home, env).on_terminal() as one, Shell(shell, home, env).on_terminal() as other:
        for running, line in ((one, "ask first"), (other, "ask second"), (one, "sh -c 'ask -c third </dev/null'")):
            place = len(running.stdout)
            running.type_in(f"{line}\r")
            running.wait_for(READY, 30, after=running.wait_for("Yes.", 30, after=place))
    assert '"first' in read_last_prompt(server)
    assert "second" not in read_last_prompt(server)


@pytest.mark.parametrize("shell", BASH_THEN_OTHERS)
def test_noninteractive_shells_are_not_changed(shell: str, home: Home, env: dict[str, str]) -> None:
    strict, name = ("", '"$ASK_SESSION"') if shell == "fish" else ("set -euo pipefail", "${ASK_SESSION-}")
    script = f"{strict}\n{EVALS[shell].format('')}\necho name={name}."
    result = run([shell, "-c", script], env=env, cwd=home.work)
    assert (result.code, result.text, result.stderr) == (0, "name=.\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_script_works_in_strict_mode(shell: str, home: Home, env: dict[str, str], server: ModelServer) -> None:
    server.reply(wire.says(COMMAND))
    strict = "set -euo pipefail; IFS=$'\\n\\t'"
    with Shell(shell, home, env, strict).on_terminal() as running:
        read_completed_words(running, "ask -p openr\t", "<ask><-p><openrouter>") if shell == "bash" else None
        running.type_in(WORDS + ALT_A)
        running.wait_for("a b", 20)
        running.type_in(KILL)
        read_completed_words(running, "fine", "<fine>")


def test_bash_in_posix_mode_prints_nothing(home: Home, env: dict[str, str]) -> None:
    script = f"set -e; {EVALS['bash'].format('')}; declare -F __ask_explain_failure"
    result = run(["bash", "--norc", "--posix", "-i", "-c", script], env=env, cwd=home.work)
    assert (result.code, result.text) == (0, "__ask_explain_failure\n")
    assert "identifier" not in result.stderr


def test_bash_without_line_editing_prints_nothing(home: Home, env: dict[str, str]) -> None:
    Path(env["HOME"], ".bashrc").write_text(EVALS["bash"].format("") + "\n")
    result = run(["bash", "-ic", "echo fine"], env=env, cwd=home.work)
    assert result.text == "fine\n"
    assert "bind" not in result.stderr
