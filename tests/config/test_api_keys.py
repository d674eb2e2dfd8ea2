"""API keys: stored privately, never shown, and redacted everywhere."""

from __future__ import annotations

import stat
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.config.key_repair import find_key_problem, repair_key
from ask.config.key_store import KEY_COMMAND, KeyStore, format_variable_prefix, list_key_variables
from ask.config.redaction import REDACTED, is_word
from ask.config.secrets import VENDOR_NAMES, Secrets
from ask.errors import ConfigError, FileError
from tests.program import Ask, Home, Running

KEY = "sk-or-0123456789"
OTHER = "sk-other-9876543210"


def store(path: Path, **environment: str) -> KeyStore:
    return KeyStore(path / "ask" / "keys.toml", environment)


def secrets(*values: str, names: tuple[str, ...] = (), variables: tuple[str, ...] = (), **environment: str) -> Secrets:
    return Secrets(names, variables, values, environment)


# Storage


def test_saving_and_removing_a_key_keeps_the_others(tmp_path: Path) -> None:
    keys = store(tmp_path)
    keys.save("a", KEY)
    keys.save("b", OTHER)
    keys.save("a", "new-" + KEY)
    assert keys.read_saved_keys() == {"a": "new-" + KEY, "b": OTHER}
    keys.save("a", "")
    assert keys.read_saved_keys() == {"b": OTHER}
    assert [path.name for path in keys.path.parent.iterdir()] == ["keys.toml"]


def test_saved_keys_are_read_once_until_they_are_reloaded(tmp_path: Path) -> None:
    keys = store(tmp_path)
    store(tmp_path).save("a", KEY)
    assert keys.find("a") == (KEY, str(keys.path))
    store(tmp_path).save("a", OTHER)
    store(tmp_path).save("b", OTHER)
    assert keys.list_known_keys() == [KEY]
    assert keys.find("b") == ("", "")
    keys.reload()
    assert keys.find("b") == (OTHER, str(keys.path))
    keys.save("b", KEY)
    assert keys.find("b") == (KEY, str(keys.path))


def test_the_file_and_its_folder_become_private_even_if_the_file_was_not(tmp_path: Path) -> None:
    keys = store(tmp_path)
    keys.save("a", KEY)
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(keys.path.parent.stat().st_mode) == 0o700
    keys.path.chmod(0o644)
    keys.save("b", OTHER)
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["a.b", 'a"b', "ä", "", "a b", "[x]"])
@pytest.mark.parametrize("key", ["a'b\"c\\d\n\te", "ключ", '"""', "#x"])
def test_any_name_and_key_are_read_back_unchanged(tmp_path: Path, name: str, key: str) -> None:
    keys = store(tmp_path)
    keys.save(name, key)
    assert store(tmp_path).read_saved_keys() == {name: key}


def test_an_unwritable_file_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "ask").write_text("not a folder")
    with pytest.raises(FileError, match=r"cannot write .*/ask"):
        store(tmp_path).save("a", KEY)


@pytest.mark.parametrize("text", ["a = 5", "a = { keyring = false }", "[a]\nb = 'c'", "a = ['b']", "a = "])
def test_a_file_with_anything_but_keys_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    keys = store(tmp_path)
    keys.path.parent.mkdir()
    keys.path.write_text(text)
    with pytest.raises(ConfigError, match=r"ask/keys.toml"):
        keys.find("a")


@pytest.mark.parametrize("entry", ["openai = 5", "[openai]\nkey = 'sk-of-a-table'"])
def test_an_invalid_entry_is_an_error_only_when_it_is_used(entry: str, ask: Ask, home: Home) -> None:
    home.config.mkdir(exist_ok=True)
    file = home.config / "keys.toml"
    file.write_text(f"xai = '{KEY}'\n{entry}\n")
    result = ask("-p", "demo", "run echo sk-of-a-table")
    assert (result.code, "sk-of-a-table" in result.text) == (0, "table" not in entry)
    assert ask("providers").code == 0
    failed = ask("-p", "openai", "hi")
    assert (failed.code, "ask keys set openai" in failed.stderr) == (4, True)
    invalid = tomllib.loads(entry)
    assert ask("keys", "set", "xai", stdin=b"sk-another-key").code == 0
    assert tomllib.loads(file.read_text()) == {"xai": "sk-another-key"} | invalid
    assert {"openai", "xai"} <= {line.split("\t")[0] for line in ask("keys").text.splitlines()}
    assert ask("keys", "set", "openai", stdin=b"sk-valid-key").code == 0
    assert tomllib.loads(file.read_text()) == {"xai": "sk-another-key", "openai": "sk-valid-key"}
    file.write_text(f"xai = '{KEY}'\n{entry}\n")
    assert ask("keys", "remove", "openai").code == 0
    assert tomllib.loads(file.read_text()) == {"xai": KEY}


@pytest.mark.slow
def test_concurrent_changes_never_corrupt_the_file(tmp_path: Path) -> None:
    keys = store(tmp_path)
    code = """
import sys
from pathlib import Path
from ask.config.key_store import KeyStore
for number in range(40):
    KeyStore(Path(sys.argv[1]), {}).save(sys.argv[2], f"key-{number}")
"""
    writers = [Running([sys.executable, "-c", code, str(keys.path), name]) for name in ("a", "b", "c")]
    while any(writer.process.poll() is None for writer in writers):
        assert all(str(value).startswith("key-") for value in keys.read_saved_keys().values())
    for writer in writers:
        with writer:
            assert (writer.finish().code, bytes(writer.stderr)) == (0, b"")
    assert "key-39" in keys.read_saved_keys().values()
    assert [path.name for path in keys.path.parent.iterdir()] == ["keys.toml"]


# Lookup


def test_keys_are_looked_up_in_provider_variables_then_standard_ones_then_the_file(tmp_path: Path) -> None:
    keys = store(tmp_path)
    keys.save("my-ai", "stored")
    order = {"OWN": "1", "OWN_TOO": "2", "MY_AI_API_KEY": "3", "AI_MY_AI_API_KEY": "4"}
    while order:
        variable, value = next(iter(order.items()))
        assert store(tmp_path, **order).find("my-ai", ("OWN", "OWN_TOO")) == (value, variable)
        del order[variable]
    assert keys.find("my-ai", ("OWN", "OWN_TOO")) == ("stored", str(keys.path))
    assert keys.find("other") == ("", "")


def test_an_empty_variable_is_ignored_and_keys_are_stripped(tmp_path: Path) -> None:
    keys = store(tmp_path, A_API_KEY="  ", AI_A_API_KEY=f" {KEY}\n")
    assert keys.find("a") == (KEY, "AI_A_API_KEY")


def test_a_key_command_comes_after_variables_and_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    commands = {"a": {"key_command": f"echo {KEY}"}}
    KeyStore(path, {}).save("a", OTHER)
    assert KeyStore(path, {"A_API_KEY": "1"}, commands).find("a") == ("1", "A_API_KEY")
    assert KeyStore(path, {}, commands).find("a") == (KEY, KEY_COMMAND)
    others = {"a": {"key_command": " "}, "b": {"key_command": "false"}}
    assert KeyStore(path, {}, others).find("a") == (OTHER, str(path))


def test_a_key_command_runs_once_and_only_for_the_key(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    keys = KeyStore(tmp_path / "keys.toml", {}, {"a": {"key_command": f"echo run >> {runs}; echo {KEY}"}})
    assert keys.find_origin("a") == KEY_COMMAND
    assert keys.list_known_keys() == []
    assert not runs.exists()
    assert [keys.find("a")[0] for _ in range(3)] == [KEY] * 3
    assert keys.list_known_keys() == [KEY]
    assert runs.read_text() == "run\n"


def test_variables_are_named_after_the_provider() -> None:
    assert format_variable_prefix("lm-studio") == "LM_STUDIO"
    assert list_key_variables("lm-studio") == ("LM_STUDIO_API_KEY", "AI_LM_STUDIO_API_KEY")


# Redaction


def test_the_keys_of_all_known_providers_are_redacted_whatever_their_source() -> None:
    known = secrets(
        "stored-key-1", names=("groq",), variables=("WORK",), GROQ_API_KEY=KEY, WORK=OTHER, HOME="/home/me/x"
    )
    text = f"{KEY} {OTHER}stored-key-1 /home/me/x"
    assert known.redact(text) == f"{REDACTED} {REDACTED}{REDACTED} /home/me/x"


@pytest.mark.parametrize("name", VENDOR_NAMES)
@pytest.mark.parametrize("prefix", ["", "AI_"])
def test_the_keys_of_vendors_without_an_installed_provider_are_redacted(prefix: str, name: str) -> None:
    known = Secrets([], [], [], {f"{prefix}{name}_API_KEY": KEY, "PATH": "/bin"})
    assert known.redact(f"<{KEY}>") == f"<{REDACTED}>"
    assert known.build_child_environment() == {"PATH": "/bin"}


def test_the_longest_key_is_redacted_first() -> None:
    assert secrets(KEY, KEY + "-and-more").redact(f"{KEY}-and-more {KEY}") == f"{REDACTED} {REDACTED}"


def test_short_values_are_not_redacted() -> None:
    assert secrets("1234567", "", "demo").redact("1234567 demo") == "1234567 demo"
    assert secrets("12345678").redact("12345678") == REDACTED


def test_each_of_several_keys_in_one_value_is_redacted() -> None:
    assert (
        secrets(f"{KEY}| {OTHER} |short").redact(f"{OTHER} or {KEY} or short") == f"{REDACTED} or {REDACTED} or short"
    )


def test_child_processes_get_the_environment_without_keys() -> None:
    environment = {"GROQ_API_KEY": "a", "AI_GROQ_API_KEY": "b", "WORK": "c", "GROQ_BASE_URL": "d", "PATH": "e"}
    known = Secrets(["groq"], ["WORK"], [], environment)
    assert known.build_child_environment() == {"GROQ_BASE_URL": "d", "PATH": "e"}
    assert len(environment) == 5


@given(text=st.text(), keys=st.lists(st.text(alphabet="ab1|", max_size=20)), place=st.integers(0, 100))
def test_redacted_text_never_contains_a_key(text: str, keys: list[str], place: int) -> None:
    known = secrets(*keys)
    parts = [part for key in keys for part in key.split("|") if len(part) >= 8]
    redacted = known.redact(text[:place] + "".join(parts) + text[place:])
    assert not any(part in redacted for part in parts if not is_word(part))


# Command line


def test_keys_can_be_set_listed_used_and_removed_without_being_printed(ask: Ask, home: Home) -> None:
    none = {"OPENROUTER_API_KEY": ""}
    shown = []
    shown.append(ask("keys", "set", "openrouter", stdin=f"{KEY}\n".encode(), env=none))
    assert tomllib.loads((home.config / "keys.toml").read_text()) == {"openrouter": KEY}
    listing = ask("keys", "list", env=none)
    assert listing.text == f"openrouter\t{home.config}/keys.toml\n"
    shown += [listing, ask("keys", "list", "--json", env=none), ask("providers", env=none), ask("keys", "list")]
    assert shown[-1].text == "openrouter\tOPENROUTER_API_KEY\n"
    shown.append(ask("keys", "remove", "openrouter", env=none))
    assert [result.code for result in shown] == [0] * len(shown)
    assert not any(KEY in result.text + result.stderr for result in shown)
    assert ask("keys", "list", env=none).text == ""
    again = ask("keys", "remove", "openrouter")
    assert again.code == 4
    assert again.stderr.count("\n") == 1


def test_a_typed_key_is_not_echoed(ask: Ask, home: Home) -> None:
    result = ask.on_terminal("keys", "set", "openrouter", answers=[("Key for openrouter:", f"{KEY}\n")])
    assert result.code == 0
    assert KEY not in result.text
    assert tomllib.loads((home.config / "keys.toml").read_text()) == {"openrouter": KEY}


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "expected"),
    [
        (["set", "openroter"], b"x\n", 4, "did you mean openrouter?"),
        (["set", "openrouter"], b"", 2, "no key entered"),
        (["set", "openrouter"], b" \n", 2, "no key entered"),
        (["set"], b"", 2, "PROVIDER is missing"),
        (["remove", "groq"], b"", 4, "there is no saved key for groq"),
        (["to", "the", "kingdom"], b"", 2, "ask -- keys to the kingdom"),
    ],
)
def test_invalid_input_is_a_one_line_error(
    ask: Ask, home: Home, *, arguments: list[str], stdin: bytes, code: int, expected: str
) -> None:
    result = ask("keys", *arguments, stdin=stdin)
    assert result.code == code
    assert expected in result.stderr
    assert result.stderr.count("\n") == 1
    assert not home.config.exists()


SAVED_KEY = "sk-Ab_9+/c.d:e#f=="
"""With characters that also separate keys from what is copied with them."""


@pytest.mark.parametrize(
    "text",
    [
        '"{}"',
        "'{}'",
        "“{}”",
        "`{}`",
        "Bearer {}",
        "Authorization: Bearer {}",
        "x-api-key: {}",
        "OPENAI_API_KEY={}",
        "export OPENAI_API_KEY='{}'",
        "export OPENAI_API_KEY={};",
        '$env:OPENAI_API_KEY = "{}"',
        "OPENAI_API_KEY: {}",
        '"OPENAI_API_KEY": "{}",',
        'apiKey: "{}",',
        "{}  # work",
        "\ufeff{}\u200b",
        "\xa0{}\r",
        "{}",
    ],
)
def test_what_is_copied_with_a_key_is_removed(text: str) -> None:
    keys = text.format(SAVED_KEY)
    assert repair_key(keys)[0] == SAVED_KEY
    assert repair_key(f"{keys}|{keys}")[0] == f"{SAVED_KEY}|{SAVED_KEY}"
    assert (find_key_problem(keys.strip()) == "") == (keys.strip() == SAVED_KEY)


@given(st.text("".join(map(chr, range(33, 127))), min_size=1).filter(lambda key: key[-1:].isalnum()), st.integers(0, 2))
def test_a_random_key_is_never_damaged(key: str, padding: int) -> None:
    """Base64 ends with "=", and some keys contain a user name, a colon or a number sign."""
    key = "sk-" + key.replace("|", "-") + "=" * padding
    assert repair_key(key) == (key, [])
    assert find_key_problem(key) == ""
