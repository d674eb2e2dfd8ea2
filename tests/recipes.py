"""Parses docs/recipes.md and pages like it: each section with its files, its commands and their output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "recipes.md"
BLOCK = re.compile(r'^(`{3,})(\w+)(?: title="(\S+)")?\n(.*?)^\1$', re.MULTILINE | re.DOTALL)


@dataclass
class Recipe:
    """A section of the page.

    Attributes:
        files: Content of the files it shows, by name.
        console: Console blocks, each with commands and their output.
        script: A script to be run in another way, with its language; "" for none.
        printed: The output of that script.
    """

    title: str
    files: dict[str, str] = field(default_factory=dict)
    console: list[str] = field(default_factory=list)
    language: str = ""
    script: str = ""
    printed: str = ""


def read_recipes(page: Path = PAGE) -> Iterator[Recipe]:
    """Return all sections of a page; the first has the title of the page."""
    for part in re.split(r"^## ", f"## {page.read_text()}", flags=re.MULTILINE)[1:]:
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
