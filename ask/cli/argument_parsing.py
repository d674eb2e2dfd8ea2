"""The grammar of ask's own command line. Pure: Click parses the options found here.

A question that is one argument may have options on both sides, whatever it contains, so a script's
`ask "$task" --safe` never depends on the task. A question of several words has its options before it: after its first
word, short options are text and ask's own long options are an error, because they may be meant as options.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ask.errors import UsageError


class ParsedCommandLine(NamedTuple):
    """A command line divided into options and the question.

    Attributes:
        options: the options, with their values.
        words: the arguments that form the question.
        literal_options: short options of ask that were read as part of the question.
        misplaced_option: an option of ask among the words of the question, which is an error; "" for none.
        explicit: `--` precedes the question.
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
        """Check whether an argument is exactly one of the options, or one of them with "=VALUE"."""
        name = argument.partition("=")[0]
        return name in self.flags or name in self.valued

    def starts_with_short(self, argument: str) -> bool:
        """Check whether an argument is read as one of the short options, perhaps with others or a value attached."""
        return argument[:2] in self.flags or argument[:2] in self.valued


def parse_command_line(arguments: Sequence[str], names: OptionNames) -> ParsedCommandLine:
    """Divide the arguments of a command into its options and the question.

    Raises:
        UsageError: an option lacks its value, or nothing but options follows `--`.
    """
    count = count_options(arguments, names)
    options, question = tuple(arguments[:count]), tuple(arguments[count:])
    if question[:1] == ("--",):
        check_has_prompt_text(question[1:], names)
        return ParsedCommandLine(options, question[1:], explicit=True)
    rest = question[1:]
    count = count_options(rest, names)
    after, more_words = rest[:count], rest[count:]
    if not more_words or more_words[0] == "--":
        return ParsedCommandLine(options + after, question[:1] + more_words[1:])
    long = next((word for word in rest if word.startswith("--") and names.includes(word)), "")
    between = next((option for option in after if is_option(option) and names.starts_with_short(option)), "")
    literal = tuple(word for word in rest if names.includes(word))
    return ParsedCommandLine(options, question, literal, misplaced_option=long or between)


def count_options(arguments: Sequence[str], names: OptionNames) -> int:
    """Count the arguments before the first one that is neither an option nor the value of one.

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
    """Refuse a question in which all words are options: in `ask "$task" --safe`, the task itself may be `--`.

    Raises:
        UsageError: there are words, and all are options or their values.
    """
    long = next((word for word in words if word.startswith("--") and names.includes(word)), "")
    if long and count_options(words, names) == len(words):
        raise UsageError(f"only options follow --, such as {long}", f'ask about an option in words: "what is {long}?"')


def is_option(argument: str) -> bool:
    """Check whether an argument has the form of an option: a dash alone, or before a space, is text."""
    return len(argument) > 1 and argument.startswith("-") and not argument[1].isspace()


def takes_next_argument(option: str, valued: Collection[str]) -> bool:
    """Check whether an option's value is the next argument: "-p demo", "-qp demo", but not "-pdemo" or "--key=x"."""
    if option.startswith("--"):
        return option in valued
    for position, letter in enumerate(option[1:], start=2):
        if f"-{letter}" in valued:
            return position == len(option)
    return False
