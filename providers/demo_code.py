"""Answers of the demo when one shell command or code is requested: a few fixed ones, otherwise a comment."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from .demo_rules import POLITE_PREFIX_PATTERN, compile_rule, plan_calls, trim_sentence

FOLDER_PATTERN = r"(?: (?:in|under|below) (?P<where>\S+?))?(?: please)?[.?!]*"
SIZE_PATTERN = r"(?:over|above|(?:larger|bigger) than|of more than) (?P<size>\d+) ?(?P<unit>[KMG])i?B?"
NO_COMMAND_MESSAGE = (
    '# I am the embedded demo and know only a few commands: try "find files over 1 GB", or -p openrouter'
)
NO_CODE_MESSAGE = (
    '# I am the embedded demo and know only how to say hello: try "hello world in Python", or -p openrouter'
)

HELLO_PROGRAMS = {
    "bash": 'echo "Hello, world!"',
    "c": '#include <stdio.h>\n\nint main(void) {\n    puts("Hello, world!");\n}',
    "go": 'package main\n\nimport "fmt"\n\nfunc main() {\n\tfmt.Println("Hello, world!")\n}',
    "javascript": 'console.log("Hello, world!");',
    "python": 'print("Hello, world!")',
    "rust": 'fn main() {\n    println!("Hello, world!");\n}',
}
"""A hello-world program by language."""


def find_command(prompt: str) -> str:
    """Return the shell command for a prompt, or a comment that the demo knows none."""
    request = POLITE_PREFIX_PATTERN.sub("", prompt).strip()
    for pattern, action in COMMAND_RULES:
        match = pattern.fullmatch(request)
        if match:
            return action(match)
    calls = [call for calls in plan_calls(request) for call in calls]
    commands = [
        to_shell_command(call.tool_name, {name: str(value) for name, value in call.arguments.items()}) for call in calls
    ]
    return " && ".join(commands) if commands and all(commands) else NO_COMMAND_MESSAGE


def to_shell_command(tool_name: str, arguments: dict[str, str]) -> str:
    """Return the shell equivalent of a tool call; "" if there is no short one."""
    match tool_name:
        case "list_dir":
            folder = arguments["dirpath"]
            return "ls -l" if folder == "." else f"ls -l {shlex.quote(folder)}"
        case "read_file":
            return f"cat {shlex.quote(arguments['filepath'])}"
        case "write_file":
            return f"printf '%s\\n' {shlex.quote(arguments['content'])} > {shlex.quote(arguments['filepath'])}"
        case "bash":
            return arguments["command"]
    return ""


def quote_folder(match: re.Match[str]) -> str:
    """Return the folder in the match, quoted for the shell; "." if none is named."""
    return shlex.quote(trim_sentence(match["where"] or "."))


def find_large_files(match: re.Match[str]) -> str:
    unit = match["unit"].replace("K", "k").replace("m", "M").replace("g", "G")
    return f"find {quote_folder(match)} -type f -size +{match['size']}{unit}"


def return_command(command: str) -> Callable[[re.Match[str]], str]:
    """Return a rule action that always returns this command."""
    return lambda _: command


COMMAND_RULES: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = [
    (
        compile_rule(rf"(?:find|list|show|which) (?:all )?(?:the )?files {SIZE_PATTERN}{FOLDER_PATTERN}"),
        find_large_files,
    ),
    (
        compile_rule(rf"(?:find|list|show) (?:the )?(?:largest|biggest) files{FOLDER_PATTERN}"),
        lambda match: f"find {quote_folder(match)} -type f -exec du -h {{}} + | sort -rh | head -n 10",
    ),
    (
        compile_rule(rf"(?:find|list|show) (?:all )?(?:the )?files (?:that )?changed today{FOLDER_PATTERN}"),
        lambda match: f"find {quote_folder(match)} -type f -mtime -1",
    ),
    (
        compile_rule(rf"(?:find|search(?: for)?|list|grep) (?:all )?(?:the )?(?P<text>TODO|FIXME)s?{FOLDER_PATTERN}"),
        lambda match: f"grep -rn {match['text'].upper()} {quote_folder(match)}",
    ),
    (compile_rule(r"(?:show |check )?(?:the |free )*disk space(?: left)?[.?!]*"), return_command("df -h")),
    (compile_rule(r"(?:undo|take back) (?:the |my )?last commit[.?!]*"), return_command("git reset --soft HEAD~1")),
]
"""Tried in this order, before the rules for tool calls."""


def find_program(prompt: str) -> str:
    """Return a program in a fenced block, or a comment that the demo knows none."""
    languages = [language for language in HELLO_PROGRAMS if re.search(rf"\b{language}\b", prompt, re.IGNORECASE)]
    if not languages or not re.search(r"\bhello\b", prompt, re.IGNORECASE):
        return NO_CODE_MESSAGE
    return f"Here it is:\n\n```{languages[0]}\n{HELLO_PROGRAMS[languages[0]]}\n```\n\nIt says hello."
