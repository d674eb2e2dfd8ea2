"""docs/import.md: its example is run, with a folder of llm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ask.imports.aichat import find_aichat_folder
from ask.imports.llm import find_llm_folder
from tests.doc_pages import check_commands, find_code_blocks, read_section
from tests.imports.test_llm import write_log
from tests.program import Ask, Home

PAGE = (Path(__file__).parents[1] / "docs/import.md").read_text()
FILES = {
    "aliases.json": json.dumps({"fast": "gpt-4o-mini"}),
    "default_model.txt": "gpt-4o",
    "keys.json": json.dumps({"openai": "sk-0123456789abcdef"}),
    "templates/french.yaml": "prompt: 'Translate to $lang: $input'\ndefaults: {lang: French}\nfragments: [terms.txt]\n",
}


@pytest.mark.slow
def test_the_example_prints_the_documented_output(home: Home) -> None:
    folder = find_llm_folder(home.env)
    (folder / "templates").mkdir(parents=True)
    write_log(folder)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    ask = Ask(home.env, home.work)
    check_commands(lambda line: ask.shell(f"({line}) 2>&1"), find_code_blocks(PAGE, "console"))


@pytest.mark.needs("jq")
def test_roles_of_sgpt_become_templates(home: Home) -> None:
    roles = Path(home.env["HOME"], ".config/shell_gpt/roles")
    roles.mkdir(parents=True)
    (roles / "Code Generator.json").write_text(json.dumps({"name": "Code Generator", "role": 'Say "code"\nonly.'}))
    ask = Ask(home.env, home.work)
    (script,) = find_code_blocks(read_section(PAGE, "## Roles of sgpt"), "sh")
    assert ask.shell(script).code == 0
    result = ask("templates", "show", "Code-Generator")
    assert 'system = "Say \\"code\\"\\nonly."' in result.text


def test_the_folders_are_those_of_the_programs() -> None:
    environment = {"LLM_USER_PATH": "/a", "AICHAT_CONFIG_DIR": "/b", "XDG_CONFIG_HOME": "/c"}
    assert (find_llm_folder(environment), find_aichat_folder(environment)) == (Path("/a"), Path("/b"))
    xdg = {"XDG_CONFIG_HOME": "/c"}
    assert (find_llm_folder(xdg), find_aichat_folder(xdg)) == (Path("/c/io.datasette.llm"), Path("/c/aichat"))
