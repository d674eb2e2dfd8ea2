"""`ask.testing.LoaderContract` and `CommandContract` pass correct plugins, and name the mistake of each faulty one."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.slow_parameters import mark_others_slow
from tests.test_testing import ROOT, run_pytest

Change = tuple[str, str]
EXAMPLE = ROOT / "examples/ask-extras-example"
LOADER = """
def load(rest):
    if rest == "wrong": raise ask.AskError("there is none")
    return "text"
"""
LOADER_TEST = 'loader = plugin.load\n prefix = "issue"\n files = ["a"]\n wrong = ["wrong"]\n timeout = 2'
COMMAND = """
@click.command()
@click.argument("word", default="")
def command(word):
    'Do it.'
    if word == "wrong": raise click.ClickException("wrong word")
"""
COMMAND_TEST = 'command = plugin.command\n name = "todo"\n calls = [[]]\n wrong_calls = [["wrong"]]\n timeout = 2'
FAULTY_LOADERS: dict[str, tuple[Change, str, str]] = {
    "prefix of ask": (('"issue"', '"https"'), "test_prefix_can_be_used", "https"),
    "prefix in capitals": (('"issue"', '"Issue"'), "test_prefix_can_be_used", "Issue"),
    "no text": (('files = ["a"]', "files = []"), "test_texts_to_pass_are_given", "`files` or `templates`"),
    "no wrong text": (('wrong = ["wrong"]', "wrong = []"), "test_texts_to_pass_are_given", "`wrong` is empty"),
    "returns None": (('return "text"', "return None"), "test_files_are_returned", "NoneType"),
    "returns bytes": (('return "text"', 'return b"x"'), "test_files_are_returned", "bytes"),
    "returns nothing": (('return "text"', 'return ""'), "test_files_are_returned", "is empty"),
    "returns a template": (
        ('return "text"', 'return ask.PromptTemplate("x")'),
        "test_files_are_returned",
        "PromptTemplate",
    ),
    "prints": (('return "text"', 'print("x"); return "text"'), "test_files_are_returned", "printed: x"),
    "hangs": (('return "text"', "import time; time.sleep(9)"), "test_files_are_returned", "longer than 2 s"),
    "exits": (('return "text"', "import os; os._exit(3)"), "test_files_are_returned", "exit status 3"),
    "wrong is accepted": (('if rest == "wrong"', "if False"), "test_wrong_texts_are_explained", "returned something"),
    "wrong raises KeyError": (('raise ask.AskError("there is none")', "{}[1]"), "test_wrong_texts_", "KeyError"),
    "unusual texts raise": (('return "text"', "return rest[0]"), "test_unusual_texts_are_read_or", "IndexError"),
    "invalid template": (
        ('return "text"', 'return "+++\\nx"'),
        "test_templates_are_returned",
        "second .* line is missing",
    ),
    "template chooses the model": (
        ('return "text"', """return '+++\\nmodel = "x"\\n+++\\nx'"""),
        "test_templates_are_returned",
        "ignoring model",
    ),
}
FAULTY_COMMANDS = {
    "name of a command": (('"todo"', '"history"'), "test_name_can_be_used", "history"),
    "no command": (("@click.command()", ""), "test_command_is_a_click_command", "click.command"),
    "no help": (("'Do it.'", "pass"), "test_command_is_a_click_command", "docstring"),
    "no call": (("calls = [[]]", "calls = []"), "test_calls_succeed", "`calls` is empty"),
    "raises": (("'Do it.'", "'Do it.'; {}[1]"), "test_calls_succeed", "KeyError"),
    "exit code": (("'Do it.'", "'Do it.'; raise SystemExit(3)"), "test_calls_succeed", "exit code 3"),
    "hangs": (("'Do it.'", "'Do it.'; import time; time.sleep(9)"), "test_calls_succeed", "longer than 2 s"),
    "wrong is accepted": (('if word == "wrong"', "if False"), "test_wrong_calls_are_explained", "succeeded"),
    "wrong is silent": (
        ('raise click.ClickException("wrong word")', "raise SystemExit(3)"),
        "test_wrong_calls_are_explained",
        "without a message",
    ),
}


@pytest.mark.slow
def test_the_example_passes() -> None:
    tested = run_pytest(EXAMPLE / "tests", path=[EXAMPLE, ROOT])
    assert tested.returncode == 0, tested.stdout
    assert "skipped" not in tested.stdout


@pytest.mark.slow
def test_correct_plugins_pass(tmp_path: Path) -> None:
    assert set(run_contract(tmp_path, "Loader", LOADER, LOADER_TEST).values()) == {""}
    assert set(run_contract(tmp_path, "Command", COMMAND, COMMAND_TEST).values()) == {""}


@pytest.mark.parametrize("mistake", mark_others_slow(FAULTY_LOADERS))
def test_a_mistake_of_a_loader_is_named(mistake: str, tmp_path: Path) -> None:
    (old, new), test, says = FAULTY_LOADERS[mistake]
    assert old in LOADER + LOADER_TEST
    attributes = LOADER_TEST.replace(old, new)
    if test == "test_templates_are_returned":
        attributes = attributes.replace("files", "templates")
    failures = run_contract(tmp_path, "Loader", LOADER.replace(old, new), attributes, test)
    assert any(name.startswith(test) and re.search(says, failure) for name, failure in failures.items()), failures


@pytest.mark.slow
@pytest.mark.parametrize("mistake", FAULTY_COMMANDS)
def test_a_mistake_of_a_command_is_named(mistake: str, tmp_path: Path) -> None:
    (old, new), test, says = FAULTY_COMMANDS[mistake]
    assert old in COMMAND + COMMAND_TEST
    failures = run_contract(tmp_path, "Command", COMMAND.replace(old, new), COMMAND_TEST.replace(old, new), test)
    assert any(name.startswith(test) and re.search(says, failure) for name, failure in failures.items()), failures


def run_contract(folder: Path, kind: str, source: str, attributes: str, test: str = "test") -> dict[str, str]:
    """Run the tests of a contract whose names begin with `test`; return the message of each failure, "" for none."""
    (folder / "plugin.py").write_text(f"import ask, click\n{source}")
    lines = ["import plugin", "import ask.testing", f"class TestPlugin(ask.testing.{kind}Contract):", f" {attributes}"]
    (folder / "test_plugin.py").write_text("\n".join(lines))
    run_pytest(folder / "test_plugin.py", "-k", test, f"--junitxml={folder}/report.xml", path=[folder, ROOT])
    cases = ET.parse(folder / "report.xml").iter("testcase")
    found = {case.attrib["name"]: case.find("failure") for case in cases}
    return {name: "" if failure is None else failure.attrib["message"] for name, failure in found.items()}
