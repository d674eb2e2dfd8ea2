"""The `ask` command: its options, and the separation of options and prompt. `ask.cli.run` runs the prompt.

A prompt that is a single argument may have options on both sides, whatever it contains, so a script's
`ask "$task" --safe` never depends on the task. A prompt of several words has its options before it: after its first
word, short options are text, and ask's own long options are an error, because they may be meant as options.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from ask import __version__
from ask.cli.commands import (
    ALL_HELP,
    COMMANDS,
    PATH,
    RARE_COMMANDS,
    SectionedCommand,
    change_directory,
    find_options_with_value,
    find_plugin_commands,
    get_own_names,
    is_on_terminal,
    join_short_options,
    load_command,
)
from ask.config.options import RunOptions
from ask.config.settings import SETTINGS, convert_to_seconds, get_default_value, get_kind
from ask.errors import RunInterruptedError, UsageError
from ask.records import NamedTuple

MAX_SECONDS = 31_536_000.0
"""A year."""
MAX_DOLLARS = 1_000_000_000.0
"""The same limit as in config.toml."""
TYPOGRAPHIC_DASHES = "[-\u2010-\u2015\u2212]+"
"""Matches what web pages and word processors write in place of the dashes of an option."""
EM_DASHES = "\u2014\u2015"


class ParsedCommandLine(NamedTuple):
    """A command line divided into options and the prompt.

    Attributes:
        options: the options, with their values.
        words: the arguments that form the prompt.
        literal_options: short options of ask that were read as part of the prompt.
        misplaced_option: an option of ask among the words of the prompt, which is an error; "" for none.
        explicit: whether `--` precedes the prompt.
    """

    options: tuple[str, ...]
    words: tuple[str, ...] = ()
    literal_options: tuple[str, ...] = ()
    misplaced_option: str = ""
    explicit: bool = False


def parse_command_line(arguments: Sequence[str], names: Mapping[str, bool]) -> ParsedCommandLine:
    """Divide the arguments of a command into its options and the prompt.

    Args:
        arguments: the arguments.
        names: the options of the command, each spelled like "-q" or "--quiet", and whether it takes a value.

    Raises:
        UsageError: an option lacks its value or has a typographic dash, or nothing but options follows `--`.
    """
    count = _count_options(arguments, names)
    options, rest = tuple(arguments[:count]), tuple(arguments[count:])
    if rest[:1] == ("--",):
        _check_has_prompt_text(rest[1:], names)
        return ParsedCommandLine(options, rest[1:], explicit=True)
    following = rest[1:]
    count = _count_options(following, names)
    trailing_options, more_words = following[:count], following[count:]
    _check_dashes(rest[:1] + (() if more_words[:1] == ("--",) else more_words), names)
    if not more_words or more_words[0] == "--":
        return ParsedCommandLine(options + trailing_options, rest[:1] + more_words[1:])
    literal_options = tuple(word for word in following if _is_known_option(word, names))
    misplaced_long = next((word for word in literal_options if word.startswith("--")), "")
    # Other options or a value may be attached to a short one, as in "-qv" or "-pdemo".
    misplaced_short = next((option for option in trailing_options if _is_option(option) and option[:2] in names), "")
    return ParsedCommandLine(options, rest, literal_options, misplaced_option=misplaced_long or misplaced_short)


def _count_options(arguments: Sequence[str], names: Mapping[str, bool]) -> int:
    """Count the arguments before the first word of the prompt.

    Raises:
        UsageError: an option lacks its value.
    """
    position = 0
    while position < len(arguments) and _is_option(arguments[position]) and arguments[position] != "--":
        option = arguments[position]
        if not option.startswith("--") and _is_known_option(f"-{option}", names):
            raise UsageError(f"{option} needs two dashes", f"write -{option}")
        position += 1
        if not _takes_next_argument(option, names) or position == len(arguments):
            continue
        value = arguments[position]
        if value == "--" or _is_known_option(value, names):
            attached = f"{option}={value}" if option.startswith("--") else f"{option}{value}"
            hint = f"write {attached} to use it as the value"
            if option == "-p":
                hint = "-p selects a provider, and a question needs no option"
            raise UsageError(f"{option} needs a value, but {value} is an option", hint)
        position += 1
    return position


def _check_has_prompt_text(words: Sequence[str], names: Mapping[str, bool]) -> None:
    """Reject a prompt whose words are all options: in `ask "$task" --safe`, the task itself may be `--`.

    Raises:
        UsageError: there are words, and all are options or their values.
    """
    long_option = next((word for word in words if word.startswith("--") and _is_known_option(word, names)), "")
    if long_option and _count_options(words, names) == len(words):
        raise UsageError(
            f"the words after -- are all options, such as {long_option}",
            f'write them before --, or ask a complete question: "what is {long_option}?"',
        )


def _check_dashes(words: Sequence[str], names: Mapping[str, bool]) -> None:
    """Reject an option with typographic dashes: `ask —safe "$task"` would not be safe.

    Raises:
        UsageError: a word is a long option, or the first one is a short option with another dash than that of dialogue.
    """
    for position, word in enumerate(words):
        name = re.sub(f"^{TYPOGRAPHIC_DASHES}", "", word)
        option = f"--{name}" if len(name) > 1 else f"-{name}"
        # A dash in place of a hyphen, but not one that begins a line of dialogue, as in "—y tú".
        is_short = len(name) == 1 and (position or word[0] in EM_DASHES)
        if not is_short and word not in (option, name) and _is_known_option(option, names):
            raise UsageError(f"{word} begins with a typographic dash", f"write {option}, or put -- before the question")


def _is_option(argument: str) -> bool:
    """Check whether an argument has the form of an option.

    A single dash, or a dash before a space, is text.
    """
    return len(argument) > 1 and argument.startswith("-") and not argument[1].isspace()


def _is_known_option(argument: str, names: Mapping[str, bool]) -> bool:
    """Check whether an argument is one of a command's options, perhaps with "=VALUE"."""
    return argument.partition("=")[0] in names


def _takes_next_argument(option: str, names: Mapping[str, bool]) -> bool:
    """Check whether an option's value is the next argument.

    It is in "-p demo" and "-qp demo", but not in "-pdemo" or "--key=x".
    """
    if option.startswith("--"):
        return names.get(option, False)
    for position, letter in enumerate(option[1:], start=2):
        if names.get(f"-{letter}", True):  # an unknown letter is an error, or text as in "ls -la"
            return position == len(option) and f"-{letter}" in names
    return False


def make_amount_parser(unit: str, maximum: float, convert: Callable[[str], float] = float) -> Callable[[str], float]:
    """Return a parser for an option whose value is a positive number, or is converted to one."""

    def parse(text: str) -> float:
        try:
            number = convert(text)
        except ValueError:
            number = 0.0
        if not 0 < number <= maximum:
            limit = f", at most {maximum:.0f}" if number > maximum else ""
            raise click.BadParameter(f"must be a positive number of {unit}{limit}, not {text!r}")
        return number

    return parse


parse_seconds = make_amount_parser("seconds, or a time such as 5m", MAX_SECONDS, convert_to_seconds)
parse_dollars = make_amount_parser("US dollars", MAX_DOLLARS)


def parse_max_rounds(text: str) -> int:
    from ask.cli.click_helpers import parse_whole_number

    return parse_whole_number(1)(text)


TYPO_SIMILARITY = 0.8
"""Minimum similarity of a word to a command to count as a typo: "hello" is not "help"."""
MAX_LISTED_FILES = 4
"""Maximum number of files that an error lists."""


OPTION_GROUPS = {
    "Model": ("provider", "model", "effort", "options", "fallback", "max_cost", "max_cost_per_day"),
    "Input": ("files", "system", "template", "variables", "context", "no_context"),
    "Conversation": ("continue_last", "resume", "unanswered", "no_save"),
    "Tools": (
        *("server_tools", "confirm", "yes", "no_tools", "disabled_tools", "function_tools"),
        *("max_rounds", "command_timeout", "max_command_timeout"),
    ),
    "Sandbox": (
        *("safe", "safe_files", "allow_dirs", "allow_git"),
        *("allow_hosts", "allow_command_hosts", "allow_tools"),
    ),
    "Output": (
        *("cmd", "code", "extract", "schema", "decide"),
        *("as_json", "as_events", "input_events", "plain", "quiet", "verbose"),
    ),
}
"""The sections of options in the help, by their parameter names."""
RARE_OPTIONS = ("base_url", "key", "directory", "color", "usage", "record")
SYNONYMS = {
    "files": ("-a", "--attachment"),
    "system": ("--append-system-prompt",),
    "resume": ("--cid", "--conversation"),
    "no_save": ("-n", "--no-log"),
    "no_stream": ("-S",),
    "directory": ("--cwd",),
    "extract": ("--xl", "--extract-last"),
    "schema": ("--json-schema", "--output-schema"),
}
"""Names of options in other programs, by parameter name. Help, manual and completion leave them out."""
OUTPUT_FORMAT_PARAMETERS = {"text": (), "json": ("as_json",), "stream-json": ("as_events",)}
"""The parameters that the values of `--output-format` set, which is the name that other programs use for them."""


class AskOption(click.Option):
    """An option that is also recognized by its `SYNONYMS`."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        # Only while it is added: help and errors show the names in `opts`.
        own_names, self.opts = self.opts, _list_names(self)
        super().add_to_parser(parser, ctx)
        self.opts = own_names


class AskCommand(SectionedCommand):
    """Separates the options from the prompt before Click parses the options."""

    sections = OPTION_GROUPS
    rare_options = RARE_OPTIONS

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        params = self.get_params(ctx)
        long_names = {name: param.opts[-1] for param in params for name in _list_names(param)}
        kinds = find_options_with_value(params)
        takes_value = {name: kinds.get(long_name, False) for name, long_name in long_names.items()}
        parsed = parse_command_line(args, takes_value)
        # Click looks up each short option as a long one first, and then imports difflib for an error that it discards.
        words = join_short_options(parsed.options, takes_value)
        rest = super().parse_args(ctx, [long_names.get(word, word) for word in words])
        ctx.params |= dict.fromkeys(OUTPUT_FORMAT_PARAMETERS[ctx.params.pop("output_format") or "text"], True)
        provider = ctx.params["provider"] or ""
        if " " in provider.strip() or provider.endswith("?"):  # in other programs, -p prints the answer
            raise UsageError("-p selects a provider, and a question needs no option", f'try: ask "{provider}"')
        with_files = ctx.params["files"] or parsed.misplaced_option.startswith(("-f", "--file"))
        if with_files and not parsed.explicit:
            _check_no_stray_files(ctx.params["files"], parsed.words)
        for name in ("as_events", "input_events"):
            if ctx.params["as_json"] and ctx.params.get(name):
                option = "--" + name.removeprefix("as_").replace("_", "-")
                raise UsageError(f"--json and {option} cannot be combined", "use one of them")
        may_call = ctx.info_name == "ask" and parsed.options and not parsed.explicit
        if may_call and (name := _find_called_command(parsed.words)):
            hint = f"write ask {name} ...; to ask this as a question, put -- before it"
            raise UsageError("options come after the name of a command", hint)
        if parsed.misplaced_option:
            option = parsed.misplaced_option
            hint = f"put options first or quote the question; to ask about {option}, put -- before the question"
            raise UsageError(f"{option} appears among the words of the question", hint)
        ctx.params |= {"words": parsed.words, "literal_options": parsed.literal_options}
        ctx.meta["ask.explicit"] = parsed.explicit
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]", "[PROMPT]..."]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shows_all = ALL_HELP in ctx.meta
        with formatter.section("Commands"):
            formatter.write_dl([item for item in COMMANDS.items() if shows_all or item[0] not in RARE_COMMANDS])
        if plugin_commands := find_plugin_commands():
            with formatter.section("Commands of packages"):
                formatter.write_dl([(name, entry.distribution) for name, (entry, *_) in plugin_commands.items()])
        formatter.write_paragraph()
        formatter.write_text("Options come first, or after a quoted question. -- ends the options.")
        if not shows_all:
            formatter.write_text("ask --help --all also shows what is rarely needed.")


def _list_names(option: click.Parameter) -> list[str]:
    """Return the names by which an option is recognized, its own first."""
    return [*option.opts, *(SYNONYMS.get(option.name or "", ()) if isinstance(option, AskOption) else ())]


def _change_directory(_: click.Context, __: click.Parameter, value: str | None) -> None:
    if value is not None:
        change_directory(value)


def _choose_colors(_: click.Context, __: click.Parameter, value: str | None) -> None:
    """Choose with the environment, which the console reads, whether colors are used."""
    if value in ("always", "never"):
        os.environ.pop("FORCE_COLOR", None)
        os.environ["FORCE_COLOR" if value == "always" else "NO_COLOR"] = "1"


def _find_mistyped_command(words: Sequence[str]) -> str:
    """Find the command that a prompt nearly names, or names as other programs do; return "" if there is none.

    Only a prompt of one word, of "help" and one word, or with a verb such as "set" as its second word is checked.
    """
    from ask.cli.usage_errors import COMMAND_VERBS, find_meant_command

    *before, word = words[:1] if words[1:2] and words[1] in COMMAND_VERBS else words or ("",)
    if before not in ([], ["help"]):
        return ""
    command = find_meant_command(word.lower(), COMMANDS, TYPO_SIMILARITY)
    return " ".join(("ask", *before, command)) if command else ""


def _find_called_command(words: Sequence[str]) -> str:
    """Return the command that a prompt calls, such as "history list" in its first two words; "" if it calls none.

    Options precede it if `ask` is an alias such as `ask -p ollama`.
    """
    if len(words) < 2 or get_own_names(words[:2])[0] not in COMMANDS:
        return ""
    if words[0] == "map" and any("{{" in word for word in words):
        return "map"
    is_script = words[0] == "init" and words[1] in ("bash", "fish", "zsh")
    return " ".join(words[:2]) if is_script or load_command(words[:2]) else ""


def _check_no_stray_files(files: Sequence[str], words: Sequence[str]) -> None:
    """Reject a prompt with file names, from a pattern that the shell has expanded.

    `-f *.txt` becomes `-f a.txt b.txt c.txt`, and -f only takes the first file.

    Raises:
        UsageError: a word of the prompt is a file.
    """
    from os.path import exists, isfile
    from shlex import join, quote

    stray_files = [
        word
        for position, word in enumerate(words)
        if not word.startswith("-") and (isfile(word) or (exists(word) and (position == 0 or "/" in word)))
    ]
    if not stray_files:
        return
    options = [f"-f {quote(file)}" for file in (*files, *stray_files)]
    suggestion = " ".join(options if len(options) <= MAX_LISTED_FILES else [*options[:MAX_LISTED_FILES], "..."])
    question = " ".join(word for word in words if word not in stray_files and not word.startswith("-")) or "QUESTION"
    raise UsageError(
        f"{join(stray_files[:1])} is a file but appears among the words of the question",
        f"try: ask {suggestion} {quote(question)}, or quote the pattern: -f '*.txt'",
    )


def _parse_comma_list(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Split values such as "a,b" at commas, and leave out empty ones."""
    return tuple(filter(None, split_models(context, parameter, value)))


def split_models(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Split values such as "a,b" at commas. An empty value, which overrides config.toml, is kept."""
    return tuple(model.strip() for text in value for model in text.split(",") if model.strip() or not text)


def _setting_option(
    key: str, *declarations: str, more: str = "", **attributes: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the decorator for an option that sets a setting for one run, with the description of the setting as help.

    Args:
        key: the key of the setting.
        declarations: the names of the option.
        more: what the help says besides.
        attributes: further attributes of the option.
    """
    setting, default = SETTINGS[key], get_default_value(key)
    name = setting.option or setting.field
    text = setting.description[:1].upper() + setting.description[1:]
    if name.startswith("no_"):
        text = f"Do not {setting.description}"
    elif isinstance(default, int | float) and not isinstance(default, bool):
        text += f" ({default:g})"
    kind: Mapping[str, Any] = {bool: {"is_flag": True}, list: {"multiple": True}}.get(get_kind(setting.type), {})
    about = "; ".join(filter(None, (text, more))) + "."
    return click.option(*declarations, name, cls=AskOption, help=about, **kind, **attributes)


@click.command("ask", cls=AskCommand)
@click.option("-p", "--provider", metavar="NAME", help="Provider to use (see ask providers).")
@click.option("-m", "--model", metavar="NAME", help="Model to use; without -p also as provider:model.")
@_setting_option("fallback", "--fallback", metavar="A,B", callback=split_models)
@click.option("--base-url", metavar="URL", help="Base URL of the provider.")
@click.option("--key", metavar="KEY", help="API key.")
@_setting_option("system", "-s", "--system", metavar="TEXT", more="@file reads a file")
@click.option(
    "-f",
    "--file",
    "files",
    cls=AskOption,
    metavar="PATH",
    multiple=True,
    help="Attach a file, folder, image, PDF or URL.",
)
@click.option("--effort", metavar="LEVEL", help="Reasoning effort, such as none, low or high.")
@click.option(
    "-o", "--option", "options", metavar="KEY=VALUE", multiple=True, help="Model parameter, such as temperature=0.2."
)
@click.option("-t", "--template", metavar="NAME", help="Use a prompt template (see ask templates).")
@click.option("--var", "variables", metavar="K=V", multiple=True, help="With -t: value for a {{placeholder}}.")
@click.option("-c", "--continue", "continue_last", is_flag=True, help="Continue this terminal's last conversation.")
@click.option("--resume", cls=AskOption, metavar="ID", help="Continue a conversation (see ask history).")
@click.option("--unanswered", is_flag=True, help="With -c or --resume: also send the unanswered question.")
@_setting_option("history.enabled", "--no-save")
@_setting_option("tools.enabled", "--no-tools")
@_setting_option("tools.disabled", "--disable-tool", metavar="A,B", callback=_parse_comma_list)
@click.option("--context", is_flag=True, help="Send the project's AGENTS.md and skills without asking.")
@click.option("--no-context", is_flag=True, help="Do not send the project's AGENTS.md and skills.")
@click.option(
    "--tool",
    "function_tools",
    metavar="FILE:FUNCTION",
    type=PATH,
    multiple=True,
    help="Offer a Python function as a tool.",
)
@click.option(
    "-T",
    "--server-tool",
    "server_tools",
    metavar="NAME",
    multiple=True,
    callback=_parse_comma_list,
    help="Offer the provider's own tool, such as web_search.",
)
@_setting_option("max_rounds", "--max-rounds", metavar="N", type=parse_max_rounds)
@_setting_option("max_cost", "--max-cost", metavar="USD", type=parse_dollars)
@_setting_option("max_cost_per_day", "--max-cost-per-day", metavar="USD", type=parse_dollars)
@_setting_option("tools.command_timeout", "--command-timeout", metavar="S", type=parse_seconds)
@_setting_option("tools.max_command_timeout", "--max-command-timeout", metavar="S", type=parse_seconds)
@_setting_option("tools.confirm", "--confirm")
@click.option("-y", "--yes", is_flag=True, help="Approve everything that --confirm would ask about.")
@click.option("--safe", is_flag=True, help="Confine tools to this folder, without network.")
@click.option("--safe-files", is_flag=True, help="Like --safe, but without a sandbox or commands.")
@_setting_option("safe.allow_dirs", "--allow-dir", metavar="DIR")
@_setting_option("safe.allow_git", "--allow-git")
@_setting_option("safe.allow_hosts", "--allow-host", metavar="HOST")
@_setting_option("safe.allow_command_hosts", "--allow-command-host", metavar="HOST")
@_setting_option("safe.allow_tools", "--allow-tool", metavar="NAME")
@click.option("--cmd", is_flag=True, help="Answer with one shell command, and offer to run it.")
@click.option("--code", is_flag=True, help="Answer with code only.")
@click.option("-x", "--extract", cls=AskOption, is_flag=True, help="Print only the last code block of the answer.")
@click.option(
    "--schema",
    cls=AskOption,
    metavar="S",
    help='Answer with JSON matching a schema (inline, file, or "name, age int").',
)
@click.option("--decide", is_flag=True, help="Choose the values of --schema, with their probabilities.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@click.option("--events", "as_events", is_flag=True, help="Print events as JSON lines.")
@click.option("--input-events", is_flag=True, help="Read messages and approvals as JSON lines; implies --events.")
@click.option("--output-format", type=click.Choice(list(OUTPUT_FORMAT_PARAMETERS)), hidden=True)
@_setting_option("stream", "--no-stream")
@click.option("--plain", is_flag=True, help="No color, layout or animation.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors, and commands and writes that fail, to stderr.")
@click.option("-v", "--verbose", is_flag=True, help="Show tool results, reasoning and token usage.")
@click.option("-u", "--usage", is_flag=True, help="Show token usage and cost.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    callback=_choose_colors,
    expose_value=False,
    help="Use color: auto, always or never.",
)
@click.option(
    "-C",
    "--cd",
    "directory",
    cls=AskOption,
    metavar="DIR",
    callback=_change_directory,
    expose_value=False,
    is_eager=True,
    help="Work in this folder.",
)
@click.option("--record", metavar="FILE", type=PATH, help="Append requests and answers to this file, for ASK_REPLAY.")
@click.option("--no-stdin", is_flag=True, help="Do not read stdin.")
@_setting_option("timeout", "--timeout", metavar="S", type=parse_seconds)
@click.version_option(__version__, "-V", "--version", message="ask %(version)s")
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> int:
    """Ask a language model. It can read and write files and run commands to find the answer.

    \b
    ask why is the sky blue
    make 2>&1 | ask "what broke?"
    ask -p demo "which files are here?"
    """
    from ask.cli.run import run_prompt
    from ask.text import format_one_line

    if is_on_terminal() and not ctx.meta["ask.explicit"] and (similar := _find_mistyped_command(flags["words"])):
        text = format_one_line(" ".join(flags["words"]))
        reason = "comes after options" if similar == f"ask {text}" else "is not a command"
        question = f"ask: {text!r} {reason} (did you mean {similar!r}?). Send it as a question?"
        from ask.safety.approval import confirm

        if not confirm(question):
            return RunInterruptedError.exit_code
    literal_options = flags.pop("literal_options")
    if flags.pop("input_events"):
        from ask.cli.event_session import run_event_session

        return run_event_session(RunOptions(**flags))
    return run_prompt(RunOptions(**flags), literal_options)


def select_options(*names: str) -> list[click.Parameter]:
    """Return the options of `ask` with these parameter names, for a command where they mean the same."""
    return [param for param in command.params if param.name in names]


def create_run_options(flags: Mapping[str, Any], **values: Any) -> RunOptions:
    """Create the options of a run from those options of a command that have the same meaning, and from `values`."""
    return RunOptions(**{name: flags[name] for name in RunOptions._fields if name in flags} | values)
