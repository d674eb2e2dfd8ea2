"""A run on a terminal: the final screen is correct, and finished lines are never redrawn."""

from __future__ import annotations

import random
import re
import select
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import Event

import pytest

from ask.render.spinner import Ticker
from tests import wire
from tests.model_server import HOLD, ModelServer, Reply, Request, Step
from tests.program import ASK, CTRL_C, Ask, Running, run_on_terminal
from tests.screen import Screen, render_lines
from tests.slow_parameters import mark_others_slow

CODE = "\n".join(f"def function_{number}(x):  # and a comment" for number in range(40))
ANSWER = f"""# Heading

Some *running* text of **several** words, with `code`, a [link](https://example.org/a) in it, and 漢字 🎉 that are wide.

1. First
   - nested
2. Second

| Name | Size |
|------|-----:|
| one  |    1 |

```python
{CODE}
```
> Quoted

End."""
SHOWN = [
    "Heading",
    "",
    "Some running text of several words, with code, a link (https://example.org/a) in",
    "it, and 漢字 🎉 that are wide.",
    "",
    "1. First",
    "   ◦ nested",
    "2. Second",
    "",
    "Name │ Size",
    "─────┼─────",
    "one  │    1",
    "",
    *CODE.split("\n"),
    "│ Quoted",
    "",
    "End.",
]


END_STEPS: list[Step] = [wire.event(wire.finish()), b"data: [DONE]\n\n"]


def stream_reply(text: str, pause: float = 0.0, *, end: bool = True) -> Reply:
    """Make a reply that arrives in pieces of a few characters."""
    rng = random.Random(text)
    offsets = [0]
    while offsets[-1] < len(text):
        offsets.append(offsets[-1] + rng.randint(1, 9))
    steps: list[Step] = []
    for begin, stop in pairwise(offsets):
        steps += [wire.event(wire.text(text[begin:stop])), pause]
    return Reply([*steps, *(END_STEPS if end else [HOLD])], content_type="text/event-stream")


def run_sized(ask: Ask, columns: int, *options: str, rows: int = 24) -> Running:
    """Run `ask` on a terminal of the given size."""
    script = f"stty cols {columns} rows {rows} && exec {ASK} {' '.join(options)} hi"
    return Running(["bash", "-c", script], env=ask.env, cwd=ask.cwd, terminal=True)


def iter_screens(data: bytes, screen: Screen) -> Iterator[list[str]]:
    """Yield the screen after each line end and cursor movement."""
    for piece in re.split(rb"(?<=\n)|(?=\r)|(?=\x1b\[\d*A)", data):
        screen.feed(piece)
        yield screen.lines


@pytest.mark.slow
def test_markdown_is_laid_out_and_finished_rows_are_not_redrawn(ask: Ask, server: ModelServer) -> None:
    server.reply(stream_reply(ANSWER, 0.0005))
    result = ask.on_terminal("--no-tools", "-q", "hi")
    *before, last = iter_screens(result.stdout, Screen())
    assert last == SHOWN
    for lines in before:
        settled = lines[: -24 * 3 // 4 - 1]
        assert settled == last[: len(settled)]


@pytest.mark.parametrize("columns", [40, *(pytest.param(one, marks=pytest.mark.slow) for one in (80, 200))])
def test_streamed_and_complete_answers_look_the_same(columns: int, ask: Ask, server: ModelServer) -> None:
    server.reply(stream_reply(ANSWER), stream_reply(ANSWER, 0.0005), wire.says(ANSWER, whole=True))
    looks = []
    for _ in range(3):
        with run_sized(ask, columns, "--no-tools", "-q") as running:
            looks.append(render_lines(running.finish().stdout, columns))
    assert looks[0] == looks[1] == looks[2]
    assert max(map(len, looks[0])) <= columns


def test_code_is_colored_and_headings_are_bold(ask: Ask, server: ModelServer) -> None:
    server.reply(
        stream_reply('# Title\n\nSome **strong** word and `a b`.\n\n```python\ndef f():\n    return "text"\n```\n')
    )
    screen = Screen()
    screen.feed(ask.on_terminal("--no-tools", "-q", "hi").stdout)
    looks = {text: screen.styles_of(text) for text in ("Title", "strong", "word", "a b", "def", '"text"')}
    assert looks == {
        "Title": {"bold", "underscore"},
        "strong": {"bold"},
        "word": set(),
        "a b": {"cyan"},
        "def": {"magenta"},
        '"text"': {"green"},
    }


@pytest.mark.parametrize("info", mark_others_slow(["", "text", "unknown-language"]))
def test_code_without_a_known_language_is_set_off_from_prose(info: str, ask: Ask, server: ModelServer) -> None:
    server.reply(stream_reply(f"Run this:\n\n```{info}\nmake all\n```\n\n    indented\n\nThen wait."))
    screen = Screen()
    screen.feed(ask.on_terminal("--no-tools", "-q", "hi").stdout)
    looks = {text: screen.styles_of(text) for text in ("Run this", "make all", "indented", "Then wait")}
    assert looks == {"Run this": set(), "make all": {"cyan"}, "indented": {"cyan"}, "Then wait": set()}


def reasoning_reply(*, end: bool = True) -> Reply:
    pieces = [f"I consider possibility {number}. " for number in range(40)]
    steps: list[Step] = []
    for piece in pieces:
        steps += [wire.event(wire.reasoning(piece)), 0.01]
    text: list[Step] = [wire.event(wire.text("It is **blue**.\n")), *END_STEPS]
    return Reply([*steps, *(text if end else [HOLD])], content_type="text/event-stream")


@pytest.mark.parametrize("columns", mark_others_slow([30, 80, 200], [30]))
def test_reasoning_folds_to_one_line_when_the_answer_begins(columns: int, ask: Ask, server: ModelServer) -> None:
    server.reply(reasoning_reply())
    with run_sized(ask, columns, "--no-tools") as running:
        shown = running.finish().stdout
    assert b"consider" in shown
    lines = [line for line in render_lines(shown, columns) if not line.startswith("ask: ")]
    assert re.fullmatch(r"· thought for \d+\.\d s", lines[-2])
    assert lines[-1] == "It is blue."
    assert not [line for line in lines if "possibility" in line]


@pytest.mark.slow
def test_reasoning_stays_with_verbose_and_is_not_shown_elsewhere(ask: Ask, server: ModelServer) -> None:
    server.reply(reasoning_reply())
    verbose = render_lines(ask.on_terminal("-v", "--no-tools", "hi").stdout)
    assert "possibility 39" in " ".join(verbose)
    assert not [line for line in verbose if line.startswith("· thought")]
    for options in (["-q"], ["--plain"]):
        shown = ask.on_terminal(*options, "--no-tools", "hi").text
        assert "possibility" not in shown
        assert "thought for" not in shown
    paged = run_on_terminal(["bash", "-c", "ask --no-tools hi | cat"], env=ask.env, cwd=ask.cwd).text
    assert paged == "It is **blue**.\n"


def test_interrupted_reasoning_leaves_a_clean_line(ask: Ask, server: ModelServer) -> None:
    server.reply(reasoning_reply(end=False))
    with ask.start_on_terminal("--no-tools", "hi") as running:
        running.wait_for("possibility 39")
        running.type_in(CTRL_C)
        result = running.finish()
    lines = render_lines(result.stdout)
    assert result.code == 130
    assert [line for line in lines if line.startswith("· thought for")]
    assert not [line for line in lines if "possibility" in line]


@pytest.mark.slow
@pytest.mark.needs("less")
def test_a_pager_gets_the_layout_with_forced_color(ask: Ask, server: ModelServer) -> None:
    server.reply(stream_reply(ANSWER))
    env = {"FORCE_COLOR": "1", "COLUMNS": "60"}
    paged = ask.shell("ask -q --no-tools hi | cat", env=env)
    assert b"\x1b[1;4mHeading" in paged.stdout
    assert not re.search(rb"\x1b(?!\[[\d;]*m)|\r", paged.stdout), "only colors"
    lines = render_lines(paged.stdout.replace(b"\n", b"\r\n"), columns=200, rows=100)
    assert [line for line in lines if line.startswith("one  │    1")]
    assert max(len(line) for line in lines if "function_" not in line) <= 60
    script = "ask -q --no-tools hi | less -R -F -X"
    with Running(["bash", "-c", script], env={**ask.env, "FORCE_COLOR": "1"}, cwd=ask.cwd, terminal=True) as running:
        running.wait_for("Heading")
        running.type_in("q")
        assert "**" not in running.finish().text


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("options", "env"),
    [
        ("", {}),
        ("", {"FORCE_COLOR": "0"}),
        ("--plain", {"FORCE_COLOR": "1"}),
        ("--code", {"FORCE_COLOR": "1"}),
        ("", {"NO_COLOR": "1"}),
    ],
)
def test_other_pipes_get_the_text_of_the_model(
    options: str, env: dict[str, str], ask: Ask, server: ModelServer
) -> None:
    text = "```\n**a**\n```\n"
    server.reply(stream_reply(text))
    shown = ask.shell(f"ask -q --no-tools {options} hi | cat", env=env).text
    assert shown == ("**a**\n" if options == "--code" else text)
    assert ask.shell("ask -q --no-tools hi > f; cat f", env={**env, "FORCE_COLOR": "1"}).text == text


@pytest.mark.slow
def test_hyperlinks_take_no_columns(ask: Ask, server: ModelServer) -> None:
    link = "[packaging notes](https://wiki.example.org/Packaging)"
    server.reply(stream_reply(f"Some words before the {link}, and after.\n\n| a | b |\n|-|-|\n| {link} | {link} |\n"))
    with run_sized(ask, 60, "--no-tools", "-q") as running:
        shown = running.finish().stdout
    assert b"\x1b]8;;https://wiki.example.org/Packaging\x1b\\" in shown
    assert render_lines(shown, columns=60) == [
        "Some words before the packaging notes",
        "(https://wiki.example.org/Packaging), and after.",
        "",
        "a                            │ b",
        "─────────────────────────────┼──────────────────────────────",
        "packaging notes              │ packaging notes",
        "(https://wiki.example.org/Pa │ (https://wiki.example.org/Pac",
        "ckaging)                     │ kaging)",
    ]


def test_code_can_be_copied_unchanged(ask: Ask, server: ModelServer) -> None:
    line = "printf '%s\\n' " + "x" * 100
    server.reply(stream_reply(f"```bash\n{line}\n\tafter a tab\n```"))
    shown = ask.on_terminal("--no-tools", "-q", "hi").text
    assert f"{line}\n\tafter a tab\n" in re.sub(r"\x1b\[[\d;]*m", "", shown)


def test_nothing_from_outside_reaches_the_terminal_raw(ask: Ask, server: ModelServer) -> None:
    evil = "\x1b]52;c;aGk=\x07\x1b[2J\x9b31m\u202e&#x202e;&#13;&#12;<http://x/%1b%0d>"
    server.reply(
        wire.streams(
            wire.reasoning(evil),
            *wire.stream(
                f"# {evil}\n\n`{evil}` [{evil}](http://x/{evil})\n\n```{evil}\n{evil}\n```\n|{evil}|\n|-|\n", []
            ),
            *wire.stream("", [("bash", {"command": "printf '\\033[2J\\033]0;x\\007'"}), (evil, evil)]),
        ),
        wire.says("done"),
    )
    shown = ask.on_terminal("-v", "hi").stdout
    ours = re.sub(
        rb"\x1b\[[\d;]*m|\x1b\]8;;(?:http://x/[!-~]*)?\x1b\\|\r\x1b\[2K|\r(?:\x1b\[\d+A)?\x1b\[J|\r\n", b"", shown
    )
    assert not set(ours) & {*range(9), *range(11, 32), 127}
    assert not set("\u202e\x9b") & set(ours.decode())


def test_an_interrupted_answer_is_shown_as_far_as_it_came(ask: Ask, server: ModelServer) -> None:
    server.reply(stream_reply("A **bold\n\n```python\nx = 1", end=False))
    with ask.start_on_terminal("--no-tools", "-q", "hi") as running:
        running.wait_for("= ")  # the color depends on which thread draws it
        running.type_in(CTRL_C)
        result = running.finish()
    assert result.code == 130
    shown = render_lines(result.stdout.replace(b"^C", b""))
    assert shown[:3] == ["A **bold", "", "x = 1"]
    assert shown[3].startswith("ask: interrupted")


@pytest.mark.parametrize(
    ("option", "environment"),
    [
        ("--plain", {}),
        ("-q", {"TERM": "dumb"}),
        pytest.param("-q", {"TERM": ""}, marks=pytest.mark.slow),
    ],
)
def test_the_text_is_printed_unchanged_without_styling(
    option: str, environment: dict[str, str], ask: Ask, server: ModelServer
) -> None:
    server.reply(stream_reply(ANSWER))
    assert ask.on_terminal("--no-tools", option, "hi", env=environment).text == f"{ANSWER}\n"


@pytest.mark.slow
def test_a_pipe_and_a_file_get_the_text_unchanged(ask: Ask, server: ModelServer) -> None:
    server.reply(stream_reply(ANSWER))
    for script in (f"{ASK} --no-tools hi | cat", f"{ASK} --no-tools hi > out; cat out"):
        with Running(["bash", "-c", script], env=ask.env, cwd=ask.cwd, terminal=True) as running:
            assert running.finish().text == f"{ANSWER}\n"


def test_output_of_code_mode_is_not_markdown(ask: Ask, server: ModelServer) -> None:
    server.reply(stream_reply("```python\n# one\n\n\nx = '**a**'\n```"))
    result = ask.on_terminal("--code", "--no-tools", "hi")
    assert render_lines(result.stdout) == ["# one", "", "", "x = '**a**'"]


# Beside the answer


def test_a_timer_runs_until_the_model_answers(ask: Ask, server: ModelServer) -> None:
    waiting: list[Step] = [1.3, *wire.says("yes").steps]
    server.reply(Reply(waiting, content_type="text/event-stream"))
    result = ask.on_terminal("--no-tools", "hi")
    assert "waiting for the model, 1 s" in result.text
    assert render_lines(result.stdout) == ["yes"]


@pytest.mark.slow
@pytest.mark.parametrize("options", [["-q"], ["--plain"]])
def test_no_timer_in_quiet_or_plain_mode(options: list[str], ask: Ask, server: ModelServer) -> None:
    server.reply(Reply([0.8, *wire.says("yes").steps], content_type="text/event-stream"))
    assert ask.on_terminal("--no-tools", *options, "hi").text == "yes\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signal_number", "code"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, 143),
        (signal.SIGHUP, 129),
    ],
)
def test_the_timer_is_erased_after_a_signal(signal_number: int, code: int, ask: Ask, server: ModelServer) -> None:
    server.reply(Reply([HOLD]))
    with ask.start_on_terminal("--no-tools", "hi") as running:
        running.wait_for("waiting for the model")
        running.signal(signal_number)
        result = running.finish()
    assert result.code == code
    assert not any("waiting" in line for line in render_lines(result.stdout))


def test_a_tool_call_is_one_line_with_its_outcome(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "note.txt").write_text("marzipan\n")
    read = ("read_file", {"filepath": f"{ask.cwd}/note.txt"})
    server.reply(wire.calls(read, ("read_file", {"filepath": "no"}), content="I look."), wire.says("Done."))
    first, entry, failed, reason, last = render_lines(ask.on_terminal("hi").stdout)[-5:]
    assert (first, entry, failed, last) == ("I look.", "· read note.txt", "· read no · failed", "Done.")
    assert reason.startswith("  no: no such file")


@pytest.mark.slow
def test_a_long_tool_call_is_cut_to_one_row(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("read_file", {"filepath": "漢" * 200}), ("bash", {"command": "true # " + "x" * 200})))
    server.reply(wire.says("Done."))
    with run_sized(ask, 40) as running:
        shown = render_lines(running.finish().stdout, 40)
    start = next(position for position, line in enumerate(shown) if line.startswith("· read "))
    assert re.fullmatch("· read 漢+…", shown[start])
    assert shown[start + 1] == "· failed"
    assert shown[start + 2].startswith("  漢")
    assert shown[-3].startswith("· bash: true # xxx")
    assert shown[-3].endswith("…")
    assert re.fullmatch(r"· exit 0, \d\.\d s", shown[-2])
    assert shown[-1] == "Done."


@pytest.mark.slow
def test_a_commands_output_is_shown_as_it_comes_and_measured(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "echo first; sleep 60"})))
    with ask.start_on_terminal("hi") as running:
        running.wait_for("first")
    server.reply(wire.calls(("bash", {"command": "printf part"})), wire.says("Done."))
    begun, part, entry, last = render_lines(ask.on_terminal("--command-timeout", "5", "hi").stdout)[-4:]
    assert (begun, part, last) == ("· bash: printf part", "  part", "Done.")
    assert re.fullmatch(r"· exit 0, 1 line, \d\.\d s", entry)


@pytest.mark.slow
def test_long_output_is_shortened_to_its_beginning_and_end_without_verbose(ask: Ask, server: ModelServer) -> None:
    replies = [wire.calls(("bash", {"command": "seq 300; exit 3"})), wire.says("Done.")]
    server.reply(*replies, *replies)
    shown = render_lines(ask.on_terminal("hi").stdout)
    start = shown.index("· bash: seq 300; exit 3")
    assert shown[start + 1 : start + 12] == [
        *(f"  {number}" for number in range(1, 6)),
        "  … 290 more lines",
        *(f"  {number}" for number in range(296, 301)),
    ]
    assert shown[start + 12].startswith("· exit 3, 300 lines, ")
    all_shown = render_lines(ask.on_terminal("-v", "hi").stdout)
    start = all_shown.index("· bash: seq 300; exit 3")
    assert all_shown[start + 1 : start + 301] == [f"  {number}" for number in range(1, 301)]


def test_output_cannot_pass_for_a_line_of_ask(ask: Ask, server: ModelServer) -> None:
    script = r"printf '\x1b[1A\r· edit x +1\nask: all is well\n%%50\r%%99\n'; printf 'x%.0s' {1..500}"
    server.reply(wire.calls(("bash", {"command": script})), wire.says("Done."))
    shown = render_lines(ask.on_terminal("hi").stdout)
    start = next(position for position, line in enumerate(shown) if line.startswith("· bash: "))
    assert shown[start + 1 : start + 4] == ["  · edit x +1", "  ask: all is well", "  %99"]
    assert re.fullmatch("  x+…", shown[start + 4])


@pytest.mark.slow
def test_a_silent_command_has_a_timer(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "sleep 1.2"})), wire.says("Done."))
    result = ask.on_terminal("hi")
    assert "bash: sleep 1.2, 1 s" in result.text
    assert re.fullmatch(r"· bash: sleep 1.2 · exit 0, 1\.\d s", render_lines(result.stdout)[-2])


EDIT = ("edit_file", {"filepath": "calc.py", "old_text": "a - b", "new_text": "a + b  # 漢字"})


def test_an_edit_is_shown_as_a_diff_in_color(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "calc.py").write_text("def add(a, b):\n\treturn a - b\n")
    content = "".join(f"line {number}\n" for number in range(20))
    server.reply(wire.calls(EDIT, ("write_file", {"filepath": "new", "content": content})), wire.says("Done."))
    shown = ask.on_terminal("hi").stdout
    lines = render_lines(shown)
    assert lines[lines.index("· edit calc.py +1 \u22121") :] == [
        "· edit calc.py +1 \u22121",
        "  @@ -1,2 +1,2 @@",
        "   def add(a, b):",
        "  -    return a - b",
        "  +    return a + b  # 漢字",
        "· write new +20",
        *(f"  +line {number}" for number in range(12)),
        "  … 8 more lines",
        "Done.",
    ]
    screen = Screen(rows=40)
    screen.feed(shown)
    assert (screen.styles_of("return a - b"), screen.styles_of("return a +")) == ({"red"}, {"green"})


@pytest.mark.parametrize(("option", "environment"), [("--plain", {}), ("--no-stream", {"NO_COLOR": "1"})])
def test_a_diff_without_color(option: str, environment: dict[str, str], ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "calc.py").write_text("a - b\n")
    server.reply(wire.calls(EDIT), wire.says("Done."))
    shown = ask.on_terminal(option, "hi", env=environment)
    assert "  -a - b\n  +a + b  # 漢字\n" in shown.text
    assert "\x1b[3" not in shown.text


@pytest.mark.slow
@pytest.mark.parametrize("start", ["x" * 3_000, "漢" * 20, "\x01" * 20], ids=["narrow", "wide", "escaped"])
def test_diffs_fit_narrow_terminals_and_show_where_long_lines_differ(start: str, ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "calc.py").write_text(start + "a - b" + "y" * 3_000)
    server.reply(wire.calls(EDIT), wire.says("Done."))
    with run_sized(ask, 30) as running:
        lines = render_lines(running.finish().stdout, 30)
    removed, added = (line for line in lines if line.startswith(("  -", "  +")))
    assert "a - b" in removed
    assert "a + b" in added


@pytest.mark.slow
def test_rows_with_escaped_characters_fit_the_terminal(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "calc.py").write_text("\x01\u202e" * 20 + "\na - b\n")
    server.reply(wire.calls(EDIT, ("bash", {"command": r"printf '\1\2%.0s' {1..40}"})), wire.says("Done."))
    with run_sized(ask, 30) as running:
        lines = render_lines(running.finish().stdout, 30)
    assert [line[-1] for line in lines if "x01" in line] == ["…", "…"]


def test_an_edit_of_a_binary_file_has_no_diff(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "calc.py").write_bytes(bytes(range(256)) + b"\na - b\n")
    server.reply(wire.calls(("edit_file", {**EDIT[1], "new_text": "a + b"})), wire.says("Done."))
    assert render_lines(ask.on_terminal("hi").stdout)[-3:] == [
        "· edit calc.py",
        "  no diff: it is binary, 263 bytes",
        "Done.",
    ]
    assert (ask.cwd / "calc.py").read_bytes().endswith(b"\na + b\n")


@pytest.mark.slow
@pytest.mark.parametrize("safe", [[], pytest.param(["--safe"], marks=pytest.mark.needs("bwrap"))], ids=["open", "safe"])
def test_what_was_shown_in_a_question_is_not_shown_again(ask: Ask, server: ModelServer, safe: list[str]) -> None:
    (ask.cwd / "calc.py").write_text("a - b\n")
    server.reply(wire.calls(EDIT, ("bash", {"command": "echo out"}), ("bash", {"command": "rm x"})), wire.says("Done."))
    answers = [("Make this change? ", "y"), ("Run this? ", "y"), ("Run this? ", "n")]
    lines = render_lines(ask.on_terminal("--confirm", *safe, "hi", answers=answers).stdout, rows=60)
    assert len([line for line in lines if line.endswith("-a - b")]) == 1
    assert "· edit calc.py +1 \u22121" in lines
    assert not [line for line in lines if line.startswith("· bash")]
    start = lines.index("  out")
    assert lines[start - 1] == "Run this? Allow once"
    assert lines[start + 1].startswith("· exit 0, 1 line, ")
    assert lines[-2:] == ["Run this? No", "Done."]


@pytest.mark.needs("bwrap")
def test_edits_in_the_sandbox_are_shown_and_secrets_in_them_are_not(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "calc.py").write_text("key = 'sesame-open-123'  # a - b\n")
    server.reply(wire.calls(EDIT), wire.says("Done."))
    shown = ask.on_terminal("--safe", "hi", env={"MY_TOKEN": "sesame-open-123"})
    assert "sesame" not in shown.text
    assert "[key removed]'  # a + b" in shown.text


@pytest.mark.slow
def test_no_timer_runs_during_an_approval_prompt(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "true"})), wire.says("Done."))
    with ask.start_on_terminal("--confirm", "hi") as running:
        running.wait_for("Run this?")
        offset = len(running.stdout)
        with pytest.raises(AssertionError, match="was not shown"):
            running.wait_for(", ", 1.0, after=offset)
        running.type_in("y")
        assert render_lines(running.finish().stdout)[-1] == "Done."


def test_reasoning_precedes_the_answer_and_the_last_line_shows_the_cost(ask: Ask, server: ModelServer) -> None:
    usage = wire.usage(100, 20, cost=0.0125)
    server.reply(
        wire.streams(wire.reasoning("I "), wire.reasoning("wonder"), wire.text("**yes**"), wire.finish(), usage)
    )
    result = ask.on_terminal("-v", "--no-tools", "hi")
    assert render_lines(result.stdout) == ["I wonder", "yes", "· no tool calls, 100 tokens in, 20 out, $0.0125"]
    assert re.search(rb"\x1b\[2m( |I )?wonder\x1b\[0m", result.stdout)


def test_a_cost_of_less_than_a_millionth_of_a_dollar_is_not_shown_as_0(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("yes"), wire.finish(), wire.usage(10, 3, cost=1.2e-7)))
    assert ask("-v", "--no-tools", "hi").stderr.endswith(" $0.0000001\n")


def test_only_the_answer_is_styled_when_standard_error_is_redirected(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "echo out"}), content="**I** look."), stream_reply("**yes**"))
    script = f"{ASK} hi 2>file; cat file"
    with Running(["bash", "-c", script], env=ask.env, cwd=ask.cwd, terminal=True) as running:
        shown = render_lines(running.finish().stdout)
    assert shown == ["I look.", "yes", "· bash: echo out"]
    assert "\x1b" not in Path(ask.cwd / "file").read_text()


def test_parallel_runs_do_not_erase_each_others_lines(ask: Ask, server: ModelServer) -> None:
    def answer(request: Request) -> Reply:
        word = request.json["messages"][-1]["content"][-1]["text"]
        return stream_reply("".join(f"- **{word}** {number}\n" for number in range(8)), 0.03)

    server.reply(*[answer] * 4)
    script = f"printf '%s\\n' a b c d | xargs -P 4 -I{{}} {ASK} --no-tools {{}}"
    with Running(["bash", "-c", script], env=ask.env, cwd=ask.cwd, terminal=True) as running:
        shown = render_lines(running.finish().stdout)
    assert sorted(shown) == [f"• {word} {number}" for word in "abcd" for number in range(8)]


def test_an_error_is_shown_below_the_partial_answer(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("so **far"), wire.error("it broke")))
    shown = render_lines(ask.on_terminal("--no-tools", "hi").stdout)
    assert shown[0] == "so **far"
    assert shown[1].startswith("ask: ")


def test_the_current_block_is_repeated_after_a_stop(ask: Ask, server: ModelServer) -> None:
    stopped = Event()
    steps: list[Step] = [
        wire.event(wire.text("# One\n\nSome text")),
        stopped,
        wire.event(wire.text(", and more")),
        HOLD,
    ]
    server.reply(Reply(steps, content_type="text/event-stream"))
    with ask.start_on_terminal("--no-tools", "-q", "hi") as running:
        running.wait_for("Some text")
        running.signal(signal.SIGSTOP)
        running.signal(signal.SIGCONT)
        stopped.set()
        running.wait_for("and more")
        running.signal(signal.SIGINT)
        shown = render_lines(running.finish().stdout)
    assert [line for line in shown if line and not line.startswith("ask: ")] == [
        *("One", "Some text", "Some text, and more")
    ]


@pytest.mark.slow
def test_a_terminal_that_becomes_narrower_loses_nothing(ask: Ask, server: ModelServer) -> None:
    words = [f"word{number}" for number in range(60)]
    server.reply(stream_reply("Above.\n\n" + " ".join(words), 0.003))
    screen = Screen()
    with ask.start_on_terminal("--no-tools", "-q", "hi") as running:
        offset = running.wait_for("word20")
        running.resize(24, 40)
        result = running.finish()
    screen.feed(result.stdout[:offset])
    screen.resize(40)
    screen.feed(result.stdout[offset:])
    shown = " ".join(screen.lines).split()
    assert shown[0] == "Above."
    assert shown[-len(words) :] == words


def test_the_first_words_do_not_wait_for_the_modules_that_lay_out_markdown(ask: Ask, server: ModelServer) -> None:
    folder, marker = ask.cwd / "path", ask.cwd / "loaded"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        f"""
import importlib.machinery, os, sys, time
class SlowImport:
    def find_spec(name, path, target=None):
        if name != "markdown_it":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module
        def wait_and_execute(module):
            while not os.path.exists({str(marker)!r}):
                time.sleep(0.01)
            execute(module)
        spec.loader.exec_module = wait_and_execute
        return spec
sys.meta_path.insert(0, SlowImport)
"""
    )
    ask = replace(ask, env={**ask.env, "PYTHONPATH": str(folder)})
    shown = Event()
    steps: list[Step] = [wire.event(wire.text("Plain")), shown, wire.event(wire.text(" **bold** words")), *END_STEPS]
    server.reply(Reply(steps, content_type="text/event-stream"))
    with ask.start_on_terminal("--no-tools", "-q", "hi") as running:
        running.wait_for("Plain")
        marker.touch()
        shown.set()
        assert render_lines(running.finish().stdout) == ["Plain bold words"]


def test_a_spinner_that_is_stopped_can_start_again_and_leaves_no_thread() -> None:
    ticked = Event()
    ticker = Ticker(ticked.set)
    for _ in range(2):
        ticked.clear()
        ticker.start()
        assert ticked.wait(10)
        threads = [thread for thread in threading.enumerate() if thread.name == "ask ticker"]
        ticker.stop()
        for thread in threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in threads)


def test_a_signal_just_before_a_system_call_ends_it() -> None:
    def receive_signal() -> None:  # in this thread, so that the system call of the main thread goes on
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    ticker, receiver = Ticker(lambda: None), threading.Timer(0.2, receive_signal)
    ticker.start()
    receiver.start()
    started = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            select.select([], [], [], 10)
    finally:
        ticker.stop()
        receiver.join()
    assert time.monotonic() - started < 5
