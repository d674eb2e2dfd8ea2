"""docs/map-tables.md: all commands are run, in the order of the page, and print what it shows."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from tests import wire
from tests.doc_pages import SECONDS, check_commands
from tests.model_server import ModelServer, Reply, Request
from tests.program import Ask, Home
from tests.recipes import Recipe, read_recipes

PAGE = Path(__file__).parents[1] / "docs" / "map-tables.md"
RECIPES = [recipe for recipe in read_recipes(PAGE) if recipe.console]
ANSWERS = {
    "English.*Klappstuhl": "Folding chair, blue",
    "English.*Schreibtischlampe": "Desk lamp",
    "Greet Müller": "Hello Müller!",
    "Language.*crashes": "English",
    "language.*colis": "French",
    "language.*pedido": "Spanish",
    "German.*chair": "Klappstuhl",
    "German.*lamp": "Schreibtischlampe",
}
"""The answers of the model to prompts that match."""


def answer(request: Request) -> Reply:
    prompt = json.dumps(request.json["messages"][1:], ensure_ascii=False)
    text = next(text for pattern, text in ANSWERS.items() if re.search(pattern, prompt))
    usage = {"prompt_tokens": 210, "completion_tokens": 1, "cost": 0.0001}
    return wire.whole_reply(wire.answer(text) | {"usage": usage})


@pytest.mark.slow_after_first
@pytest.mark.needs("jq")
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)
def test_commands_print_the_documented_output(ask: Ask, home: Home, server: ModelServer, recipe: Recipe) -> None:
    server.reply(answer)
    for file, text in recipe.files.items():
        (home.work / file).write_text(text)
    check_commands(partial(ask.shell, env={"ASK_MODEL": "vendor/model"}), recipe.console, SECONDS)
