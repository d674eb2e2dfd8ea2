"""Commands that safe mode refuses to run, such as `rm -rf`.

A best-effort check, not a security boundary: it stops a model that acts in good faith, for example when it is asked to
"delete everything". Variables, scripts and other languages get past it; the sandbox is the boundary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

MAX_COMMAND_LENGTH = 32_768
"""Maximum number of characters of a command. Longer ones are refused, so that each rule takes under half a second."""


class CommandDenyRule(NamedTuple):
    """A command that is refused."""

    name: str
    """The name shown to the user and the model."""
    pattern: str
    """A regular expression that is searched for anywhere in the command, ignoring case."""


# Not within a longer name, option or file extension; a path may come before it.
_WORD_START = r"(?<![\w.-])"
# Within one simple command. Bounded, because quadratic backtracking would take too long.
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
"""The rules used if the user has not configured any."""


def select_deny_rules(names: Iterable[str]) -> tuple[CommandDenyRule, ...]:
    """Return the default rules with these names; other names are used as patterns.

    Raises:
        re.error: a pattern is not a valid regular expression.
    """
    default_rules = {rule.name: rule for rule in DEFAULT_DENY_RULES}
    rules = tuple(default_rules.get(name) or CommandDenyRule(name, name) for name in names)
    for rule in rules:
        re.compile(rule.pattern)
    return rules


def find_deny_rule(command: str, rules: Iterable[CommandDenyRule]) -> str | None:
    """Return the name of the first rule that matches a command of at most `MAX_COMMAND_LENGTH` characters."""
    return next((rule.name for rule in rules if re.search(rule.pattern, command, re.IGNORECASE)), None)
