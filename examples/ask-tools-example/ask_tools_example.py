"""Tools for a model, as anybody could write them: plain functions that say what they take.

The docstring tells the model what a tool is for, the type hints what may be given to it. pyproject.toml names this
module as an entry point; that is all the registration there is.
"""

import asyncio
from typing import Annotated, Literal

from ask import ToolContext, ToolError, tool

UNITS = {"celsius": (1.0, 0.0), "fahrenheit": (5 / 9, -32.0), "kelvin": (1.0, -273.15)}
Unit = Literal["celsius", "fahrenheit", "kelvin"]
Files = Annotated[list[str], "paths, from the working directory on"]


@tool(has_side_effects=False)
def convert_temperature(degrees: float, unit: Unit, to: Unit = "celsius") -> float:
    """Convert a temperature.

    Args:
        degrees: the temperature to convert.
        unit: the unit that it is in.
        to: the unit that is wanted.
    """
    factor, offset = UNITS[unit]
    kelvin = (degrees + offset) * factor + 273.15
    factor, offset = UNITS[to]
    return round((kelvin - 273.15) / factor - offset, 2)


@tool(has_side_effects=False)
def count_words(files: Files, context: ToolContext) -> dict[str, int]:
    """Count the words of text files, by file."""
    counts = {}
    for name in files:
        context.on_output(f"counting {name}\n")  # the user sees this; the model gets what is returned
        try:
            counts[name] = len((context.directory / name).read_text().split())
        except (OSError, ValueError) as fault:
            raise ToolError(f"{name} cannot be counted: {fault}") from fault
    return counts


@tool
async def remember(note: str, context: ToolContext) -> str:
    """Write a line to notes.txt. This changes something, so `--confirm` asks first.

    Args:
        note: the line to write.
        context: filled in by ask.
    """

    def append() -> None:
        with (context.directory / "notes.txt").open("a") as file:
            file.write(note + "\n")

    await asyncio.to_thread(append)
    return "noted"
