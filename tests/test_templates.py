"""Named prompts: what a file may say, what is wrong with it and in which line, and how placeholders are filled in."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.errors import ConfigError, UsageError
from ask.templates.files import find_template, list_template_files, read_template
from ask.templates.placeholders import Placeholder, fill_placeholders, find_placeholders
from ask.templates.template import FIELD_TYPES, Template, parse_template
from ask.tools.builtin import list_builtin_tools

FILE = Path("/prompts/mine.md")
NOWHERE = Path("/no/such/folder")
BUILTIN = list_template_files(NOWHERE)
WHOLE = '''+++
description = "Sings"
system = """
You sing
of {{what|love}}."""
provider = "openrouter"
model = "a/b"
tools = ["bash"]

[options]
temperature = 0.5

[tasks]
low = "Sing low: {{input}}"
+++

Sing {{how}}.

Now.
'''


# Files


def test_a_file_says_what_stands_in_it() -> None:
    assert parse_template("mine", FILE, WHOLE) == Template(
        name="mine",
        file=FILE,
        description="Sings",
        system="You sing\nof {{what|love}}.",
        prompt="Sing {{how}}.\n\nNow.",
        provider="openrouter",
        model="a/b",
        tools=("bash",),
        options={"temperature": 0.5},
        tasks={"low": "Sing low: {{input}}"},
    )
    assert parse_template("mine", FILE, WHOLE).variables == ["what", "how"]


@pytest.mark.parametrize("text", ["Sing.\n\n+++\nx\n+++", " +++\n", "", "++++\n"])
def test_without_lines_of_plus_signs_a_file_is_all_text(text: str) -> None:
    assert parse_template("mine", FILE, text) == Template("mine", FILE, prompt=text.strip())


def test_every_key_of_the_front_matter_is_a_field() -> None:
    assert {*FIELD_TYPES} <= {*Template._fields}


@pytest.mark.parametrize(
    ("front", "line", "told"),
    [
        ("description = ", 2, "TOML (Invalid value)"),
        ('provider = "x"\nmodel = "a\n', 3, "TOML"),
        ('model = """\n\nx', 4, "TOML"),
        ('model = "a"\n\nmodel = "b"', 4, "TOML"),
        ('\nmodle = "a"', 3, "modle (did you mean model?)"),
        ('model = "a"\n[task]\nx = "a"', 3, "task (did you mean tasks?)"),
        ("[tasks]\n[options]\n[ideas]", 4, "ideas"),
        ("tools = 1", 2, "tools"),
        ("tools = [1]", 2, "tools"),
        ('system = ["a"]', 2, "system"),
        ("options = 1", 2, "options"),
        ('tasks = ["a"]', 2, "tasks"),
        ("\n[tasks]\na = 1", 3, "tasks"),
        ('\n[tasks]\n"a/b" = "x"', 4, "'a/b'"),
        ("\n[options]\nsince = 2026-02-03", 3, "[options]"),
        ("[options]\nseed = nan", 2, "[options]"),
        ('model = "a"\nsystem = "See {{input}}"', 3, "system"),
    ],
)
def test_an_error_names_the_line(front: str, line: int, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_template("mine", FILE, f"+++\n{front}\n+++\nSing.")
    assert caught.value.message.startswith(f"{FILE}, line {line}: ")
    assert told in caught.value.message
    assert caught.value.advice


@pytest.mark.parametrize("text", ["+++\nmodel = 'a'\n", "+++", "---\nmodel: a\n---\nSing."])
def test_front_matter_that_does_not_end_or_is_yaml_is_told_in_line_1(text: str) -> None:
    with pytest.raises(ConfigError, match=r"line 1: .*\+\+\+"):
        parse_template("mine", FILE, text)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_a_prompt_or_a_config_error(text: str) -> None:
    for whole in (text, f"+++\n{text}\n+++\nx"):
        try:
            parse_template("mine", FILE, whole)
        except ConfigError as error:
            assert "line " in error.message


# Placeholders


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{{a}}", "A"),
        ("{{ a }} {{a|x}} {{ a | x }}", "A A A"),
        ("{{b|}}{{b| two words }}", "two words"),
        ("{{b|one\nline {more}}}", "one\nline {more}"),
        ("\\{{a}} \\{{b|x}}", "{{a}} {{b|x}}"),
        ("{{a}}{{a}}", "AA"),
        ("{{{a}}}", "{A}"),
        ("{{1a}} {{a.b}} {{}} {{a {a}} ${{ x.y }}", "{{1a}} {{a.b}} {{}} {{a {a}} ${{ x.y }}"),
    ],
)
def test_what_is_filled_in(text: str, filled: str) -> None:
    assert fill_placeholders(text, {"a": "A"}) == filled


def test_one_without_value_and_default_is_told() -> None:
    with pytest.raises(KeyError, match="b"):
        fill_placeholders("{{a}} {{b}}", {"a": "A"})
    assert list(find_placeholders("{{a}} {{b|x}} \\{{c}}")) == [Placeholder("a", None), Placeholder("b", "x")]


@given(st.text(), st.text())
def test_what_is_filled_in_stands_there_as_it_is_and_is_not_filled_in_itself(one: str, two: str) -> None:
    values = {"a": one + "{{b}}{{c|x}}\\1", "b": two + "{{a}}"}
    assert fill_placeholders("[{{a}}|{{b}}]", values) == f"[{values['a']}|{values['b']}]"


@given(st.text(), st.text(), st.text())
def test_text_without_placeholders_is_left_as_it_is(before: str, name: str, after: str) -> None:
    text = before + name + after
    if not list(find_placeholders(text)) and "\\{{" not in text:
        assert fill_placeholders(text, {}) == text


# Folders


def test_the_user_s_own_come_first_and_parts_of_the_system_prompt_are_none(tmp_path: Path) -> None:
    (tmp_path / "commit.md").write_text("Mine.")
    (tmp_path / "system.md").write_text("Mine, too.")
    (tmp_path / "note.txt").write_text("no")
    (tmp_path / "no name.md").write_text("no")
    assert find_template("commit", tmp_path).prompt == "Mine."
    assert find_template("system", tmp_path).prompt == "Mine, too."
    misnamed: list[Path] = []
    assert {*list_template_files(tmp_path, misnamed.append)} == {*BUILTIN, "system"}
    assert misnamed == [tmp_path / "no name.md"]
    with pytest.raises(UsageError):
        find_template("system", NOWHERE)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("comit", "'comit': did you mean commit?"),
        ("xyzzy", "'xyzzy': ask prompts list"),
        ("commit:bdy", "'bdy': did you mean commit:body?"),
        ("commit:", "body, conventional"),
        ("", "''"),
        ("../commit", "'../commit'"),
        ("/etc/passwd", "'/etc/passwd'"),
        ("a.md", "'a.md'"),
        ("~root", "'~root'"),
        ("-x", "'-x'"),
        ("commit\n", "commit"),
        ("a\0b", "a"),
    ],
)
def test_an_unknown_or_invalid_name_is_refused(wanted: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        find_template(wanted, tmp_path)
    assert told in str(caught.value)


def test_a_file_that_is_no_text_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "bytes.md").write_bytes(b"one\ntwo\xff")
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "long.md").write_bytes(b"x" * 1_000_001)
    for name, told in (("bytes", "line 2: this is not UTF-8"), ("folder", "cannot read"), ("long", "longer than")):
        with pytest.raises(ConfigError, match=told):
            find_template(name, tmp_path)
    (tmp_path / "windows.md").write_bytes(b"\xef\xbb\xbf+++\r\ntools = false\r\n+++\r\nSing.\r\n")
    assert (find_template("windows", tmp_path).tools, find_template("windows", tmp_path).prompt) == (False, "Sing.")


# Those that come with ask


def test_they_are_these() -> None:
    assert [*BUILTIN] == ["commit", "explain", "fix", "regex", "review", "shell", "summarize", "translate"]


@pytest.mark.parametrize("name", BUILTIN)
def test_each_is_described_short_and_asks_something(name: str) -> None:
    template = read_template(name, BUILTIN[name])
    assert template.description
    assert template.tasks
    assert (template.provider, template.model, template.options) == ("", "", {})
    assert isinstance(template.tools, bool) or {*template.tools} < {tool.spec.name for tool in list_builtin_tools()}
    for text in (template.prompt, *template.tasks.values()):
        every = list(find_placeholders(text))
        assert text
        assert all(place.default is not None for place in every if place.name != "input")
        assert len(template.system + text) < 2_500
