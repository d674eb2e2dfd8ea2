"""The configuration of servers: config.toml, JSON files of other programs, and environment variables."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.config.config_file import Config, check_config
from ask.config.mcp_servers import (
    SERVER_NAME_PATTERN,
    ServerConfig,
    check_server_tables,
    parse_server_table,
)
from ask.errors import ConfigError
from ask.mcp.server_config import (
    expand_variables,
    find_servers,
    normalize_server_name,
    read_servers,
    starts_in_empty_folder,
    to_server_table,
)
from ask.mcp.tool_listing import ToolListing, select_tools
from tests.mcp.values import json_values

PATH = Path("config.toml")
WHOLE: dict[str, Any] = {
    "command": "npx",
    "args": ["-y", "it"],
    "env": {"A": "$B"},
    "cwd": "~/x",
    "timeout": 30,
    "enabled": False,
    "tools": ["one"],
}


def checked(table: Any, name: str = "one") -> list[str]:
    return check_config(PATH, {"mcp": {"servers": {name: table}}})


@pytest.mark.parametrize(
    "table", [WHOLE, {"url": "https://x/", "headers": {"A": "b"}, "type": "sse"}, {"enabled": False}]
)
def test_a_table_survives_reading_and_writing(table: dict[str, Any]) -> None:
    assert checked(table) == []
    assert to_server_table(parse_server_table("one", table, PATH)) == {
        **table,
        **({"type": "sse"} if "url" in table else {}),
    }


def test_an_unknown_key_is_a_warning_with_a_suggestion() -> None:
    [warning] = checked({"command": "x", "arg": []})
    assert {"arg", "args", "mcp.servers.one"} <= set(re.findall(r"[\w.]+", warning))
    assert warning.startswith("config.toml: ")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, ["command", "URL"]),
        ({"command": "x", "url": "http://x"}, ["command", "URL"]),
        ({"command": ["x"]}, ["mcp.servers.one.command", "string"]),
        ({"command": "x", "args": "y"}, ["mcp.servers.one.args", "list"]),
        ({"command": "x", "env": {"A": 1}}, ["mcp.servers.one.env.A", "string"]),
        ({"command": "x", "timeout": 0}, ["mcp.servers.one.timeout", "number"]),
        ({"command": "x", "timeout": float("nan")}, ["mcp.servers.one.timeout", "number"]),
        ({"command": "x", "enabled": 1}, ["mcp.servers.one.enabled", "true", "false"]),
        ({"command": "x", "type": "http"}, ["command", "type", "stdio"]),
        ({"url": "http://x", "type": "stdio"}, ["URL", "type", "http", "sse"]),
        ({"url": "file:///x"}, ["mcp.servers.one.url", "http://", "https://"]),
        ({"url": "http://[::1/mcp"}, ["mcp.servers.one.url", "URL"]),
        ({"command": "x", "args": ["y", 1]}, ["mcp.servers.one.args[1]", "string"]),
        ({"url": "http://x", "oauth": {"scope": 1}}, ["mcp.servers.one.oauth.scope", "string"]),
        ({"url": "http://x", "oauth": {"grant_type": "x"}}, ["mcp.servers.one.oauth.grant_type", "client_credentials"]),
        (5, ["table"]),
    ],
)
def test_an_invalid_table_is_refused(table: Any, words: Sequence[str]) -> None:
    with pytest.raises(ConfigError) as error:
        checked(table)
    message = error.value.message
    assert str(PATH) in message
    assert all(word in message for word in ["mcp.servers.one", *words]), message


@pytest.mark.parametrize("name", ["a b", "", "a__b", "ä", "x" * 33, "a.b"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError) as error:
        checked(WHOLE, name)
    assert repr(name) in error.value.message


def test_no_secret_is_in_an_error() -> None:
    for table in (
        {"command": "x", "env": {"A": 1, "B": "hush"}},
        {"url": "hush"},
        {"url": "http://x", "headers": ["hush"]},
        {"url": "http://x", "headers": {"A": ["hush"]}},
        {"url": "http://x", "oauth": {"client_secret": ["hush"]}},
    ):
        with pytest.raises(ConfigError) as error:
            checked(table)
        assert "hush" not in str(error.value)


@given(json_values())
def test_any_table_is_read_or_refused(value: Any) -> None:
    for servers in (value, {"one": value}, {"one": {"command": "x", "env": value, "args": value}}):
        try:
            check_server_tables(PATH, servers)
        except ConfigError:
            continue
        for name, table in servers.items():
            assert parse_server_table(name, table, PATH).name == name


# JSON files


def read(tmp_path: Path, text: str) -> dict[str, ServerConfig]:
    file = tmp_path / "mcp.json"
    file.write_text(text)
    return dict(read_servers(file).servers)


def test_the_format_of_claude_and_cursor(tmp_path: Path) -> None:
    entries = {
        "fs": {
            "command": "npx",
            "args": ["-y", "fs", "/tmp"],
            "env": {"PORT": 5},
            "alwaysAllow": ["x"],
            "timeout": 60_000,
        },
        "web": {"type": "http", "url": "https://x/mcp", "headers": {"Authorization": "Bearer ${T}"}},
        "old": {"type": "sse", "url": "https://x/sse", "disabled": True},
        "wind": {"serverUrl": "https://x/", "tools": ["*"]},
        "some": {"command": "x", "type": "stdio", "tools": ["a"]},
        "port": {"command": "x", "args": ["--port", 3000], "url": "", "cwd": ""},
        "cline": {"transportType": "sse", "url": "https://x/sse"},
        "open": {"type": "remote", "url": "https://x/mcp"},
        "copilot": {"type": "local", "command": "x", "tools": ["*"], "transport": {}},
    }
    servers = read(tmp_path, json.dumps({"mcpServers": entries}))
    origin = tmp_path / "mcp.json"
    assert list(servers.values()) == [
        ServerConfig("fs", origin, command="npx", args=("-y", "fs", "/tmp"), env={"PORT": "5"}),
        ServerConfig("web", origin, "http", url="https://x/mcp", headers={"Authorization": "Bearer ${T}"}),
        ServerConfig("old", origin, "sse", url="https://x/sse", enabled=False),
        ServerConfig("wind", origin, "http", url="https://x/"),
        ServerConfig("some", origin, command="x", tools=("a",)),
        ServerConfig("port", origin, command="x", args=("--port", "3000")),
        ServerConfig("cline", origin, "sse", url="https://x/sse"),
        ServerConfig("open", origin, "http", url="https://x/mcp"),
        ServerConfig("copilot", origin, command="x"),
    ]


def test_the_format_of_vs_code_with_comments_and_trailing_commas(tmp_path: Path) -> None:
    text = """{ // of mine
      "inputs": [], /* none */
      "servers": {"a": {"type": "stdio", "command": "x", "args": ["// no comment", "a,]", "/* nor */",], }, },
    }"""
    assert read(tmp_path, text)["a"].args == ("// no comment", "a,]", "/* nor */")


def test_the_format_of_opencode(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text(
        json.dumps(
            {
                "$schema": "https://opencode.ai/config.json",
                "mcp": {
                    "git": {
                        "type": "local",
                        "command": ["uvx", "mcp-server-git", "--depth", 3],
                        "environment": {"LEVEL": 1, "DEBUG": True},
                        "enabled": False,
                        "timeout": 5000,
                    },
                    "docs": {"type": "remote", "url": "https://docs.example/mcp", "headers": {"X-Team": "blue"}},
                },
            }
        )
    )
    servers, warnings = read_servers(tmp_path / "mcp.json")
    origin = tmp_path / "mcp.json"
    arguments, environment = ("mcp-server-git", "--depth", "3"), {"LEVEL": "1", "DEBUG": "true"}
    assert servers == {
        "git": ServerConfig("git", origin, command="uvx", args=arguments, env=environment, enabled=False),
        "docs": ServerConfig("docs", origin, "http", url="https://docs.example/mcp", headers={"X-Team": "blue"}),
    }
    assert not warnings


def test_the_settings_of_vs_code(tmp_path: Path) -> None:
    settings = {"editor.tabSize": 2, "mcp": {"inputs": [], "servers": {"git": {"command": "uvx"}}}}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    servers, warnings = read_servers(tmp_path / "settings.json")
    assert (servers["git"].command, len(servers), warnings) == ("uvx", 1, [])


def test_the_settings_of_zed(tmp_path: Path) -> None:
    text = """{
      // https://zed.dev/docs/ai/mcp
      "theme": "One Dark",
      "context_servers": {
        "new": {"source": "custom", "enabled": false, "command": "uvx", "args": ["a"], "env": {"K": "v"}},
        "old": {"source": "custom", "command": {"path": "npx", "args": ["b"], "env": null}, "settings": {}},
        "remote": {"url": "https://example.com/mcp", "headers": {"A": "b"}},
        "extension": {"source": "extension", "settings": {}},
      },
    }"""
    file = tmp_path / "settings.json"
    file.write_text(text)
    found = read_servers(file)
    assert {name: to_server_table(server) for name, server in found.servers.items()} == {
        "new": {"enabled": False, "command": "uvx", "args": ["a"], "env": {"K": "v"}},
        "old": {"command": "npx", "args": ["b"]},
        "remote": {"url": "https://example.com/mcp", "headers": {"A": "b"}},
    }
    assert len(found.warnings) == 1


@pytest.mark.parametrize("key", ["disabled_tools", "disabledTools", "excludeTools"])
def test_tools_that_another_program_turns_off_are_not_offered(tmp_path: Path, key: str) -> None:
    file = tmp_path / "mcp.json"
    values = {"list": ["a"], "empty": [], "null": None, "pattern": ["a_*"], "text": "a", "call": ["run(ls)"], "no": [1]}
    file.write_text(json.dumps({"mcpServers": {name: {"command": "x", key: value} for name, value in values.items()}}))
    found = read_servers(file)
    assert {name: server.disabled_tools for name, server in found.servers.items()} == {
        "list": ("a",),
        "empty": (),
        "null": (),
    }
    assert [warning.split(" ")[1].split(".")[2] for warning in found.warnings] == ["pattern", "text", "call", "no"]


@pytest.mark.parametrize("key", ["tools", "enabled_tools", "includeTools"])
def test_an_empty_list_of_tools_means_none(tmp_path: Path, key: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"none": {"command": "x", key: []}, "all": {"command": "x", key: None}}}))
    found = read_servers(file)
    assert {name: server.tools for name, server in found.servers.items()} == {"none": (), "all": None}
    assert ([to_server_table(server).get("tools") for server in found.servers.values()], len(found.warnings)) == (
        [[], None],
        1,
    )
    listings = [ToolListing(name, "", {}) for name in "abc"]
    assert [[tool.name for tool in select_tools(server, listings).tools] for server in found.servers.values()] == [
        [],
        ["a", "b", "c"],
    ]
    some = found.servers["all"]._replace(tools=("a", "b"), disabled_tools=("b",))
    assert [tool.name for tool in select_tools(some, listings).tools] == ["a"]


# https://github.com/damianvtran/local-operator/issues/367, https://github.com/1jehuang/jcode/issues/1327
def test_the_configuration_of_codex(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("""model = "gpt-5.5"
[mcp_servers.program]
command = "npx"
args = ["-y", "server"]
env = { K = "v", VERSION = 2025-06-18 }
startup_timeout_sec = 20
enabled_tools = ["one"]
tools.one.approval_mode = "approve"
[mcp_servers.off]
command = "x"
tools.two.approval_mode = "approve"
enabled = false
[mcp_servers.remote]
url = "https://example.com/mcp"
bearer_token_env_var = "TOKEN"
http_headers = { A = "b" }
env_http_headers = { C = "D" }
""")
    found = read_servers(file)
    assert {name: to_server_table(server) for name, server in found.servers.items()} == {
        "program": {
            "command": "npx",
            "args": ["-y", "server"],
            "env": {"K": "v", "VERSION": "2025-06-18"},
            "tools": ["one"],
        },
        "off": {"command": "x", "enabled": False},
        "remote": {
            "url": "https://example.com/mcp",
            "headers": {"A": "b", "C": "${D}", "Authorization": "Bearer ${TOKEN}"},
        },
    }
    assert found.warnings == []
    file.write_text("[mcp_servers")
    with pytest.raises(ConfigError, match="TOML"):
        read_servers(file)


def test_variables_of_opencode_are_those_of_ask(tmp_path: Path) -> None:
    headers = {"A": "Bearer {env:KEY}", "B": "${env:B}"}
    entries = {
        "remote": {"type": "remote", "url": "https://example.com/?key={env:KEY}", "headers": headers},
        "local": {"type": "local", "command": ["{env:HOME}/x", "--key={env:KEY}"]},
    }
    (tmp_path / "opencode.json").write_text(json.dumps({"mcp": entries}))
    found = read_servers(tmp_path / "opencode.json").servers
    assert found["remote"].headers == {"A": "Bearer ${KEY}", "B": "${env:B}"}
    assert found["remote"].url == "https://example.com/?key=${KEY}"
    assert (found["local"].command, found["local"].args) == ("${HOME}/x", ("--key=${KEY}",))


def test_numbers_among_the_arguments_are_texts(tmp_path: Path) -> None:
    entry = {"command": "npx", "args": ["-y", "server", "--port", 8080, 0.5]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"a": entry}}))
    assert read_servers(tmp_path / "mcp.json").servers["a"].args == ("-y", "server", "--port", "8080", "0.5")


def test_an_invalid_entry_is_left_out_with_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    entries = {"bad": {"args": []}, "good": {"command": "x"}, "a b": {"command": "y"}, "a.b": {"command": "z"}}
    file.write_text(json.dumps({"mcpServers": entries}))
    found = read_servers(file)
    assert list(found.servers) == ["good", "a_b"]
    without_command, same_name = found.warnings
    assert without_command.startswith(f"{file}: mcp.servers.bad ")
    assert same_name.startswith(f"{file}: ")
    assert "'a.b'" in same_name
    assert "a_b" in same_name


def test_a_file_that_powershell_wrote_is_read(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_bytes('{"mcpServers": {"one": {"command": "größe"}}}\r\n'.encode("utf-16"))
    assert read_servers(file).servers["one"].command == "größe"


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "{}", '{"mcpServers": 5}', "[" * 100_000, "\xff", '{"mcpServers": {},,}']
)
def test_an_invalid_file_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        read(tmp_path, text)


@given(st.text())
def test_any_name_can_be_made_valid(name: str) -> None:
    assert re.fullmatch(SERVER_NAME_PATTERN, normalize_server_name(name))


@given(json_values())
def test_any_json_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    folder = tmp_path_factory.mktemp("json")
    for content in (value, {"mcpServers": value}, {"servers": {"x": value}}):
        try:
            found = read(folder, json.dumps(content))
        except ConfigError:
            continue
        assert all(isinstance(one, ServerConfig) for one in found.values())


# All of it


def test_config_toml_takes_precedence_then_the_folder_then_other_files(tmp_path: Path) -> None:
    def servers(*names: str, command: str) -> str:
        return json.dumps({"mcpServers": {name: {"command": command} for name in names}})

    (tmp_path / "mcp.json").write_text(servers("a", "b", command="folder"))
    (tmp_path / "other.json").write_text(servers("a", "b", "c", command="other"))
    files = ["other.json", str(tmp_path / "none.json")]
    config = Config({"mcp": {"files": files, "servers": {"a": {"command": "toml"}}}})
    found = find_servers(config, tmp_path)
    assert {name: one.command for name, one in found.servers.items()} == {"a": "toml", "b": "folder", "c": "other"}
    [warning] = found.warnings
    assert f"{tmp_path}/none.json (No such file or directory)" in warning


# Variables


def filled(**parts: Any) -> ServerConfig:
    environment = {"A": "1", "LONG_NAME": "2", "EMPTY": ""}
    return expand_variables(ServerConfig("one", PATH, **parts), environment, Path("/project"))


def test_variables_in_braces_are_expanded_everywhere_and_bare_ones_in_env_and_headers() -> None:
    text = "$A-${A}-${env:LONG_NAME}-${NO:-else}-${EMPTY}-$$A"
    server = filled(
        command="${A}", args=(text.replace("$$A", "$1"),), env={"X": text}, headers={"Y": "Bearer $LONG_NAME"}
    )
    assert server.command == "1"
    assert server.args == ("$A-1-2-else--$1",)
    assert server.env == {"X": "1-1-2-else--$A"}
    assert server.headers == {"Y": "Bearer 2"}
    assert filled(cwd="${workspaceFolder}/x").cwd == "/project/x"


@pytest.mark.parametrize(
    ("parts", "place"),
    [({"args": ("${NO}",)}, "args"), ({"env": {"X": "$NO"}}, "env.X"), ({"url": "http://${NO}"}, "url")],
)
def test_an_unset_variable_is_named(parts: dict[str, Any], place: str) -> None:
    with pytest.raises(ConfigError) as error:
        filled(**parts)
    assert {"one", place, "$NO"} <= set(re.findall(r"[\w.$]+", error.value.message))


@pytest.mark.parametrize("url", ["http://${EMPTY}/mcp", "http://[${A}/mcp]", "http://x:${A}x/mcp", "http://x:99999/"])
def test_a_url_that_is_not_valid_with_its_variables_is_named(url: str) -> None:
    with pytest.raises(ConfigError, match="url"):
        filled(url=url)


def test_white_space_around_a_header_is_removed() -> None:
    assert filled(url="http://x", headers={"X": " $A\n"}).headers == {"X": "1"}


@pytest.mark.parametrize("secret", ["to\nken", "tökén"])
def test_a_header_that_cannot_be_sent_is_named_without_its_value(secret: str) -> None:
    with pytest.raises(ConfigError) as error:
        filled(url="http://x", headers={"Authorization": f"Bearer {secret}"})
    assert "headers.Authorization" in error.value.message
    assert secret[-3:] not in str(error.value)


def test_an_input_of_vs_code_is_named() -> None:
    with pytest.raises(ConfigError, match=r"\$input:key"):
        filled(env={"X": "${input:key}"})


def test_commands_that_would_run_what_the_folder_contains_are_recognized(tmp_path: Path) -> None:
    """Each starts in an empty folder: `npx` and the like, also after other programs and options."""
    runs_from_folder = """
        env -u X npx -y notes
        timeout -k 5 10 npx -y notes
        nice -n 5 nohup npx -y notes
        sudo -u ann npx -y notes
        arch -arm64 npx -y notes
        op run -- npx -y notes
        mise x node@22 -- npx -y notes
        sh -c 'if true; then npx -y notes; fi'
        sh -c '. ~/.nvm/nvm.sh && npx -y notes'
        timeout 5 sh -c 'exec nice npx -y notes'
        npm -y exec notes
        uv -q --color never run notes
        python3 -um notes
        deno run -A npm:notes
        dnx Notes@1.0 --yes
        npx -y notes --project my-notes
    """
    starts_in_the_folder = """
        docker compose run web npx notes
        poetry run -- python3 -m notes
        npm run exec
        notes --runner npx
        timeout 5 notes
        timeout 5 ./notes npx
        sudo -u ann bin/notes npx
        python3 /srv/server.py -um notes
        nice deno run -A server.ts
        op run --env-file=.env -- npx -y notes
        poetry run -- python -m notes
        flox activate -- npx -y notes
        uv --directory server run python -m notes
        uv --directory server run -- python -m notes
        uv run --project=server -- python -m notes
        env
    """
    for lines, expected in ((runs_from_folder, True), (starts_in_the_folder, False)):
        for line in lines.strip().splitlines():
            command, *arguments = shlex.split(line)
            server = ServerConfig("notes", PATH, command=command, args=tuple(arguments))
            assert starts_in_empty_folder(server, tmp_path) is expected, line
