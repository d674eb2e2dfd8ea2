"""Tab completion in real shells, by the scripts themselves and by `ask --complete`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ask.client.models_cache import get_cache_file, write_models
from ask.map.ledger import Ledger
from ask.mcp.completion_cache import write_addresses
from ask.plugin_api.types import ModelInfo
from ask.safety.approval_scope import ApprovalScope
from ask.safety.approval_store import Approval
from tests.completion_scripts import SCRIPTS
from tests.history.saved import save, user
from tests.program import Home, run
from tests.shells import BASH_THEN_OTHERS, EACH_SHELL, KILL, TAB, Shell, read_completed_words
from tests.third_party_plugins import install

APPROVAL = Approval(ApprovalScope.COMMAND, "make test", "", 0, "").id
TODO = """
import click
print("noise")

@click.group()
@click.option("--color-of-lines", type=click.Choice(["red", "green"]))
def todo(color_of_lines):
    pass

@todo.command()
@click.argument("name")
@click.option("--file", type=click.Path())
def add(name, file):
    pass
"""
ONE, OTHER = "aaaa11112222", "bbbb33334444"
CASES = [
    ("ask -p openr", "<ask><-p><openrouter>"),
    ("ask -qp lms", "<ask><-qp><lmstudio>"),
    ("ask -p gro", "<ask><-p><groq>", "grok is another"),
    ("ask --provider=lms", "<ask><--provider=lmstudio>"),
    ("ask -m openrouter:vendor/la", "<ask><-m><openrouter:vendor/large>"),
    ("ask -m openrouter:vendor/small:", "<ask><-m><openrouter:vendor/small:free>"),
    ("ask -p openrouter -m vendor/la", "<ask><-p><openrouter><-m><vendor/large>"),
    ("ask -t comm", "<ask><-t><commit>"),
    ("ask -m spee", "<ask><-m><speedy>"),
    ("ask --resume aa", f"<ask><--resume><{ONE}>"),
    ("ask history show bb", f"<ask><history><show><{OTHER}>"),
    ("ask history export --format js", "<ask><history><export><--format><json>"),
    ("ask hist", "<ask><history>"),
    ("ask history se", "<ask><history><search>"),
    ("ask --max-ro", "<ask><--max-rounds>"),
    ("ask -f not", "<ask><-f><notes.md>"),
    ("ask -t mcp://no", "<ask><-t><mcp://notes/>"),
    ("ask -t mcp://notes/pro", "<ask><-t><mcp://notes/proofread>"),
    ("ask map --template=mcp://notes/pro", "<ask><map><--template=mcp://notes/proofread>"),
    ("ask -f mcp://notes/file:///docs/pl", "<ask><-f><mcp://notes/file:///docs/plan.md>"),
    ("ask chat --file=mcp://notes/note", "<ask><chat><--file=mcp://notes/note://>"),
    ("ask -f githu", "<ask><-f><github:>"),
    ("ask -t githu", "<ask><-t><github:>"),
    ("ask -f iss", "<ask><-f><issue:>"),
    ("ask chat --file=iss", "<ask><chat><--file=issue:>"),
    ("ask tod", "<ask><todo>"),
    ("ask todo --col", "<ask><todo><--color-of-lines>"),
    ("ask todo --color-of-lines gre", "<ask><todo><--color-of-lines><green>"),
    ("ask todo --color-of-lines=gre", "<ask><todo><--color-of-lines=green>"),
    ("ask todo ad", "<ask><todo><add>"),
    ("ask todo add --fi", "<ask><todo><add><--file>"),
    ("ask todo add --file not", "<ask><todo><add><--file><notes.md>"),
    ("ask todo add not", "<ask><todo><add><notes.md>"),
    ("ask todo --conf", "<ask><todo><--conf>"),
    ("ask -s @not", "<ask><-s><@notes.md>"),
    ("ask -s @two", "<ask><-s><@two words.txt>"),
    ("ask what is in not", "<ask><what><is><in><notes.md>"),
    ("ask 'what is this' --conf", "<ask><what is this><--confirm>"),
    ("ask keys set xa", "<ask><keys><set><xai>"),
    ("ask config set tools.disa", "<ask><config><set><tools.disabled>"),
    ("ask config set tools.conf", "<ask><config><set><tools.confirm>"),
    ("ask config set tools.confirm tr", "<ask><config><set><tools.confirm><true>"),
    ("ask config set search.engine br", "<ask><config><set><search.engine><brave>"),
    ("ask config set model openrouter:vendor/la", "<ask><config><set><model><openrouter:vendor/large>"),
    ("ask config set tools.disabled bash,wri", "<ask><config><set><tools.disabled><bash,write_file>"),
    ("ask config set safe.allow_dirs fol", "<ask><config><set><safe.allow_dirs><folder"),
    ("ask -o reasoning_effort=hi", "<ask><-o><reasoning_effort=high>"),
    ("ask --option=reasoning_effort=hi", "<ask><--option=reasoning_effort=high>"),
    ("ask map --forget 7", "<ask><map><--forget><77ff00aa>"),
    ("ask -t über:k", "<ask><-t><über:kürzer>"),
    ("ask -t üb", "<ask><-t><über>"),
    ("ask -m schnel", "<ask><-m><schnellé>"),
    ("ask -f Zür", "<ask><-f><Zürich.md>"),
    ("ask -s @Zür", "<ask><-s><@Zürich.md>"),
    ("ask mcp remove no", "<ask><mcp><remove><notes>"),
    ("ask skills show dep", "<ask><skills><show><deploy>"),
    ("ask tools forget ", f"<ask><tools><forget><{APPROVAL}>"),
    ("ask --disable-tool bash,write", "<ask><--disable-tool><bash,write_file>"),
    ("ask why --conf", "<ask><why><--confirm>"),
    ("ask -p demo why --conf", "<ask><-p><demo><why><--confirm>"),
    # After several words there are no options, and only the first word can be a subcommand.
    ("ask why not --conf", "<ask><why><not><--conf>"),
    ("ask -- --conf", "<ask><--><--conf>"),
    ("ask -q hist", "<ask><-q><hist>"),
]

BY_TITLE = [
    ("ask --resume FIRST", f"<ask><--resume><{ONE}>"),
    ("ask history show 'the first q", f"<ask><history><show><{ONE}>"),
    ("ask map --forget translate", "<ask><map><--forget><77ff00aa>"),
    ("ask tools forget mak", f"<ask><tools><forget><{APPROVAL}>"),
]
"""Ids by a word of their titles. fish only offers what begins as the word does."""
LISTS = [
    ("ask -p ", ["anthropic", "cohere", "demo"]),
    ("ask -m openrouter:", ["any/model", "vendor/large", "vendor/small:free"]),
    ("ask -p groq --fallback openrouter:", ["any/model", "vendor/large", "vendor/small:free"]),
    ("ask --resume ", [OTHER, "a `date` $(id) \\x1b[31mquestion", ONE, "the first question"]),
    ("ask history show ", [OTHER, "a `date` $(id) \\x1b[31mquestion", ONE, "the first question"]),
]


@pytest.fixture
def used(home: Home) -> Home:
    """A home with a saved conversation and a cached models list."""
    home.configure(
        '[aliases]\nspeedy = "openrouter:vendor/small"\n"schnellé" = "openrouter:vendor/small"\n'
        '[providers.groq]\nbase_url = "http://127.0.0.1:9/v1"\n'
        '[mcp.servers.notes]\ncommand = "false"\n'
    )
    cache = Path(home.env["XDG_CACHE_HOME"], "ask")
    write_addresses(cache, "notes", "prompts", [("proofread", "Find mistakes")])
    write_addresses(cache, "notes", "resources", [("file:///docs/plan.md", "plan"), ("note://{title}", "note")])
    save(home.data / "history.db", ONE, user("the first question"))
    save(home.data / "history.db", OTHER, user("a `date` $(id) \x1b[31mquestion"))
    ids = ("any/model", "vendor/large", "vendor/small:free", "vendor/$(id)", "two words")
    write_models(cache_of(home), [ModelInfo(id=name) for name in ids])
    with Ledger(home.data / "map.db") as ledger:
        ledger.begin_job("77ff00aa", "Translate {{line}}", "demo", "")
    row = {"scope": "command", "value": "make test", "folder": "", "time": 0, "level": ""}
    (home.data / "approvals.json").write_text(json.dumps([row]))
    (home.config / "templates").mkdir()
    (home.config / "templates" / "über.md").write_text('+++\n[tasks]\n"kürzer" = "shorten it"\n+++\nrewrite it')
    skill = home.config / "skills/deploy/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: deploy\ndescription: Deploys\n---\n")
    packages = home.path / "packages"
    install(packages, "ask-issue", {"issue": "ask_issue:load"}, {}, "ask.loaders")
    install(packages, "ask-todo", {"todo": "ask_todo:todo"}, {"ask_todo": TODO}, "ask.commands")
    (home.work / "folder").mkdir()
    (home.work / "Zürich.md").touch()
    (home.work / "notes.md").touch()
    (home.work / "two words.txt").touch()
    return replace(home, env={**home.env, "PYTHONPATH": str(packages)})


def cache_of(home: Home) -> Path:
    return get_cache_file(Path(home.env["XDG_CACHE_HOME"], "ask"), "openrouter", "http://127.0.0.1:9")


@pytest.mark.parametrize("shell", BASH_THEN_OTHERS)
def test_tab_completes_words(shell: str, used: Home) -> None:
    with Shell(shell, used, used.env).on_terminal() as running:
        for typed, wanted, *but in CASES + (BY_TITLE if shell != "fish" else []):
            read_completed_words(running, typed + TAB, wanted if not but else "<ask><-p><gro")


@pytest.mark.slow_after_first
@pytest.mark.parametrize("shell", [pytest.param("bash", marks=pytest.mark.slow), *EACH_SHELL[1:]])
def test_tab_lists_candidates(shell: str, used: Home) -> None:
    with Shell(shell, used, used.env).on_terminal() as running:
        for typed, shown in LISTS:
            place = len(running.stdout)
            running.type_in(typed + TAB * (2 if shell == "bash" else 1))
            for text in shown:
                running.wait_for(text, after=place)
            read_completed_words(running, KILL, "<>")
        assert b"vendor/$(id)" not in running.stdout
        assert b"\x1b[31mquestion" not in running.stdout


@pytest.mark.parametrize("shell", EACH_SHELL)
def test_the_scripts_are_valid_in_their_shells(shell: str) -> None:
    assert run([shell, "-n", str(SCRIPTS / f"ask.{shell}")]).code == 0


@pytest.mark.slow
@pytest.mark.needs("shellcheck")
def test_shellcheck_accepts_the_bash_script() -> None:
    checked = run(["shellcheck", str(SCRIPTS / "ask.bash")])
    assert (checked.code, checked.text) == (0, "")


def test_sourcing_the_bash_script_prints_nothing_and_works_in_strict_mode(home: Home) -> None:
    result = run(["bash", "-euo", "pipefail", "-c", f'. "{SCRIPTS}/ask.bash"; echo fine'], env=home.env)
    assert (result.code, result.text, result.stderr) == (0, "fine\n", "")
