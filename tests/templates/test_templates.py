"""Templates: parsing, errors with line numbers, and placeholders."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.errors import ConfigError, UsageError
from ask.templates.placeholders import (
    COLUMN_PATTERN,
    VARIABLE_PATTERN,
    Placeholder,
    fill_placeholders,
    find_placeholders,
)
from ask.templates.template import (
    FrontMatter,
    Template,
    find_template,
    list_template_files,
    parse_template,
    read_template,
)
from ask.tools.definitions import BUILTIN_TOOLS

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


def test_front_matter_and_text_are_parsed() -> None:
    assert parse_template(FILE, WHOLE) == Template(
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
    assert parse_template(FILE, WHOLE).variables == ["what", "how"]


@pytest.mark.parametrize("text", ["Sing.\n\n+++\nx\n+++", " +++\n", "", "++++\n"])
def test_a_file_without_front_matter_is_all_text(text: str) -> None:
    assert parse_template(FILE, text) == Template("mine", FILE, prompt=text.strip())


def test_every_key_of_the_front_matter_is_a_field() -> None:
    assert {*FrontMatter._fields} <= {*Template._fields}


@pytest.mark.parametrize(
    ("front", "line", "expected"),
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
        ("\n[tasks]\na = 1", 3, "tasks.a must be a string"),
        ('tools = ["a", 1]', 2, "tools[1] must be a string"),
        ('\n[tasks]\n"a/b" = "x"', 4, "'a/b'"),
        ("\n[options]\nsince = 2026-02-03", 3, "[options]"),
        ("[options]\nseed = nan", 2, "[options]"),
        ('model = "a"\nsystem = "See {{input}}"', 3, "system"),
    ],
)
def test_an_error_names_the_line(front: str, line: int, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_template(FILE, f"+++\n{front}\n+++\nSing.")
    assert caught.value.message.startswith(f"{FILE}, line {line}: ")
    assert expected in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("text", ["+++\nmodel = 'a'\n", "+++", "---\nmodel: a\n---\nSing."])
def test_unterminated_or_yaml_front_matter_is_an_error_in_line_1(text: str) -> None:
    with pytest.raises(ConfigError, match=r"line 1: .*\+\+\+"):
        parse_template(FILE, text)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_a_prompt_or_a_config_error(text: str) -> None:
    for whole in (text, f"+++\n{text}\n+++\nx"):
        try:
            parse_template(FILE, whole)
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
def test_placeholders_are_replaced(text: str, filled: str) -> None:
    assert fill_placeholders(text, {"a": "A"}) == filled


@pytest.mark.parametrize("pattern", [VARIABLE_PATTERN, COLUMN_PATTERN])
@pytest.mark.parametrize(
    "text",
    [
        *("{{a|" * 20_000, "{{a|x}" * 20_000, "{{" * 50_000, "{{ " * 50_000, "{{a b " * 20_000),
        *("{{" + " " * 50_000 + end for end in ("", "x", "}", "|")),
        *("{{" + piece * 50_000 for piece in ("a", "a ", "a  ")),
        *("{{a" + " " * 50_000 + "x", "{{a|" + "x" * 50_000, "{{a|" + "{x" * 50_000, "{{a|" + "}x" * 50_000),
    ],
    ids=lambda text: f"{text[:6]!r}...{text[-1:]!r}",
)
def test_placeholders_are_found_in_linear_time(text: str, pattern: re.Pattern[str]) -> None:
    start = time.thread_time()
    assert list(find_placeholders(text, pattern)) == []
    assert time.thread_time() - start < 1


def test_a_placeholder_without_value_and_default_is_an_error() -> None:
    with pytest.raises(KeyError, match="b"):
        fill_placeholders("{{a}} {{b}}", {"a": "A"})
    assert list(find_placeholders("{{a}} {{b|x}} \\{{c}}")) == [Placeholder("a", None), Placeholder("b", "x")]


@given(st.text(), st.text())
def test_inserted_values_are_not_expanded_again(one: str, two: str) -> None:
    values = {"a": one + "{{b}}{{c|x}}\\1", "b": two + "{{a}}"}
    assert fill_placeholders("[{{a}}|{{b}}]", values) == f"[{values['a']}|{values['b']}]"


@given(st.text(), st.text(), st.text())
def test_text_without_placeholders_is_unchanged(before: str, name: str, after: str) -> None:
    text = before + name + after
    if not list(find_placeholders(text)) and "\\{{" not in text:
        assert fill_placeholders(text, {}) == text


# Folders


def test_user_templates_override_built_in_ones_and_system_prompt_parts_are_excluded(tmp_path: Path) -> None:
    (tmp_path / "commit.md").write_text("Mine.")
    (tmp_path / "system.md").write_text("Mine, too.")
    (tmp_path / "note.txt").write_text("no")
    (tmp_path / "no name.md").write_text("no")
    assert find_template("commit", tmp_path).prompt == "Mine."
    assert find_template("system", tmp_path).prompt == "Mine, too."
    warnings: list[str] = []
    assert {*list_template_files(tmp_path, warnings.append)} == {*BUILTIN, "system"}
    [warning] = warnings
    assert str(tmp_path / "no name.md") in warning
    with pytest.raises(UsageError):
        find_template("system", NOWHERE)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("comit", "'comit': did you mean commit?"),
        ("xyzzy", "'xyzzy': ask templates list"),
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
def test_unknown_and_invalid_names_are_errors(wanted: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        find_template(wanted, tmp_path)
    assert expected in str(caught.value)


def test_invalid_utf_8_is_an_error_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "bytes.md").write_bytes(b"one\ntwo\xff")
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "long.md").write_bytes(b"x" * 1_000_001)
    for name, expected in (("bytes", "line 2: not UTF-8"), ("folder", "cannot read"), ("long", "larger than")):
        with pytest.raises(ConfigError, match=expected):
            find_template(name, tmp_path)
    (tmp_path / "windows.md").write_bytes(b"\xef\xbb\xbf+++\r\ntools = false\r\n+++\r\nSing.\r\n")
    assert (find_template("windows", tmp_path).tools, find_template("windows", tmp_path).prompt) == (False, "Sing.")


# Built-in templates


def test_the_built_in_templates_have_the_expected_names() -> None:
    assert [*BUILTIN] == ["commit", "explain", "fix", "regex", "review", "shell", "summarize", "translate"]


@pytest.mark.parametrize("name", BUILTIN)
def test_every_built_in_template_has_a_short_description_and_text(name: str) -> None:
    template = read_template(BUILTIN[name])
    assert template.description
    assert template.tasks
    assert (template.provider, template.model, template.options) == ("", "", {})
    assert isinstance(template.tools, bool) or {*template.tools} < {tool.spec.name for tool in BUILTIN_TOOLS}
    for text in (template.prompt, *template.tasks.values()):
        every = list(find_placeholders(text))
        assert text
        assert all(place.default is not None for place in every if place.name != "input")
        assert len(template.system + text) < 2_500
