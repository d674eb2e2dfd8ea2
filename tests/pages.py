"""Reads pages of the documentation: their blocks, tables and examples, and whether an example printed what it shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def table(text: str, heading: str) -> dict[str, str]:
    """The first two columns of the table whose first heading cell is this."""
    rows = text.partition(f"\n| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [row.strip("| ").split(" | ") for row in rows]
    return {row[0].strip(): row[1].strip("| ") if len(row) > 1 else "" for row in cells}


def quoted(text: str) -> list[str]:
    """What stands between backticks, blocks left out."""
    return re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


@dataclass(frozen=True)
class Example:
    """The commands of a console block, each with what it prints; they are run one after the other."""

    steps: Sequence[tuple[str, str]]

    @property
    def lines(self) -> list[str]:
        return [line for line, _ in self.steps]


def steps(block: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with what it prints. A line that ends in a backslash is not the last."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    ends = [match.end() for part in parts if (match := re.match(r"(?:.*\\\n)*.*", part))]
    return [(part[:end], part[end + 1 :]) for part, end in zip(parts, ends, strict=True)]


def is_shown(printed: str, page: str) -> bool:
    """Whether the page shows what was printed; its "..." stands for anything. Blanks at line ends do not count."""
    pattern = re.escape(page).replace(re.escape("..."), ".*")
    return bool(re.fullmatch(pattern, re.sub(r" +$", "", printed, flags=re.MULTILINE), re.DOTALL))
