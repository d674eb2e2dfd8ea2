"""The picture of a terminal session in the README, drawn from a real run with the demo provider.

`make generated` writes it.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import pyte

from tests.program import Running, make_home, run_on_terminal

PICTURE = Path(__file__).parents[1] / "docs" / "session.svg"
COLUMNS, CELL_WIDTH, LINE_HEIGHT, MARGIN = 78, 8.4, 18, 16
COLORS = {
    "default": "#d8dee9",
    "brightblack": "#8690a3",
    "cyan": "#88c0d0",
    "green": "#a3be8c",
    "red": "#bf616a",
    "brown": "#ebcb8b",
}
FILES = {
    "notes.md": "# Release\n\n- fix the parser\n- ship on Friday\n",
    "parser.py": "def parse(text):\n    return text.split()\n",
}
QUESTIONS = ("which files are here?", "read notes.md", "run wc -l parser.py")
VARIABLE_PARTS = ((rb", \d+\.\d+ s", b", 0.0 s"), (rb"conversation [0-9a-f]{12}", b"conversation 3f9c2a71b04e"))
"""Parts of the output that differ from run to run, and what the picture shows."""


def generate() -> dict[Path, str]:
    """Return the picture by its path."""
    return {PICTURE: draw(record())}


def record() -> bytes:
    """Run the questions on a terminal, and return what it received."""
    output = b""
    with tempfile.TemporaryDirectory() as folder:
        home = make_home(Path(folder))
        for name, text in FILES.items():
            (home.work / name).write_text(text)
        env = {**home.env, "COLUMNS": str(COLUMNS), "ASK_SESSION": "picture"}
        run_on_terminal(
            ["ask", "-p", "demo", "--no-save", "hello"], env=env, cwd=home.work
        )  # the first run shows a notice
        for number, question in enumerate(QUESTIONS):
            command = ["ask", *(["-p", "demo"] if number == 0 else ["-c"]), question]
            with Running(command, env=env, cwd=home.work, terminal=True) as running:
                running.finish()
                shown = bytes(running.stdout)  # with the line that names the conversation, which a result leaves out
            prompt = f'\x1b[32m$\x1b[0m ask {command[1]} {"demo " if number == 0 else ""}"{question}"\r\n'
            output += prompt.encode() + shown + b"\r\n"
    for pattern, replacement in VARIABLE_PARTS:
        output = re.sub(pattern, replacement, output)
    return output


def draw(output: bytes) -> str:
    """Draw what a terminal shows after this output as SVG."""
    screen = pyte.Screen(COLUMNS, 100)
    pyte.ByteStream(screen).feed(output.replace(b"\x1b[2m", b"\x1b[90m"))  # pyte knows no dimmed text
    rows = [screen.buffer[number] for number, text in enumerate(screen.display) if number <= last_row(screen)]
    width, height = COLUMNS * CELL_WIDTH + 2 * MARGIN, len(rows) * LINE_HEIGHT + 2 * MARGIN
    lines = "\n".join(draw_row(row, MARGIN + (number + 0.75) * LINE_HEIGHT) for number, row in enumerate(rows))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img" '
        'aria-label="A terminal session with ask">\n'
        '<rect width="100%" height="100%" rx="8" fill="#2e3440"/>\n'
        '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14" '
        f'xml:space="preserve">\n{lines}\n</g>\n</svg>\n'
    )


def last_row(screen: pyte.Screen) -> int:
    return max(number for number, text in enumerate(screen.display) if text.strip())


def draw_row(row: Mapping[int, Any], y: float) -> str:
    """Draw a row; each run of cells of one style becomes a text of exact width."""
    parts, start = [], 0
    while start < COLUMNS:
        style = get_style(row[start])
        end = start
        while end < COLUMNS and get_style(row[end]) == style:
            end += 1
        text = "".join(row[column].data for column in range(start, end))
        if words := text.strip():
            x, length = MARGIN + (start + text.index(words)) * CELL_WIDTH, len(words) * CELL_WIDTH
            parts.append(f'<text x="{x:g}" y="{y:g}" textLength="{length:g}" {style}>{escape(words)}</text>')
        start = end
    return "".join(parts)


def get_style(cell: Any) -> str:
    """Return the SVG attributes of a cell."""
    weight = ' font-weight="bold"' if cell.bold else ""
    return f'fill="{COLORS.get(cell.fg, COLORS["default"])}"{weight}'
