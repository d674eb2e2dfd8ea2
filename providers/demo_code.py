"""What the demo answers where one shell command, or code, is asked for: a few of each, and otherwise that it has none.

Pure functions from words to text, of which `demo` says when.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from .demo_rules import POLITE, plan, rule, trim

WHERE = r"(?: (?:in|under|below) (?P<where>\S+?))?(?: please)?[.?!]*"
SIZE = r"(?:over|above|(?:larger|bigger) than|of more than) (?P<size>\d+) ?(?P<unit>[KMG])i?B?"
NO_COMMAND = '# I am the embedded demo and know only a few commands: try "find files over 1 GB", or -p openrouter'
NO_CODE = '# I am the embedded demo and know only how to say hello: try "hello world in Python", or -p openrouter'

PROGRAMS = {
    "bash": 'echo "Hello, world!"',
    "c": '#include <stdio.h>\n\nint main(void) {\n    puts("Hello, world!");\n}',
    "go": 'package main\n\nimport "fmt"\n\nfunc main() {\n\tfmt.Println("Hello, world!")\n}',
    "javascript": 'console.log("Hello, world!");',
    "python": 'print("Hello, world!")',
    "rust": 'fn main() {\n    println!("Hello, world!");\n}',
}
"""A program that says hello, by language."""


def command_for(words: str) -> str:
    """The shell command for a wish; a comment that there is none."""
    wish = POLITE.sub("", words).strip()
    for pattern, make in COMMANDS:
        match = pattern.fullmatch(wish)
        if match:
            return make(match)
    calls = [call for calls in plan(wish) for call in calls]
    commands = [as_command(call.tool, {name: str(value) for name, value in call.arguments.items()}) for call in calls]
    return " && ".join(commands) if commands and all(commands) else NO_COMMAND


def as_command(tool: str, arguments: dict[str, str]) -> str:
    """What does in a shell what a call would do; "" where that is more than a short command."""
    match tool:
        case "list_dir":
            place = arguments["dirpath"]
            return "ls -l" if place == "." else f"ls -l {shlex.quote(place)}"
        case "read_file":
            return f"cat {shlex.quote(arguments['filepath'])}"
        case "write_file":
            return f"printf '%s\\n' {shlex.quote(arguments['content'])} > {shlex.quote(arguments['filepath'])}"
        case "bash":
            return arguments["command"]
    return ""


def place(match: re.Match[str]) -> str:
    """The folder that is named, as an argument; "." without one."""
    return shlex.quote(trim(match["where"] or "."))


def big_files(match: re.Match[str]) -> str:
    """Find files over a size."""
    unit = match["unit"].replace("K", "k").replace("m", "M").replace("g", "G")
    return f"find {place(match)} -type f -size +{match['size']}{unit}"


def always(command: str) -> Callable[[re.Match[str]], str]:
    """A rule's command that is always the same."""
    return lambda _: command


COMMANDS: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = [
    (rule(rf"(?:find|list|show|which) (?:all )?(?:the )?files {SIZE}{WHERE}"), big_files),
    (
        rule(rf"(?:find|list|show) (?:the )?(?:largest|biggest) files{WHERE}"),
        lambda match: f"find {place(match)} -type f -exec du -h {{}} + | sort -rh | head -n 10",
    ),
    (
        rule(rf"(?:find|list|show) (?:all )?(?:the )?files (?:that )?changed today{WHERE}"),
        lambda match: f"find {place(match)} -type f -mtime -1",
    ),
    (
        rule(rf"(?:find|search(?: for)?|list|grep) (?:all )?(?:the )?(?P<text>TODO|FIXME)s?{WHERE}"),
        lambda match: f"grep -rn {match['text'].upper()} {place(match)}",
    ),
    (rule(r"(?:show |check )?(?:the |free )*disk space(?: left)?[.?!]*"), always("df -h")),
    (rule(r"(?:undo|take back) (?:the |my )?last commit[.?!]*"), always("git reset --soft HEAD~1")),
]
"""Tried in this order; what the demo would call a tool for comes after them."""


def program_for(words: str) -> str:
    """A program in a fenced block; a comment that there is none."""
    named = [name for name in PROGRAMS if re.search(rf"\b{name}\b", words, re.IGNORECASE)]
    if not named or not re.search(r"\bhello\b", words, re.IGNORECASE):
        return NO_CODE
    return f"Here it is:\n\n```{named[0]}\n{PROGRAMS[named[0]]}\n```\n\nIt says hello."
