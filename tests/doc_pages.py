"""Parses pages of the documentation: code blocks, tables and console examples."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.program import Result

SECONDS = r"\d+\.\d(?= s\b)"
"""A time that a page shows."""


def find_code_blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def read_section(text: str, heading: str) -> str:
    """Return the section with this heading, such as "## Tools", up to the next heading of its level or above."""
    rest = text.partition(f"\n{heading}\n")[2]
    assert rest, f"there is no section {heading!r}"
    level = heading.index(" ")
    return re.split(rf"^#{{1,{level}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def read_table(text: str, heading: str) -> dict[str, str]:
    """Return the first two columns of the table whose first heading cell is `heading`."""
    rows = text.partition(f"\n| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [row.strip("| ").split(" | ") for row in rows]
    return {row[0].strip(): row[1].strip("| ") if len(row) > 1 else "" for row in cells}


def find_code_spans(text: str) -> list[str]:
    """Return the inline code, without code blocks."""
    return re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


@dataclass(frozen=True)
class Example:
    """The commands of a console block, each with its output. They are run in order."""

    steps: Sequence[tuple[str, str]]

    @property
    def lines(self) -> list[str]:
        return [line for line, _ in self.steps]


def parse_console_steps(block: str) -> list[tuple[str, str]]:
    """Return the commands of a console block with their output; a backslash at a line end continues a command."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    ends = [match.end() for part in parts if (match := re.match(r"(?:.*\\\n)*.*", part))]
    return [(part[:end], part[end + 1 :]) for part, end in zip(parts, ends, strict=True)]


def matches_documented_output(printed: str, page: str) -> bool:
    """Compare output with a page, where "..." matches anything; trailing spaces are ignored."""
    pattern = re.escape(page).replace(re.escape("..."), ".*")
    return bool(re.fullmatch(pattern, re.sub(r" +$", "", printed, flags=re.MULTILINE), re.DOTALL))


def check_commands(run: Callable[[str], Result], blocks: Iterable[str], varying: str = "") -> None:
    """Run the commands of console blocks in order, and compare what each prints with the page.

    What the pattern `varying` matches in the page differs from run to run.
    """
    for line, output in (step for block in blocks for step in parse_console_steps(block)):
        result = run(line)
        printed = result.text + result.stderr
        expected = re.sub(varying, "...", output) if varying else output
        assert matches_documented_output(printed, expected), f"{line}\n{printed}"
