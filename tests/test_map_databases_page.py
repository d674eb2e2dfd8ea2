"""docs/map-databases.md: all commands with output are run, in the order of the page, and print what it shows."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from openpyxl import Workbook
from pyarrow import parquet

from tests import wire
from tests.doc_pages import SECONDS, check_commands
from tests.model_server import ModelServer, Reply, Request
from tests.program import Ask, Home
from tests.recipes import Recipe, read_recipes

PAGE = Path(__file__).parents[1] / "docs" / "map-databases.md"
RECIPES = [recipe for recipe in read_recipes(PAGE) if recipe.console]
TEXTS = ["The app crashes when I log in.", "Bitte stornieren Sie meine Bestellung.", "Où est mon colis ?"]
ANSWERS = {
    "Language.*crashes": "English",
    "Language.*Bitte": "German",
    "Language.*colis": "French",
    "Classify.*crashes": '{"kind": "bug", "urgent": true}',
    "Classify.*Bitte": '{"kind": "order", "urgent": false}',
    "Classify.*colis": '{"kind": "question", "urgent": false}',
    "Translate.*Bitte": "Please cancel my order.",
    "Translate.*colis": "Where is my parcel?",
}
"""The answers of the model to prompts that match."""


def answer(request: Request) -> Reply:
    prompt = json.dumps(request.json["messages"][1:], ensure_ascii=False)
    text = next(text for pattern, text in ANSWERS.items() if re.search(pattern, prompt))
    usage = {"prompt_tokens": 210, "completion_tokens": 1, "cost": 0.0001}
    return wire.whole_reply(wire.answer(text) | {"usage": usage})


def write_tables(folder: Path) -> None:
    """Write the tables that the page describes."""
    days = [datetime(2024, 5, day) for day in (1, 2, 3)]
    ids = pa.array([1, 2, 3], pa.int32())
    parquet.write_table(pa.table({"id": ids, "text": TEXTS, "opened": days}), folder / "tickets.parquet")
    workbook = Workbook()
    sheet = workbook.create_sheet("Q2")
    for row in (("opened", "text"), *zip((day.date() for day in days), TEXTS, strict=True)):
        sheet.append(row)
    workbook.save(folder / "tickets.xlsx")
    with closing(sqlite3.connect(folder / "shop.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE tickets (id INTEGER PRIMARY KEY, text TEXT)")
        connection.executemany("INSERT INTO tickets (text) VALUES (?)", [(text,) for text in TEXTS])


@pytest.mark.slow_after_first
@pytest.mark.needs("jq")
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)
def test_commands_print_the_documented_output(ask: Ask, home: Home, server: ModelServer, recipe: Recipe) -> None:
    server.reply(answer)
    write_tables(home.work)
    env = {"ASK_MODEL": "vendor/model"}
    check_commands(lambda line: ask.shell(line.replace("python3", sys.executable), env=env), recipe.console, SECONDS)


def test_all_sections_with_commands_are_found() -> None:
    assert [recipe.title for recipe in RECIPES] == ["Parquet and Arrow", "Excel", "SQLite"]
