"""Generates the man page and the page of all options from the code.

`make generated` writes docs/ask.1 and docs/options.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ask.version import VERSION
from tests import roff
from tests.command_line import (
    CommandReference,
    OptionReference,
    describe_ask,
    list_config_keys,
    list_subcommands,
    read_exit_codes,
    read_variables,
)

DOCS = Path(__file__).parents[1] / "docs"
MAN_PAGE, OPTIONS_PAGE = DOCS / "ask.1", DOCS / "options.md"
REVISED = "2026-11-21"
"""The date on the man page, updated with the texts below."""
MADE = "make generated"

SUMMARY = "any language model in your shell"
DESCRIPTION = """\
`ask` puts a question to a language model and prints its answer on standard output, as it comes. Nothing else goes
there: what tools do, warnings and errors go to standard error.

The question needs no quotes if its options come first. A question that is one argument may have options on both
sides. After several words, short options are part of the question, and long options of `ask` are an error. `--` ends
the options. Only the first argument can be one of the commands below; `ask -- history of rome` asks. Without any
argument, on a terminal, `ask` opens a chat.

Unless `--no-tools` is given, the model may read and write files and run commands, in this folder, as you could.
`--confirm` asks before each call that runs or writes, and `--safe` confines what tools can do.

`-p` names the provider; without it, it is the one that environment or configuration names, or else openrouter, or
else the first that has a key. `ask keys set` keeps a key. The provider `demo` is embedded, and needs neither key nor
network."""
STDIN = """\
What is piped in stands with the question as a marked block, or is the question where there are no words. It is read
to its end before anything is asked. So in a loop that reads lines, `ask` would take the lines that are left: there it
needs `--no-stdin`, or `</dev/null`.

A terminal is not read. Standard input that is binary, or longer than `stdin_limit`, ends the run with exit code 9."""
FILES = {
    "~/.config/ask/config.toml": "the configuration; see `ask config`",
    "~/.config/ask/keys.toml": "the keys that `ask keys set` keeps, for its owner alone to read",
    "~/.local/share/ask/history.db": "the conversations",
    "~/.local/share/ask/chat_history": "what was typed in `ask chat`, for its arrow keys",
    "~/.local/share/ask/audit.jsonl": "a line for each tool call",
    "~/.local/share/ask/approvals.json": "tool calls that need no further approval",
    "~/.local/share/ask/trusted-projects.json": "the projects whose `AGENTS.md` and skills may be used",
    "~/.local/share/ask/originals/": "what files held before a run changed them, for `ask undo`",
    "~/.local/share/ask/results/": "results of tools that are too long for the model to be given whole",
    "~/.cache/ask/": "the lists of models and of plugins; may be deleted",
}
AFTER_FILES = (
    "`XDG_CONFIG_HOME`, `XDG_DATA_HOME` and `XDG_CACHE_HOME` put them elsewhere, and so do the customs of macOS."
)
IN_CONFIG = "A key with a dot is in a table: `tools.enabled` is `enabled` in `[tools]`."
EXAMPLES = {
    "Ask in plain words.": "ask what does rm -f do",
    "Have something looked at.": 'git diff | ask "anything wrong with this?"',
    "Go on with the last conversation.": "ask -c and why is that",
    "Try it without a key.": 'ask -p demo "which files are here?"',
    "Use an answer in a script.": 'if answer=$(ask -q "..."); then echo "$answer"; fi',
}
SEE_ALSO = "`bash`(1), `git`(1), `jq`(1), `xargs`(1)"


def generate() -> dict[Path, str]:
    """Return the content of both pages, by path."""
    return {MAN_PAGE: man_page(), OPTIONS_PAGE: options_page()}


# The man page


def man_page() -> str:
    groups = list(list_subcommands())
    return roff.page(
        "ask",
        REVISED,
        f"ask {VERSION}",
        [
            f'.\\" Made by {MADE}; do not change it by hand.\n',
            roff.section("NAME", f"ask \\- {roff.escape(SUMMARY)}\n"),
            roff.section(
                "SYNOPSIS", roff.paragraphs([synopsis(describe_ask())]), *(synopsis_line(each) for each in groups)
            ),
            roff.section("DESCRIPTION", roff.paragraphs(DESCRIPTION.split("\n\n"))),
            roff.section("OPTIONS", option_terms(describe_ask().options)),
            roff.section("COMMANDS", *(command_section(each) for each in groups)),
            roff.section("STDIN", roff.paragraphs(STDIN.split("\n\n"))),
            roff.section(
                "EXIT STATUS", roff.terms((f"\\fB{code}\\fR", meaning) for code, meaning in read_exit_codes())
            ),
            roff.section("ENVIRONMENT", roff.terms((roff.inline(names), text) for names, text in read_variables())),
            roff.section(
                "FILES",
                roff.terms((f"\\fI{roff.escape(name)}\\fR", text) for name, text in FILES.items()),
                ".PP\n",
                roff.paragraphs([AFTER_FILES]),
                roff.subsection("config.toml", roff.paragraphs([IN_CONFIG]), key_terms()),
            ),
            roff.section("EXAMPLES", roff.paragraphs(part for pair in examples() for part in pair)),
            roff.section("SEE ALSO", roff.paragraphs([SEE_ALSO])),
        ],
    )


def examples() -> list[tuple[str, str]]:
    return [(text, f"\b\n{line}") for text, line in EXAMPLES.items()]


def synopsis(one: CommandReference) -> str:
    return f"`{one.name}` {one.arguments}".strip()


def synopsis_line(one: CommandReference) -> str:
    return f".br\n{roff.inline(synopsis(one))}\n"


def heading(one: CommandReference) -> str:
    """Return a command with its arguments, without its options."""
    return f"{one.name} {one.arguments.removeprefix('[OPTIONS]').strip()}".strip()


def command_section(one: CommandReference) -> str:
    parts = [roff.paragraphs(one.paragraphs), option_terms(one.options)]
    return roff.subsection(heading(one), *parts)


def option_terms(options: Sequence[OptionReference]) -> str:
    return roff.terms((roff.option(option.names, option.value), option.help) for option in options)


def key_terms() -> str:
    """Format the keys of config.toml with type, default and meaning."""
    rows = ((key, ", ".join(filter(None, (key.kind, key.default)))) for key in list_config_keys())
    return roff.terms((f"\\fB{roff.escape(key.name)}\\fR", f"{key.meaning} ({words})") for key, words in rows)


# The options page


def options_page() -> str:
    commands = "".join(
        f"### `{heading(one)}`\n\n{markdown(one.paragraphs)}\n{option_table(one.options)}" for one in list_subcommands()
    )
    settings = [
        (code(key.name), key.kind, key.default and code(key.default), key.meaning) for key in list_config_keys()
    ]
    return f"""\
<!-- Made by {MADE}; do not change it by hand. -->

# All options

Everything in `ask --help` and `man ask` on one page: options, commands, exit codes, environment variables and
settings. [Asking](usage.md) introduces the common ones; the [recipes](recipes.md) combine `ask` with other programs.

## Options

`ask {describe_ask().arguments}`

{option_table(describe_ask().options)}## Commands

Only the first argument can be a command: `ask -- history of rome` asks a question. Each command has `--help`.

{commands}## Exit codes

{markdown_table("code | when", read_exit_codes())}
## Environment

{markdown_table("variable | meaning", read_variables())}
## Configuration

`ask config path` tells where config.toml is. {IN_CONFIG}

{markdown_table("key | type | default | meaning", settings)}"""


def option_table(options: Sequence[OptionReference]) -> str:
    rows = [(code(f"{option.names} {option.value}".strip()), option.help) for option in options]
    return f"{markdown_table('option | meaning', rows)}\n" if rows else ""


def code(text: str) -> str:
    return f"`{text}`"


def markdown(paragraphs: Sequence[str]) -> str:
    """Format the paragraphs of a command's help as Markdown."""
    return "\n".join(
        f"```\n{text[2:]}\n```\n" if text.startswith("\b\n") else f"{' '.join(text.split())}\n" for text in paragraphs
    )


def markdown_table(heading: str, rows: Sequence[Sequence[object]]) -> str:
    columns = heading.count(" | ") + 1
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    lines = [f"| {heading} |", "|---" * columns + "|", *(f"| {' | '.join(row)} |" for row in cells)]
    return "\n".join(lines) + "\n"
