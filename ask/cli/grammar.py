"""Where options end and the prompt begins. Pure; Click parses the options that are found here.

Options come before the prompt. From the first unquoted word on everything is the prompt, so that a question
can never switch an option on; after a prompt that is one argument with a space in it, options may follow.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple


class Split(NamedTuple):
    """A command line taken apart.

    Attributes:
        options: the arguments that are options, with their values.
        words: the arguments that are the prompt.
        taken_as_text: the words that look like options and were not taken as such.
    """

    options: tuple[str, ...]
    words: tuple[str, ...]
    taken_as_text: tuple[str, ...]


def split(arguments: Sequence[str], flags: Collection[str], valued: Collection[str]) -> Split:
    """Part options from the prompt.

    Args:
        arguments: what follows the program's name.
        flags: the options without a value, as "-q" and "--quiet".
        valued: the options with a value.
    """
    rest = list(arguments)
    options: list[str] = []
    words: list[str] = []
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            return Split(tuple(options), (*words, *rest), ())
        if is_option(argument):
            options.append(argument)
            if takes_next(argument, valued) and rest:
                options.append(rest.pop(0))
            continue
        words.append(argument)
        if not any(space in argument for space in " \t\n"):
            words += rest
            alike = tuple(word for word in rest if word.partition("=")[0] in {*flags, *valued})
            return Split(tuple(options), tuple(words), alike)
    return Split(tuple(options), tuple(words), ())


def is_option(argument: str) -> bool:
    """Whether an argument is meant as an option: a dash alone, or before a space, is text."""
    return len(argument) > 1 and argument.startswith("-") and not argument[1].isspace()


def takes_next(argument: str, valued: Collection[str]) -> bool:
    """Whether the option's value is the next argument: "-p demo", "-qp demo", but not "-pdemo" or "--key=x"."""
    if argument.startswith("--"):
        return argument in valued
    for place, letter in enumerate(argument[1:], start=2):
        if f"-{letter}" in valued:
            return place == len(argument)
    return False
