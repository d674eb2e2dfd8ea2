"""`ask config`: validated changes of config.toml that keep its comments and never make it invalid."""

from __future__ import annotations

import json
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from ask.cli.config import format_value, parse_key, parse_value
from ask.config.config_editor import UNSET, find_value, update_toml
from ask.config.config_file import PROVIDER_KEYS, BaseUrls, Config
from ask.config.options import RunOptions
from ask.config.precedence import resolve_settings
from ask.config.settings import SETTINGS, Settings, get_default_value, get_kind
from ask.errors import AskError
from tests.program import Ask, Home, Result, run

COMMENTED = """\
# mine
max_rounds = 3  # few

# which tools
[tools]
disabled = ["bash"]
confirm = true # always

[providers.groq]
base_url = "https://groq.test/v1"   # there
"""


@pytest.fixture
def path(home: Home) -> Path:
    """Return the path of config.toml in an existing folder."""
    home.config.mkdir()
    return home.config / "config.toml"


def content(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


def is_refused(result: Result, code: int, *expected: str) -> None:
    assert (result.code, result.stdout, result.stderr.count("\n")) == (code, b"", 1)
    assert all(text in result.stderr for text in expected), result.stderr


# Setting

WORDS = [
    ("provider", "openrouter", "openrouter"),
    ("model", "5", "5"),
    ("system", "two\nlines \"and\" 'quotes' # ü", "two\nlines \"and\" 'quotes' # ü"),
    ("max_rounds", "5", 5),
    ("max_cost", "2", 2),
    ("max_cost", "0.5", 0.5),
    ("stream", "false", False),
    ("stream", "on", True),
    ("tools.disabled", "bash, fetch_url", ["bash", "fetch_url"]),
    ("tools.disabled", '["a,b"]', ["a,b"]),
    ("tools.disabled", "", []),
    ("network.backoff", "0", 0),
    ("aliases.gpt-4.1", "openai:gpt-4.1", "openai:gpt-4.1"),
    ("aliases.key", "x", "x"),
    ("options.temperature", "0.2", 0.2),
    ("options.stop", '["a", "b"]', ["a", "b"]),
    ("options.reasoning", '{"effort": "high"}', {"effort": "high"}),
    ("options.user", "me", "me"),
    ("providers.my.own.base_url", "http://localhost:1/v1", "http://localhost:1/v1"),
    ("providers.groq.key_env", "GROQ_KEY", "GROQ_KEY"),
]


@pytest.mark.parametrize(("key", "word", "value"), WORDS)
def test_values_are_parsed_by_the_type_of_their_key_and_formatted_as_typed(key: str, word: str, value: object) -> None:
    found = parse_key(key)
    text, _ = update_toml("", found.parts, parse_value(found, word))
    kept = find_value(tomllib.loads(text), found.parts)
    assert (type(kept), kept) == (type(value), value)
    assert parse_value(found, format_value(key, kept)) == value


@pytest.mark.parametrize(
    ("key", "word", "value"),
    [
        ("system", "two\nlines \"and\" 'quotes' # ü", "two\nlines \"and\" 'quotes' # ü"),
        ("tools.disabled", '["a,b"]', ["a,b"]),
        ("options.reasoning", '{"effort": "high"}', {"effort": "high"}),
        ("providers.my.own.base_url", "HTTP://localhost:1/v1", "HTTP://localhost:1/v1"),
    ],
)
def test_set_writes_the_value_and_get_prints_it_as_typed(
    ask: Ask, home: Home, key: str, word: str, value: object
) -> None:
    result = ask("config", "set", key, word)
    assert (result.code, result.text, result.stderr) == (0, "", "")
    assert find_value(content(home.config / "config.toml"), parse_key(key).parts) == value
    shown = ask("config", "get", key)
    assert (shown.code, shown.text) == (0, f"{word}\n")
    assert json.loads(ask("config", "get", "--json", key).text) == value


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (("max_rounds", "many"), 2, "max_rounds"),
        (("max_rounds", "2.5"), 2, "max_rounds"),
        (("max_rounds", "0"), 2, "positive"),
        (("timeout", "nan"), 2, "timeout"),
        (("network.backoff", "-1"), 2, "network.backoff"),
        (("tools.enabled", "maybe"), 2, "true or false"),
        (("tools.disabled", "[1]"), 2, "tools.disabled"),
        (("tools.disabled", "["), 2, "tools.disabled"),
        (("options.temperature", "9"), 7, "from 0 to 2"),
        (("options.user", "null"), 2, "null"),
        (("options.x", '[{"a": null}]'), 2, "null"),
        (("options.model", "x"), 2, "use -m"),
        (("options.a.b", "1"), 2, "options.a as JSON"),
        (("max_round", "1"), 2, "did you mean max_rounds?"),
        (("temperature", "1"), 2, "did you mean options.temperature?"),
        (("confirm", "true"), 2, "did you mean tools.confirm?"),
        (("groq.base_url", "http://x"), 2, "did you mean providers.groq.base_url?"),
        (("tool.enabled", "1"), 2, "did you mean tools.enabled?"),
        (("providers.groq.base-url", "x"), 2, "did you mean providers.groq.base_url?"),
        (("providers.groq.headers", "X-Team=blue"), 2, "providers.groq.headers.NAME VALUE"),
        (("option.temperature", "1"), 2, "did you mean options.temperature?"),
        (("options", "1"), 2, "did you mean options.NAME?"),
        (("providers.lab.models", "x"), 2, "ask config edit"),
        (("hooks", "x"), 2, "ask config edit"),
        (("mcp.servers.notes.command", "x"), 2, "ask config edit"),
        (("mcp.servers.notes.env.API_KEY", "sk-secret"), 2, "ask config edit"),
        (("providers.lab.base_url", "htp://lab"), 2, "https://HOST"),
        (("mcp.servers.notes.timeout", "long"), 2, "mcp.servers.notes.timeout"),
        (("tools", "x"), 2, "tools"),
        (("aliases", "x"), 2, "aliases"),
        (("", "x"), 2, "key"),
        (("providers.groq.api_key", "sk-secret"), 2, "ask keys set groq"),
        (("keys.openai", "sk-secret"), 2, "ask keys set openai"),
        (("OPENROUTER_API_KEY", "sk-secret"), 2, "ask keys set openrouter"),
        (("options.api_key", "sk-secret"), 2, "ask keys set"),
        (("key", "sk-secret"), 2, "ask keys set PROVIDER"),
    ],
)
def test_invalid_keys_and_values_are_rejected_with_a_hint(words: tuple[str, str], code: int, expected: str) -> None:
    key, word = words
    with pytest.raises(AskError) as refused:
        parse_value(parse_key(key), word)
    line = str(refused.value)
    assert (refused.value.exit_code, expected in line, "sk-secret" in line, "\n" in line) == (
        code,
        True,
        False,
        False,
    )


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (("max_rounds", "many"), 2, "max_rounds"),
        (("options.temperature", "9"), 7, "from 0 to 2"),
        (("providers.groq.api_key", "sk-secret"), 2, "ask keys set groq"),
    ],
)
def test_invalid_values_are_not_written(ask: Ask, home: Home, words: tuple[str, str], code: int, expected: str) -> None:
    result = ask("config", "set", *words)
    is_refused(result, code, expected)
    assert "sk-secret" not in result.stderr
    assert not home.config.exists()


def test_comments_are_preserved(ask: Ask, path: Path) -> None:
    path.write_text(COMMENTED)
    changes = [("max_rounds", "7"), ("tools.confirm", "false"), ("providers.groq.base_url", "http://x/v1")]
    for key, word in changes:
        assert ask("config", "set", key, word).stderr == ""
    expected = COMMENTED.replace("= 3 ", "= 7 ").replace("= true", "= false").replace("https://groq.test", "http://x")
    assert path.read_text() == expected
    for key, word in [("model", "m"), ("tools.enabled", "no"), ("options.seed", "1"), ("providers.groq.model", "l")]:
        assert ask("config", "set", key, word).stderr == ""
    lines = path.read_text().splitlines()
    assert all(line in lines for line in expected.splitlines())
    assert content(path)["model"] == "m"


@pytest.mark.parametrize(
    ("text", "key", "word"),
    [
        ('[tools]\ndisabled = [\n  "bash",  # dangerous\n]\n', "tools.disabled", "fetch_url"),
        ("# dotted\nproviders.groq.model = 'a'\ntools.confirm = true\n", "providers.new.model", "b"),
    ],
)
def test_lost_comments_are_reported(ask: Ask, path: Path, text: str, key: str, word: str) -> None:
    path.write_text(text)
    result = ask("config", "set", key, word)
    assert result.code == 0
    kept = "#" in path.read_text()
    assert kept == (result.stderr == "")
    assert kept or (result.stderr.count("\n") == 1 and str(path) in result.stderr)
    assert ask("config", "get", key).text == f"{word}\n"


NAMES = st.sampled_from(["a", "b", "c d", "e.f", "ü", "#", ""])
LEAVES = st.booleans() | st.integers(-5, 5) | st.text("a#\"'\n=[]", max_size=4)
INNER = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2))
TABLES = st.dictionaries(NAMES, INNER | st.dictionaries(NAMES, INNER, max_size=3), max_size=4)


@given(values=TABLES, parts=st.lists(NAMES, min_size=1, max_size=3).map(tuple), value=LEAVES | st.just(UNSET))
def test_setting_and_unsetting_a_value_changes_nothing_else(
    values: dict[str, Any], parts: tuple[str, ...], value: object
) -> None:
    if any(find_value(values, parts[:size]) is not UNSET for size in range(1, len(parts))) and not isinstance(
        find_value(values, parts[:-1]), Mapping
    ):
        return  # a value is where a table is needed, which validation excludes
    text = "# first\n" + tomli_w.dumps(values)
    fresh, kept = update_toml(text, parts, value)
    after = tomllib.loads(fresh)
    assert find_value(after, parts) == value
    assert "# first" in fresh or not kept
    if value is not UNSET:
        without = update_toml(fresh, parts, UNSET)[0]
        before = update_toml(text, parts, UNSET)[0] if find_value(values, parts) is not UNSET else text
        assert remove_empty_tables(tomllib.loads(without)) == remove_empty_tables(tomllib.loads(before))


def remove_empty_tables(value: Any) -> Any:
    """Remove empty tables, which are deleted with their last value."""
    if not isinstance(value, dict):
        return value
    inner = {name: remove_empty_tables(each) for name, each in value.items()}
    return {name: each for name, each in inner.items() if each != {}}


# The file


def test_new_files_are_private_and_existing_ones_keep_mode_and_link(ask: Ask, home: Home) -> None:
    assert ask("config", "set", "max_rounds", "4").code == 0
    path = home.config / "config.toml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    real = home.path / "dotfiles" / "ask.toml"
    real.parent.mkdir()
    path.rename(real)
    real.chmod(0o640)
    path.symlink_to(real)
    assert ask("config", "set", "max_rounds", "5").code == 0
    assert path.is_symlink()
    assert (content(real), stat.S_IMODE(real.stat().st_mode)) == ({"max_rounds": 5}, 0o640)
    assert [file.name for file in (*home.config.iterdir(), *real.parent.iterdir())] == ["config.toml", "ask.toml"]


def test_invalid_files_are_not_changed(ask: Ask, path: Path) -> None:
    for text in ("max_rounds = \n", "max_rounds = 'x'\n", "[[tools]]\n"):
        path.write_text(text)
        is_refused(ask("config", "set", "model", "m"), 4, str(path))
        assert path.read_text() == text
    path.write_text("max_rounds = 'x'  # wrong\n")
    assert ask("config", "set", "max_rounds", "5").code == 0
    assert path.read_text() == "max_rounds = 5  # wrong\n"


def test_an_unwritable_file_is_a_one_line_error(ask: Ask, path: Path) -> None:
    is_refused(ask("config", "set", "model", "m", env={"XDG_CONFIG_HOME": "/proc/none"}), 9, "/proc/none")
    path.mkdir()
    is_refused(ask("config", "set", "model", "m"), 4, "Is a directory")


@pytest.mark.slow
def test_concurrent_changes_are_all_written(ask: Ask, home: Home) -> None:
    script = "for i in 1 2 3 4 5 6; do ask config set aliases.a$i m$i & done; wait"
    assert ask.shell(script).stderr == ""
    made = content(home.config / "config.toml")
    assert made == {"aliases": {f"a{number}": f"m{number}" for number in range(1, 7)}}


def test_overriding_variables_and_unknown_providers_are_reported(ask: Ask) -> None:
    result = ask("config", "set", "tools.enabled", "true", env={"ASK_TOOLS": "0"})
    assert (result.code, result.stderr) == (0, "ask: $ASK_TOOLS is set and takes precedence over config.toml\n")
    result = ask("config", "set", "provider", "opnrouter")
    assert (result.code, "'opnrouter'" in result.stderr) == (0, True)


# Unsetting


def test_unset_removes_settings_tables_and_unknown_keys(ask: Ask, path: Path) -> None:
    path.write_text(f"{COMMENTED}\n[aliases]\nfast = 'x'\n'a.b' = 'y'\n\n[modle]\nx = 1\n")
    for key in ("max_rounds", "providers.groq", "aliases.a.b", "modle.x", "tools.confirm"):
        assert ask("config", "unset", key).code == 0
    assert content(path) == {"tools": {"disabled": ["bash"]}, "aliases": {"fast": "x"}}
    assert path.read_text().startswith("# mine\n")
    assert "# which tools\n[tools]\n" in path.read_text()
    assert ask("config", "unset", "aliases").code == 0
    assert content(path) == {"tools": {"disabled": ["bash"]}}


def test_unsetting_a_missing_key_is_an_error(ask: Ask) -> None:
    is_refused(ask("config", "unset", "model"), 4, "model")
    is_refused(ask("config", "unset", "modle"), 2, "did you mean model?")
    is_refused(ask("config", "unset", "mcp.servers.notes"), 4, "mcp.servers.notes")


# Listing


def rows(ask: Ask, **env: str) -> dict[str, tuple[Any, str]]:
    listed = json.loads(ask("config", "list", "--json", env=env).text)
    return {row["key"]: (row["value"], row["from"]) for row in listed}


def test_every_key_is_listed_with_its_default(ask: Ask) -> None:
    listed = rows(ask, OPENROUTER_BASE_URL="")
    assert list(listed) == list(SETTINGS)
    assert {origin for _, origin in listed.values()} == {"default"}
    assert listed["max_rounds"][0] == 10
    assert listed["model"][0] is None
    assert listed["tools.disabled"][0] == []


def test_values_are_listed_with_their_source(ask: Ask, path: Path) -> None:
    path.write_text(f"model = 'm'\nprovider = 'demo'\n{COMMENTED}\n[aliases]\nfast = 'x'\n[options]\nseed = 1\n")
    listed = rows(ask, OPENROUTER_BASE_URL="http://or/v1", ASK_TOOLS="0")
    assert listed["max_rounds"] == (3, "config.toml")
    assert listed["model"] == ("m", "config.toml")
    assert listed["tools.enabled"] == (False, "ASK_TOOLS")
    assert listed["tools.disabled"] == (["bash"], "config.toml")
    assert listed["aliases.fast"] == ("x", "config.toml")
    assert listed["options.seed"] == (1, "config.toml")
    assert listed["providers.groq.base_url"] == ("https://groq.test/v1", "config.toml")
    assert listed["providers.openrouter.base_url"] == ("http://or/v1", "OPENROUTER_BASE_URL")
    other = rows(ask, ASK_PROVIDER="openrouter")
    assert (other["provider"], other["model"]) == (("openrouter", "ASK_PROVIDER"), (None, "default"))
    assert rows(ask, ASK_MODEL="e")["model"] == ("e", "ASK_MODEL")


@pytest.mark.parametrize(
    ("variables", "tools", "safe"),
    [
        ({"ASK_TOOLS": "off", "ASK_SAFE": "Yes"}, (False, "ASK_TOOLS"), (True, "ASK_SAFE")),
        ({"ASK_TOOLS": "ON", "ASK_SAFE": "no"}, (True, "ASK_TOOLS"), (False, "default")),
        ({"ASK_TOOLS": "", "ASK_SAFE": ""}, (True, "default"), (False, "default")),
    ],
)
def test_boolean_variables_are_listed_as_a_run_parses_them(
    ask: Ask, *, variables: dict[str, str], tools: tuple[bool, str], safe: tuple[bool, str]
) -> None:
    listed = rows(ask, **variables)
    assert (listed["tools.enabled"], listed["safe.enabled"]) == (tools, safe)


def test_the_list_has_a_heading_on_a_terminal_only(ask: Ask) -> None:
    listed = ask("config", "list").text
    assert ask("config").text == listed
    assert all(line.count("\t") == 3 for line in listed.splitlines())
    assert ask.on_terminal("config", env={"COLUMNS": "200"}).text.startswith("KEY ")


def test_get_prints_the_effective_value(ask: Ask, path: Path) -> None:
    path.write_text(COMMENTED)
    for key, text in [
        ("max_rounds", "3"),
        ("tools.command_timeout", "30"),
        ("tools.confirm", "true"),
        ("providers.groq.base_url", "https://groq.test/v1"),
        ("providers.groq", '{"base_url": "https://groq.test/v1"}'),
        ("tools", '{"disabled": ["bash"], "confirm": true}'),
    ]:
        shown = ask("config", "get", key)
        assert (shown.text, shown.code) == (f"{text}\n", 0)
    assert ask("config", "get", "providers.groq.base_url", env={"GROQ_BASE_URL": "http://x"}).text == "http://x\n"
    for key in ("model", "providers.groq.model", "aliases.x", "options.x"):
        is_refused(ask("config", "get", key), 4, key)
    is_refused(ask("config", "get", "modle"), 2, "did you mean model?")


def test_warnings_about_the_file_are_printed(ask: Ask, path: Path) -> None:
    path.write_text("modle = 'x'\n")
    for arguments in (["list"], ["set", "max_rounds", "3"]):
        assert "did you mean model?" in ask("config", *arguments).stderr


def test_the_path_is_printed_even_if_the_file_does_not_exist(ask: Ask, home: Home) -> None:
    assert ask("config", "path").text == f"{home.config}/config.toml\n"
    assert not home.config.exists()


def test_only_path_works_with_an_invalid_file(ask: Ask, path: Path) -> None:
    path.write_text("model = ")
    assert ask("config", "path").code == 0
    for arguments in (["list"], ["get", "model"], ["unset", "model"]):
        is_refused(ask("config", *arguments), 4, "TOML")


# Editing


def editor(home: Home, script: str) -> dict[str, str]:
    """Create an environment whose editor is a bash script that gets the file as $1."""
    program = home.path / "my editor"
    program.write_text(f"#!/bin/bash\n{script}\n")
    program.chmod(0o755)
    return {"VISUAL": f"'{program}'", "EDITOR": "false"}


def test_the_edited_file_replaces_the_old_one(ask: Ask, home: Home) -> None:
    env = editor(home, 'grep -q Settings "$1" && echo "max_rounds = 5 # five" > "$1"')
    result = ask("config", "edit", env=env)
    assert (result.code, result.text, result.stderr) == (0, "", "")
    assert (home.config / "config.toml").read_text() == "max_rounds = 5 # five\n"
    unchanged = ask("config", "edit", env=editor(home, "true"))
    assert (unchanged.code, unchanged.stderr) == (0, "ask: no changes were saved\n")


def test_an_unchanged_empty_file_is_not_created(ask: Ask, home: Home) -> None:
    assert ask("config", "edit", env=editor(home, "true")).code == 0
    assert not home.config.exists()


@pytest.mark.parametrize("text", ["max_rounds = ", "max_rounds = 0", "[[tools]]"])
def test_invalid_edits_are_discarded_without_a_terminal(ask: Ask, path: Path, home: Home, text: str) -> None:
    path.write_text(COMMENTED)
    result = ask("config", "edit", env=editor(home, f'echo "{text}" > "$1"'))
    is_refused(result, 4, str(path))
    assert path.read_text() == COMMENTED


AGAIN = "Edit it again?"
COUNTING = """
echo x >> "$0.count"
[[ $(wc -l < "$0.count") == 2 ]] && echo 'model = "second"' > "$1" || echo 'model = ' > "$1"
"""


@pytest.mark.slow
def test_invalid_edits_can_be_corrected_on_a_terminal(ask: Ask, path: Path, home: Home) -> None:
    path.write_text(COMMENTED)
    env = editor(home, COUNTING)
    assert ask.on_terminal("config", "edit", env=env, answers=[(AGAIN, "\n")]).code == 0
    assert content(path) == {"model": "second"}
    for answer in ("n\n", "\x04"):
        given_up = ask.on_terminal("config", "edit", env=env, answers=[(AGAIN, answer)])
        assert given_up.code == 4
        assert "no changes were saved" in given_up.text
    assert content(path) == {"model": "second"}


def test_a_failing_editor_changes_nothing(ask: Ask, path: Path, home: Home) -> None:
    path.write_text(COMMENTED)
    is_refused(ask("config", "edit", env=editor(home, 'echo > "$1"; exit 1')), 3)
    is_refused(ask("config", "edit", env={"VISUAL": "/no/such/editor"}), 3, "set VISUAL", "editor (No such file")
    is_refused(ask("config", "edit", env={"VISUAL": "vim 'x"}), 3, "set VISUAL", "No closing quotation")
    is_refused(ask("config", "edit", env=editor(home, 'rm "$1"')), 9, "cannot read the edited text")
    assert path.read_text() == COMMENTED


def test_concurrent_changes_during_an_edit_are_not_lost(ask: Ask, path: Path, home: Home) -> None:
    env = editor(home, 'ask config set max_rounds 9; echo "max_rounds = 8" > "$1"')
    is_refused(ask("config", "edit", env=env), 4, f"{path}.edited")
    assert (content(path), Path(f"{path}.edited").read_text()) == ({"max_rounds": 9}, "max_rounds = 8\n")


def test_the_editor_command_can_have_arguments(home: Home, ask: Ask) -> None:
    result = run(["bash", "-c", "EDITOR='tee -a' ask config edit <<< 'max_rounds = 6'"], env=ask.env, cwd=home.work)
    assert (result.code, result.stderr) == (0, "")
    assert content(home.config / "config.toml") == {"max_rounds": 6}


# Arguments


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["of", "rome"], "ask -- config"),
        (["path", "x"], "ask -- config"),
        (["set", "a", "b", "c"], "ask -- config"),
        (["set", "model"], "VALUE is missing"),
        (["get"], "KEY is missing"),
    ],
)
def test_invalid_arguments_are_a_usage_error(ask: Ask, arguments: list[str], hint: str) -> None:
    is_refused(ask("config", *arguments), 2, "--help", hint)


# The keys


def test_every_key_sets_the_field_that_has_its_default() -> None:
    examples: dict[Any, Any] = {str: "x", Literal: "brave", int: 7, float: 77, bool: None, list: ["x"]}
    for key, setting in SETTINGS.items():
        value = examples[get_kind(setting.type)]
        value = not get_default_value(key) if value is None else value
        section, _, name = key.rpartition(".")
        table = {"enabled": False, name: value} if key == "safe.level" else {name: value}  # it would enable safe mode
        config = Config({section: table} if section else table)
        changed = resolve_settings(RunOptions(), {}, config)
        differing = [field for field in Settings._fields if getattr(changed, field) != getattr(Settings(), field)]
        assert key in ("provider", "model") or [get_default_value(key)] == [
            getattr(Settings(), one) for one in differing
        ]


@given(
    st.sampled_from([*SETTINGS, "aliases.x", "options.x", *(f"providers.a.{name}" for name in PROVIDER_KEYS)]),
    st.data(),
)
def test_formatted_values_parse_to_the_same_value(key: str, data: st.DataObject) -> None:
    found = parse_key(key)
    examples = {
        str: st.text(),
        int: st.integers(1, 1_000_000),
        float: st.floats(0.001, 1e6),
        bool: st.booleans(),
        list: st.lists(st.text(), max_size=3),
        Literal: st.sampled_from(get_args(found.type) or ("",)),
        Mapping: st.dictionaries(st.text(), st.text()),
        BaseUrls: st.one_of(st.text(), st.lists(st.sampled_from(["http://a/v1", "https://b"]), min_size=1)),
    }
    if key == "skills.folders":
        examples[list] = st.lists(st.text().map("/{}".format), max_size=3)
    kinds = (get_kind(found.type),) if found.type else (str, int, list, bool)
    value = data.draw(st.one_of([examples[kind] for kind in kinds]))
    assert parse_value(found, format_value(key, value)) == value
