"""Reads docs/recipes.md: each section with its files, what is to be run, and what that prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "recipes.md"
BLOCK = re.compile(r"^(`{3,})(\w+)(?: (\S+))?\n(.*?)^\1$", re.MULTILINE | re.DOTALL)


@dataclass
class Recipe:
    """A section.

    Attributes:
        files: the blocks that are the content of a file, by its name.
        console: the blocks of commands, each with what it prints.
        script: what is run in another way, and its language; "" for nothing.
        printed: what it prints.
    """

    title: str
    files: dict[str, str] = field(default_factory=dict)
    console: list[str] = field(default_factory=list)
    language: str = ""
    script: str = ""
    printed: str = ""


def recipes() -> Iterator[Recipe]:
    """All sections of the page, the first without a title."""
    for part in re.split(r"^## ", f"## {PAGE.read_text()}", flags=re.MULTILINE)[1:]:
        recipe = Recipe(part.partition("\n")[0])
        for _, language, name, text in BLOCK.findall(part):
            if name:
                recipe.files[name] = text
            elif language == "console":
                recipe.console.append(text)
            elif language == "text":
                recipe.printed = text
            else:
                recipe.language, recipe.script = language, text
        yield recipe
