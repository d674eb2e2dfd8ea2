"""docs/context.md: its example runs, and its numbers and options are those of the code."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

from ask.config.settings import SETTINGS
from tests import wire
from tests.doc_pages import find_code_blocks, find_code_spans, matches_documented_output, parse_console_steps
from tests.model_server import ModelServer
from tests.program import Ask, Home
from tests.project.projects import make_repository, write, write_skill
from tests.test_docs import OPTIONS

PAGE = (Path(__file__).parents[1] / "docs" / "context.md").read_text()
(FIRST,) = find_code_blocks(PAGE, "console")


def test_the_question_is_asked_as_documented(ask: Ask, home: Home, server: ModelServer) -> None:
    project = make_repository(home.work / "p")
    write(project / "AGENTS.md", "x" * 1_204)
    write_skill(project / ".agents/skills/release")
    server.reply(wire.says("done"))
    env = {"ASK_PROVIDER": "openrouter", "ASK_MODEL": wire.MODEL}
    ((line, output),) = parse_console_steps(FIRST)
    question = output.partition("[y/N]")[0].rpartition("\n")[2]
    here = replace(ask, cwd=project)
    words = line.removeprefix('ask "').rstrip('"')
    shown = here.on_terminal("--plain", words, answers=[(question, "y\n")], env=env)
    text = shown.text[shown.text.index("ask: /") :].replace("\n  > ", "")
    assert matches_documented_output(text, output.replace("/home/me/project", str(project.resolve())))


def test_the_named_keys_and_options_exist() -> None:
    (config,) = find_code_blocks(PAGE, "toml")
    assert {f"{table}.{key}" for table, values in tomllib.loads(config).items() for key in values} <= set(SETTINGS)
    spans = [word for span in find_code_spans(PAGE) for word in span.split() if word.startswith("--")]
    assert {*spans} - {"---"} <= {*OPTIONS, "--tools"}
