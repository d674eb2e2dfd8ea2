"""Commands that are refused in safe mode before they start, such as `rm -rf`.

A best-effort check, not a security boundary: it stops what a model does in good faith when it is told to "delete
everything". Variables, scripts and other languages get past it; the boundary is the sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

MAX_CHECKED = 32_768
"""Characters of the longest command that is checked, and so may run: each rule stays below half a second with it."""


class Tripwire(NamedTuple):
    """A command that is refused.

    Attributes:
        name: as the user and the model are told it.
        pattern: a regular expression, looked for anywhere in a command, whatever the case of its letters.
    """

    name: str
    pattern: str


# Not a part of a longer name, an option or an ending; a path may stand before it.
_WORD = r"(?<![\w.-])"
# Within one simple command, and not without end: a pattern that tries every place twice takes too long.
_SOME = r"(?:\\\n|[^\n;&|()`]){0,300}?"
_REST = rf"(?:\s{_SOME})?\s"
_RECURSIVE = rf"(?={_REST}-(?:-r|[a-z]*r))"
_FORCED = rf"(?={_REST}-(?:-f|[a-z]*f))"

TRIPWIRES = (
    Tripwire("rm -rf", rf"{_WORD}(?<!\bgit )rm{_RECURSIVE}{_FORCED}"),
    Tripwire("rmdir /s", rf"{_WORD}(?:rmdir|rd){_REST}/s(?![\w/.-])"),
    Tripwire("dd", rf"{_WORD}dd{_REST}of=(?!/dev/null\b)"),
    Tripwire("mkfs", rf"{_WORD}mkfs(?:\.\w+)?\s+[\w/$-]"),
    Tripwire("format", rf"{_WORD}format(?:\.com|\.exe)?\s+(?:[a-z]:(?:$|[\s;&|]\s*(?:/|$))|/dev/)"),
    Tripwire("fork bomb", r"(?<![^\s(){}|&;])([^\s(){}|&;]{1,30})\s?\(\s?\)\s{0,9}\{[^}]{0,99}?\1\s?\|\s?\1\s?&"),
    Tripwire("chmod -R 777", rf"{_WORD}chmod{_RECURSIVE}(?={_REST}(?:[0-7]?777|(?:a|ugo|\B)[+=]rwx)(?![\w,]))"),
    Tripwire("chown -R", rf"{_WORD}chown{_RECURSIVE}"),
    Tripwire("iptables", rf"{_WORD}ip6?tables(?:-restore|-apply|(?:-legacy|-nft)?\s+-)"),
    Tripwire("ufw disable", rf"{_WORD}ufw\s+(?:--\w+\s+)?disable(?![\w-])"),
)
"""Those that stand where the user has configured none."""


def chosen(wires: Iterable[str]) -> tuple[Tripwire, ...]:
    """Those of `TRIPWIRES` that are named, and others by their pattern.

    Raises:
        re.error: a pattern is none.
    """
    known = {wire.name: wire for wire in TRIPWIRES}
    found = tuple(known.get(name) or Tripwire(name, name) for name in wires)
    for wire in found:
        re.compile(wire.pattern)
    return found


def tripped(command: str, wires: Iterable[Tripwire]) -> str | None:
    """The name of the first wire that a command trips, None where it trips none.

    Args:
        command: of at most `MAX_CHECKED` characters.
        wires: those to try, in this order.
    """
    return next((wire.name for wire in wires if re.search(wire.pattern, command, re.IGNORECASE)), None)
