"""Which command lines are understood, compared with what bash does."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ask.safety.command_rules import find_allow_rules, parse_rules
from ask.safety.shell_syntax import parse_command_line

EXACT = {
    "git status": [["git", "status"]],
    "git  'status'\t-s": [["git", "status", "-s"]],
    """g'i't "sta"tus ''""": [["git", "status", ""]],
    "a 'b;c' \"d|e>f\"": [["a", "b;c", "d|e>f"]],
    "a; b && c || d | e\nf;": [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]],
    "a 2>&1 >/dev/null 2> /dev/null &>/dev/null": [["a"]],
    "a2>/dev/null": [["a2"]],
    "git show HEAD~1:x": [["git", "show", "HEAD~1:x"]],
    "printf '%s [`a`]' -v": [["printf", "%s [`a`]", "-v"]],
}
INEXACT = [
    *("", ";", "a;;b", "a &", "a & b", "a |& b", "a\n\nb", "a && ", "&& a", "| a"),
    *("a > x", "a >> x", "a < x", "a 2>x", "a >&x", "a 2>&1x", "a >/dev/null/x", "a >/dev/null\r", "a >| x"),
    *("a $x", "a ${x}", "a $(b)", "a `b`", 'a "$x"', 'a "`b`"', 'a "\\$"', "a $'b'", "a $((1))", "a <(b)", "a >(b)"),
    *("A=b c", "A+=b c", "A[1]=b c", "A=b", "a \\b", "a\\\nb", "a \\", "a {b,c}", "(a)", "{ a; }", "a() { b; }"),
    *(
        "! a",
        "if a; then b; fi",
        "time a",
        "coproc a",
        "for a in b; do c; done",
        "a # b",
        "#a",
        "a <<X\nb\nX",
        "a <<< b",
    ),
    *("printf -v a b", "printf '-v' a b", "printf -va b", "[ -v 'a[`b`]' ]", "let 'a[$(b)]'"),
    *("a 'b", 'a "b', "a \r", "a \0", "a \u00e9", "a\u00a0b", "'a'2>/dev/null", "a\x0bb"),
]


@pytest.mark.parametrize("text", EXACT)
def test_simple_command_lines_are_split_into_words(text: str) -> None:
    parsed = parse_command_line(text)
    assert [[word.text for word in command] for command in parsed.commands] == EXACT[text]
    assert parsed.is_exact


@pytest.mark.parametrize("text", INEXACT)
def test_anything_else_is_inexact(text: str) -> None:
    assert not parse_command_line(text).is_exact


def test_words_that_the_shell_expands_are_marked() -> None:
    [words] = parse_command_line("ls *.py '*.py' ~/x '~' a?b [ab]").commands
    assert [word.is_expanded for word in words] == [False, True, False, True, False, True, True]


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("x=$(rm a) echo", [["rm", "a"], ["echo"]]),
        ('echo "$(rm a)"', [["rm", "a"], ["echo", "$(rm a)"]]),
        ('echo "a $(b (c) d) e `f` $(g"', [["b"], ["c"], ["d"], ["f"], ["g"], ["echo", "a $(b (c) d) e `f` $(g"]]),
        ("if a; then rm b; fi", [["a"], ["rm", "b"]]),
        ("A=1 rm b > c &", [["rm", "b"]]),
        ("\\rm b # c; d", [["rm", "b"]]),
        ("rm a#b; c", [["rm", "a#b"], ["c"]]),
        ("cat <<A > b\nit's; rm c\nA\nd", [["cat"], ["d"]]),
        ("cat <<A\nb", [["cat"], ["b"]]),
        ("diff <(rm a) b", [["diff"], ["rm", "a"], ["b"]]),
    ],
)
def test_the_commands_of_inexact_command_lines_are_guessed(text: str, commands: list[list[str]]) -> None:
    parsed = parse_command_line(text)
    assert [[word.text for word in command] for command in parsed.commands] == commands
    assert not parsed.is_exact


def test_targets_of_output_redirections_are_collected() -> None:
    assert parse_command_line("a > b 2>> 'c d' < e &> f").written_files == ("b", "c d", "f")


# Comparison with bash

ALLOWED = parse_rules("tools.allow", ["safe one", "safe two *"])
PIECES = st.sampled_from(
    [
        *("safe one", "safe two", "safe", "one", "two", "bad", "bad x", " ", " ", " ", "x", "A=b", "2", "\t", "\n"),
        *(";", "&", "&&", "|", "||", "|&", ";;", ">", ">>", "<", ">&", "2>&1", ">/dev/null", "&>/dev/null", ">x"),
        *(
            "(",
            ")",
            "{",
            "}",
            "$(",
            "$(bad)",
            "`bad`",
            "`",
            "${",
            "$",
            "$'",
            "<(",
            "<<E",
            "\nE\n",
            "#",
            "!",
            "\\",
            "\\\n",
        ),
        *(
            "'",
            '"',
            "*",
            "?",
            "[",
            "]",
            "~",
            "=",
            ",",
            "{a,b}",
            "if ",
            "then ",
            "fi",
            "do ",
            "time ",
            "\r",
            "\u00a0",
            "\x0b",
        ),
    ]
)
COMMANDS = st.lists(PIECES, max_size=8).map("".join)


def run_in_bash(command: str, file: str = "") -> tuple[list[list[str]], set[str]]:
    """Run a command where `safe` and `bad` are the only programs; return their calls and the files it created."""
    with tempfile.TemporaryDirectory() as folder:
        programs, work, log = Path(folder, "programs"), Path(folder, "work"), Path(folder, "log")
        programs.mkdir()
        work.mkdir()
        log.touch()
        if file:
            (work / file).touch()
        for name in ("safe", "bad"):
            # One write for each call, because the programs of a pipe run at the same time.
            (programs / name).write_text("""#!/bin/bash\nprintf '%s\\x1f' "${0##*/}" "$@" $'\\x1e' >> "$LOG"\n""")
            (programs / name).chmod(0o755)
        subprocess.run(
            ["/bin/bash", "-c", "--", command],
            env={"PATH": str(programs), "LOG": str(log), "HOME": folder, "LANG": "C.UTF-8"},
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=10,
            check=False,
        )
        calls = [call.split("\x1f")[:-1] for call in log.read_text().split("\x1e\x1f")[:-1]]
        return calls, set(os.listdir(work))


NEARLY_ALLOWED = st.builds(
    lambda parts, separator, piece, position: (
        separator.join(parts)[:position] + piece + separator.join(parts)[position:]
    ),
    st.lists(st.sampled_from(["safe one", "safe two x", "safe two 'a;bad'", "safe two *"]), min_size=1, max_size=3),
    st.sampled_from([" ; ", "&&", "|", "||", "\n"]),
    PIECES,
    st.integers(0, 30),
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(NEARLY_ALLOWED)
@example("safe one; safe two 'x;bad' && safe one 2>&1 | safe two *")
@example("safe one 2>/dev/null\nsafe two")
def test_bash_runs_only_allowed_commands_of_an_allowed_command_line(command: str) -> None:
    if not find_allow_rules(ALLOWED, command):
        return
    calls, files = run_in_bash(command)
    assert not files
    assert [call for call in calls if call[:2] != ["safe", "two"] and call != ["safe", "one"]] == []


@pytest.mark.parametrize(
    "command",
    [
        *("printf -v 'a[$(bad)]' x", "printf -v'a[x$(bad)]' x", "test -v 'a[`bad`]'", "[ -v 'a[b[$(bad)]]' ]"),
        *("let '1 + a[$(bad)]'", "[[ 1 -eq 'a[$(bad)]' ]]", "read 'a[$(bad)]'", "declare 'a[$(bad)]=1'"),
    ],
)
def test_a_builtin_that_expands_its_arguments_again_is_not_allowed(command: str) -> None:
    assert ["bad"] in run_in_bash(command)[0]
    assert not find_allow_rules(parse_rules("tools.allow", [f"{command.split(maxsplit=1)[0]} *"]), command)


@pytest.mark.parametrize(
    "builtin",
    [
        *("[ -v 'x[BASH_EXECUTION_STRING]' ]", "test -v 'x[BASH_EXECUTION_STRING]'"),
        *("[[ BASH_EXECUTION_STRING -eq 1 ]]", "export RANDOM=BASH_EXECUTION_STRING"),
        "readonly RANDOM=BASH_EXECUTION_STRING",
        *("let BASH_EXECUTION_STRING", "declare -i x=BASH_EXECUTION_STRING", "typeset -i x=BASH_EXECUTION_STRING"),
    ],
)
def test_a_builtin_that_runs_the_command_line_as_arithmetic_is_not_allowed(builtin: str) -> None:
    command = f"echo -a[ '$(bad)' ] && {builtin}"
    assert ["bad"] in run_in_bash(command)[0]
    assert not find_allow_rules(parse_rules("tools.allow", ["echo *", f"{builtin.split(maxsplit=1)[0]} *"]), command)


@pytest.mark.parametrize("builtin", ["read RANDOM", "mapfile RANDOM"])
def test_a_variable_that_evaluates_its_value_is_not_set_by_an_allowed_command(builtin: str) -> None:
    command = f"printf 'a%s$(bad)]' '[' | {builtin}"
    assert ["bad"] in run_in_bash(command)[0]
    assert not find_allow_rules(parse_rules("tools.allow", ["printf *", f"{builtin.split(maxsplit=1)[0]} *"]), command)


@pytest.mark.parametrize("command", ["test -v a*", "[ -v a* ]", "read a*", "let a*", "echo a* && [[ _ -eq 1 ]]"])
def test_a_builtin_that_runs_what_the_name_of_a_file_contains_is_not_allowed(command: str) -> None:
    assert ["bad"] in run_in_bash(command, file="a[$(bad)]")[0]
    rules = parse_rules("tools.allow", ["echo *", "[[ *", f"{command.split(maxsplit=1)[0]} *"])
    assert not find_allow_rules(rules, command)


def test_a_pattern_that_may_become_the_option_that_sets_path_is_not_allowed() -> None:
    rules = parse_rules("tools.allow", ["printf *", "[ *"])
    assert not find_allow_rules(rules, "printf *")
    assert find_allow_rules(rules, "printf 'x[%s]\\n' *.py && [ -f x ]")


UNQUOTED = st.lists(PIECES | st.sampled_from(["only this", "; only this"]), max_size=8).map(
    lambda pieces: "".join(pieces).replace("'", "").replace('"', "")
)


@settings(max_examples=200)
@given(UNQUOTED, st.sampled_from("$`(){}<\\!\r\0"), UNQUOTED | st.text(max_size=20))
def test_substitutions_and_groups_are_never_allowed(before: str, special: str, after: str) -> None:
    assert not find_allow_rules(ALLOWED, f"{before}{special}{after}")
    assert not find_allow_rules(ALLOWED, f"safe two {before}{special}{after}")


@settings(max_examples=200)
@given(st.sampled_from([";", "&", "&&", "|", "||", "|&", "\n", ">", " 2>", "<", " "]), UNQUOTED)
@example(";", " only this | only this 2>&1")
def test_every_part_of_an_allowed_command_line_is_allowed(operator: str, after: str) -> None:
    command = f"only this{operator}{after}"
    if find_allow_rules(parse_rules("tools.allow", ["only this"]), command):
        plain = re.sub(r"(?<!\S)(\d?|&)>>?[ \t]*/dev/null|(?<!\S)\d?>&\d|(?<=s)[>&]+(/dev/null|\d)", "", command)
        parts = [part.split() for part in re.split(r"&&|\|\||[;|\n]", plain.strip(" \t\n;"))]
        assert all(part == ["only", "this"] for part in parts), command


@pytest.mark.parametrize(
    "piece",
    [
        "a ",
        "'a'",
        "$(",
        '"$(',
        "<<A\n",
        "x() { ",
        "a#",
        "\\",
        "a;",
        "2>&1 ",
        '\\"',
        "'",
        "> ",
        "a[",
        "'a['",
        '"',
        '"a\\"',
        '"\\',
    ],
)
def test_parsing_takes_linear_time(piece: str) -> None:
    before = time.process_time()
    parse_command_line(piece * (16_000 // len(piece)))
    assert time.process_time() - before < 1
