"""Commands that are refused in safe mode before they start, such as `rm -rf`.

A best-effort check, not a security boundary: it stops what a model does in good faith when it is told to "delete
everything". Variables, scripts and other languages get past it; the boundary is the sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

MAX_COMMAND_LENGTH = 32_768
"""Characters of the longest command that is checked, and so may run: each rule stays below half a second with it."""


class CommandDenyRule(NamedTuple):
    """A command that is refused.

    Attributes:
        name: as the user and the model are told it.
        pattern: a regular expression, looked for anywhere in a command, whatever the case of its letters.
    """

    name: str
    pattern: str


# Not a part of a longer name, an option or an ending; a path may stand before it.
_WORD_START = r"(?<![\w.-])"
# Within one simple command, and not without end: a pattern that tries every place twice takes too long.
_ARGUMENT_TEXT = r"(?:\\\n|[^\n;&|()`]){0,300}?"
_ARGUMENTS = rf"(?:\s{_ARGUMENT_TEXT})?\s"
_RECURSIVE_OPTION = rf"(?={_ARGUMENTS}-(?:-r|[a-z]*r))"
_FORCE_OPTION = rf"(?={_ARGUMENTS}-(?:-f|[a-z]*f))"

DEFAULT_DENY_RULES = (
    CommandDenyRule("rm -rf", rf"{_WORD_START}(?<!\bgit )rm{_RECURSIVE_OPTION}{_FORCE_OPTION}"),
    CommandDenyRule("rmdir /s", rf"{_WORD_START}(?:rmdir|rd){_ARGUMENTS}/s(?![\w/.-])"),
    CommandDenyRule("dd", rf"{_WORD_START}dd{_ARGUMENTS}of=(?!/dev/null\b)"),
    CommandDenyRule("mkfs", rf"{_WORD_START}mkfs(?:\.\w+)?\s+[\w/$-]"),
    CommandDenyRule("format", rf"{_WORD_START}format(?:\.com|\.exe)?\s+(?:[a-z]:(?:$|[\s;&|]\s*(?:/|$))|/dev/)"),
    CommandDenyRule(
        "fork bomb", r"(?<![^\s(){}|&;])([^\s(){}|&;]{1,30})\s?\(\s?\)\s{0,9}\{[^}]{0,99}?\1\s?\|\s?\1\s?&"
    ),
    CommandDenyRule(
        "chmod -R 777",
        rf"{_WORD_START}chmod{_RECURSIVE_OPTION}(?={_ARGUMENTS}(?:[0-7]?777|(?:a|ugo|\B)[+=]rwx)(?![\w,]))",
    ),
    CommandDenyRule("chown -R", rf"{_WORD_START}chown{_RECURSIVE_OPTION}"),
    CommandDenyRule("iptables", rf"{_WORD_START}ip6?tables(?:-restore|-apply|(?:-legacy|-nft)?\s+-)"),
    CommandDenyRule("ufw disable", rf"{_WORD_START}ufw\s+(?:--\w+\s+)?disable(?![\w-])"),
)
"""Those that stand where the user has configured none."""


def select_deny_rules(names: Iterable[str]) -> tuple[CommandDenyRule, ...]:
    """Those of `DEFAULT_DENY_RULES` that are named, and others by their pattern.

    Raises:
        re.error: a pattern is none.
    """
    known = {wire.name: wire for wire in DEFAULT_DENY_RULES}
    found = tuple(known.get(name) or CommandDenyRule(name, name) for name in names)
    for wire in found:
        re.compile(wire.pattern)
    return found


def find_deny_rule(command: str, rules: Iterable[CommandDenyRule]) -> str | None:
    """The name of the first wire that a command trips, None where it trips none.

    Args:
        command: of at most `MAX_COMMAND_LENGTH` characters.
        rules: those to try, in this order.
    """
    return next((wire.name for wire in rules if re.search(wire.pattern, command, re.IGNORECASE)), None)
