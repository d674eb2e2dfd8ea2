"""docs/map-quality.md: all commands are run, in the order of the page, and print what it shows."""

from __future__ import annotations

import json
import random
import re
from functools import partial
from pathlib import Path

import pytest

from tests import wire
from tests.doc_pages import SECONDS, check_commands
from tests.model_server import ModelServer, Reply, Request
from tests.program import Ask, Home
from tests.recipes import read_recipes

PAGE = Path(__file__).parents[1] / "docs" / "map-quality.md"
TEXTS = {"bug": "the app crashes", "order": "cancel my order", "question": "where is my parcel?"}
KINDS = [*TEXTS]
ROW_COUNT = 200


def choose_kind(number: int) -> str:
    """Return the right answer for a ticket."""
    return random.Random(number).choices(KINDS, (5, 3, 2))[0]


def answer(request: Request) -> Reply:
    """Answer about the ticket in the prompt: all but the small model are right as often as their probability says."""
    number = int(re.findall(r"Ticket (\d+)", wire.asked(request.json))[-1])
    is_small = "small" in request.json["model"]
    probability = round(1 - random.Random(number + 1000).random() ** 2 / 2, 2)
    generator = random.Random(number + 5000 + is_small)
    is_right = generator.random() < probability - 0.1 * is_small
    kind = choose_kind(number)
    if not is_right:
        kind = generator.choice([each for each in KINDS if each != kind])
    value: dict[str, object] = {"kind": kind}
    if "kind_p" in json.dumps(request.json):
        value["kind_p"] = probability
    usage = {"prompt_tokens": 210, "completion_tokens": 9, "cost": 0.0001 if is_small else 0.001}
    return wire.whole_reply(wire.answer(json.dumps(value)) | {"usage": usage})


@pytest.mark.slow
@pytest.mark.needs("jq")
def test_commands_print_the_documented_output(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(answer)
    rows = [(number, TEXTS[choose_kind(number)], choose_kind(number)) for number in range(1, ROW_COUNT + 1)]
    lines = [f"{number},Ticket {number}: {text},{label}\n" for number, text, label in rows]
    (home.work / "labeled.csv").write_text("id,text,label\n" + "".join(lines))
    blocks = [block for recipe in read_recipes(PAGE) for block in recipe.console]
    assert len(blocks) > 2
    check_commands(partial(ask.shell, env={"ASK_MODEL": "vendor/model"}), blocks, SECONDS)
