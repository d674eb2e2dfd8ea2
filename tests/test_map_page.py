"""docs/map.md: all commands are run, in the order of the page, and print what it shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ask.map.engine import Progress
from ask.render.progress_bar import format_progress
from tests import wire
from tests.doc_pages import SECONDS, check_commands
from tests.model_server import ModelServer, Reply, Request
from tests.program import Ask, Home
from tests.recipes import Recipe, read_recipes

PAGE = Path(__file__).parents[1] / "docs" / "map.md"
RECIPES = [*read_recipes(PAGE)]
AGENT = "Rows that use tools, each in a copy of the folder"
FOLDERS = {"PDFs and images": ["contracts/lease.pdf", "contracts/loan.pdf"]}
ANSWERS = {
    "Language of.*crashes": "English",
    "Language of.*Bitte": "German",
    "Language of.*colis": "French",
    "Classify.*crashes": '{"kind": "bug", "urgent": true}',
    "Classify.*Bitte": '{"kind": "order", "urgent": false}',
    "Classify.*colis": '{"kind": "question", "urgent": false}',
    "Extract.*Acme": '{"vendor": "Acme GmbH", "total": 119, "currency": "EUR"}',
    "Extract.*Initech": '{"vendor": "Initech", "total": 45.5, "currency": "USD"}',
    "lease.pdf": "A flat in Ghent is let for three years.",
    "loan.pdf": "A bank lends 20000 euros at 3 percent.",
    "Sydney": '{"score": 0, "reason": "The capital is Canberra."}',
    "Ottawa": '{"score": 10, "reason": "Correct."}',
    "Translate.*chair": "Klappstuhl",
    "Translate.*lamp": "Schreibtischlampe",
    "France": "Paris",
    "Peru": "Lima",
    "small.*moons": "One.",
    "large.*moons": "Two: Phobos and Deimos.",
}
"""The answers of the model to prompts that match, in one line with the name of the model before them."""


def answer(request: Request) -> Reply:
    prompt = f"{request.json['model']} {json.dumps(request.json['messages'][1:], ensure_ascii=False)}"
    if request.json["model"] == "judge/model":
        (label,) = re.findall(r'<answer label=\\"(#\d)\\">\\nTwo', prompt)
        text = json.dumps({"reason": f"Mars has two moons, as {label} says.", "best": label})
    else:
        text = next(text for pattern, text in ANSWERS.items() if re.search(pattern, prompt))
    usage = {"prompt_tokens": 210, "completion_tokens": 1, "cost": 0.0001}
    if request.json.get("stream"):
        return wire.says(text)
    return wire.whole_reply(wire.answer(text) | {"usage": usage})


def run_steps(ask: Ask, recipe: Recipe, scheduler: str = "") -> None:
    """Run the commands of a section, which print what it shows."""
    env = {"ASK_MODEL": "vendor/model"}
    run = lambda line: ask.shell(line.replace("head:8786", scheduler), env=env)  # noqa: E731
    check_commands(run, recipe.console, rf"{SECONDS}|(?<=about )\d+")


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param(
            recipe,
            id=recipe.title,
            marks=[pytest.mark.slow] * (recipe.title == AGENT)
            + [pytest.mark.needs("jq", *["bwrap", "patch"] * (recipe.title == AGENT))],
        )
        for recipe in RECIPES
        if recipe.console
    ],
)
def test_commands_print_the_documented_output(ask: Ask, home: Home, server: ModelServer, recipe: Recipe) -> None:
    server.reply(answer)
    for file, text in {name: text for each in (RECIPES[0], recipe) for name, text in each.files.items()}.items():
        (home.work / file).write_text(text)
    for file in FOLDERS.get(recipe.title, ()):
        (home.work / file).parent.mkdir(exist_ok=True)
        (home.work / file).write_bytes(b"%PDF-1.4\n%%EOF\n")
    run_steps(ask, recipe)


def test_the_progress_bar_is_shown_as_it_is() -> None:
    progress = Progress(answered=25_640, failed=3, resumed=0, in_flight=64, cost=4.12)
    assert RECIPES[0].printed == format_progress(progress, 40_000, 62.1, 98) + "\n"


def test_all_sections_with_commands_are_found() -> None:
    assert len([recipe for recipe in RECIPES if recipe.console]) == 12
