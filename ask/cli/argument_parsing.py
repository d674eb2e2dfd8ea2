"""The grammar of ask's own command line, and the types of its options. Click parses the options found here.

A prompt that is a single argument may have options on both sides, whatever it contains, so a script's
`ask "$task" --safe` never depends on the task. A prompt of several words has its options before it: after its first
word, short options are text, and ask's own long options are an error, because they may be meant as options.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import click

from ask.errors import UsageError

MAX_SECONDS = 31_536_000.0
MAX_DOLLARS = 1_000_000_000.0
"""The same limits as in config.toml."""


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


class OptionNames(NamedTuple):
    """The options of a command, each spelled like "-q" or "--quiet": those without a value, and those with one."""

    flags: Collection[str]
    valued: Collection[str]

    def includes(self, argument: str) -> bool:
        """Check whether an argument is one of the options, perhaps with "=VALUE"."""
        name = argument.partition("=")[0]
        return name in self.flags or name in self.valued

    def starts_with_short(self, argument: str) -> bool:
        """Check whether an argument starts with a short option.

        Others or a value may be attached to it, as in "-qv" or "-pdemo".
        """
        return argument[:2] in self.flags or argument[:2] in self.valued


def parse_command_line(arguments: Sequence[str], names: OptionNames) -> ParsedCommandLine:
    """Divide the arguments of a command into its options and the prompt.

    Raises:
        UsageError: an option lacks its value, or nothing but options follows `--`.
    """
    count = count_options(arguments, names)
    options, rest = tuple(arguments[:count]), tuple(arguments[count:])
    if rest[:1] == ("--",):
        check_has_prompt_text(rest[1:], names)
        return ParsedCommandLine(options, rest[1:], explicit=True)
    following = rest[1:]
    count = count_options(following, names)
    trailing_options, more_words = following[:count], following[count:]
    if not more_words or more_words[0] == "--":
        return ParsedCommandLine(options + trailing_options, rest[:1] + more_words[1:])
    misplaced_long = next((word for word in following if word.startswith("--") and names.includes(word)), "")
    misplaced_short = next(
        (option for option in trailing_options if is_option(option) and names.starts_with_short(option)), ""
    )
    literal_options = tuple(word for word in following if names.includes(word))
    return ParsedCommandLine(options, rest, literal_options, misplaced_option=misplaced_long or misplaced_short)


def count_options(arguments: Sequence[str], names: OptionNames) -> int:
    """Count the arguments before the first word of the prompt.

    Raises:
        UsageError: an option lacks its value.
    """
    position = 0
    while position < len(arguments) and is_option(arguments[position]) and arguments[position] != "--":
        option = arguments[position]
        if not option.startswith("--") and names.includes(f"-{option}"):
            raise UsageError(f"{option} has one dash", f"write -{option}")
        position += 1
        if not takes_next_argument(option, names.valued) or position == len(arguments):
            continue
        value = arguments[position]
        if value == "--" or names.includes(value):
            attached = f"{option}={value}" if option.startswith("--") else f"{option}{value}"
            raise UsageError(
                f"{option} needs a value, and {value} is an option", f"write {attached} if it is the value"
            )
        position += 1
    return position


def check_has_prompt_text(words: Sequence[str], names: OptionNames) -> None:
    """Reject a prompt whose words are all options: in `ask "$task" --safe`, the task itself may be `--`.

    Raises:
        UsageError: there are words, and all are options or their values.
    """
    long_option = next((word for word in words if word.startswith("--") and names.includes(word)), "")
    if long_option and count_options(words, names) == len(words):
        raise UsageError(
            f"only options follow --, such as {long_option}", f'ask about an option in words: "what is {long_option}?"'
        )


def is_option(argument: str) -> bool:
    """Check whether an argument has the form of an option.

    A single dash, or a dash before a space, is text.
    """
    return len(argument) > 1 and argument.startswith("-") and not argument[1].isspace()


def takes_next_argument(option: str, valued: Collection[str]) -> bool:
    """Check whether an option's value is the next argument.

    It is for "-p demo" and "-qp demo", but not for "-pdemo" or "--key=x".
    """
    if option.startswith("--"):
        return option in valued
    for position, letter in enumerate(option[1:], start=2):
        if f"-{letter}" in valued:
            return position == len(option)
    return False


def parse_seconds(text: str) -> float:
    """Parse a timeout in seconds: above 0, and at most a year.

    Raises:
        click.BadParameter: the text is not such a number.
    """
    return parse_positive_amount(text, "seconds", MAX_SECONDS)


def parse_dollars(text: str) -> float:
    """Parse an amount in US dollars: above 0, and at most a billion.

    Raises:
        click.BadParameter: the text is not such a number.
    """
    return parse_positive_amount(text, "US dollars", MAX_DOLLARS)


def parse_positive_amount(text: str, unit: str, maximum: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= maximum:
        raise click.BadParameter(f"{text!r} is no number of {unit} above 0")
    return number
