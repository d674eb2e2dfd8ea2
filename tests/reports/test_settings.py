"""Reports about settings, files of the user and the environment: one that is invalid costs nothing else."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path

import pytest

from ask import ModelInfo
from ask.client.certificates import CaBundle, create_ssl_context
from ask.client.models_cache import read_models
from ask.errors import ConfigError
from tests import wire
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home
from tests.raw_server import make_certificate
from tests.third_party_plugins import install_provider


@pytest.fixture
def ask(home: Home, server: ModelServer) -> Ask:
    """With a key for openrouter and no other provider."""
    return Ask({**home.env, "OPENROUTER_API_KEY": TEST_KEY, "OPENROUTER_BASE_URL": server.base_url}, home.work)


@pytest.fixture
def demo(home: Home) -> Ask:
    return Ask({**home.env, "ASK_PROVIDER": "demo"}, home.work)


# config.toml

INVALID_ENTRIES = [
    ("providers.bad", "[providers.bad]\nbase_url = 5\n"),
    ("providers.bad", "[providers]\nbad = 5\n"),
    ("providers.bad", "[providers.bad]\nmodels = [{}]\n"),
    ("aliases.bad", "[aliases]\nbad = 5\n"),
    ("mcp.servers.bad", "[mcp.servers.bad]\ncommand = 5\n"),
    ("mcp.servers.bad", '[mcp.servers.bad]\nurl = "ftp://x"\n'),
    ("mcp.servers.bad", "[mcp.servers]\nbad = []\n"),
]


# https://github.com/openai/codex/pull/21111: one invalid value makes the whole configuration unusable
# https://github.com/NousResearch/hermes-agent/pull/33405: one malformed MCP server, and nothing starts
@pytest.mark.slow_after_first
@pytest.mark.parametrize(("key", "entry"), INVALID_ENTRIES)
def test_an_invalid_entry_of_the_configuration_is_left_out(key: str, entry: str, demo: Ask, home: Home) -> None:
    home.configure(entry)
    result = demo("run echo ok")
    assert (result.code, "ok" in result.text) == (0, True), result.stderr
    assert sum(key in line for line in result.stderr.splitlines()) == 1
    assert demo("config", "set", "model", "demo").code == 0
    assert demo("providers").code == 0
    assert any(line.startswith("problem\tconfig.toml") and key in line for line in demo("doctor").text.splitlines())


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('[providers.openai]\nbase_url = "http://127.0.0.1:1"\nkey_env = 5\n', ["-p", "openai"]),
        ("[providers.bad]\nbase_url = 5\n", ["-p", "bad"]),
        ("[aliases]\nbad = 5\n", ["-m", "bad"]),
    ],
)
def test_an_invalid_entry_that_is_used_is_an_error(text: str, arguments: list[str], demo: Ask, home: Home) -> None:
    """Without its table, a request could go to another address than the user chose."""
    home.configure(text)
    result = demo(*arguments, "hi", env={"OPENAI_API_KEY": TEST_KEY})
    assert (result.code, "it is 5" in result.stderr) == (4, True)


@pytest.mark.parametrize("name", ["bad2", "bad.2"])
def test_an_entry_whose_name_begins_like_an_invalid_one_can_be_set(name: str, demo: Ask, home: Home) -> None:
    home.configure("[aliases]\nbad = 5\n")
    result = demo("config", "set", f'aliases."{name}"', "openai:gpt-4o")
    assert result.code == 0, result.stderr
    assert "bad must be" in demo("hi").stderr


@pytest.mark.parametrize("text", ['[tools]\ndeny = "rm"\n', "[safe]\nenabled = 1\n", 'model = ["a"]\n'])
def test_an_invalid_setting_stays_an_error(text: str, demo: Ask, home: Home) -> None:
    """It may be a restriction (https://github.com/jin-bo/agentao/pull/180: fail closed)."""
    home.configure(text)
    assert demo("hi").code == 4


# Templates


# https://github.com/MemPalace/mempalace/issues/2221: a named pipe among the files, and the command never ends
def test_a_named_pipe_is_no_template(demo: Ask, home: Home) -> None:
    folder = home.config / "templates"
    folder.mkdir(parents=True)
    (folder / "good.md").write_text("run echo ok")
    os.mkfifo(folder / "pipe.md")
    (folder / "folder.md").mkdir()
    (folder / "loop.md").symlink_to("loop.md")
    (folder / "latin.md").write_bytes(b"\xff")
    result = demo("templates", "--json")
    assert (result.code, "good" in [row["name"] for row in json.loads(result.text)]) == (0, True)
    assert all(f"{name}.md" in result.stderr for name in ("pipe", "folder", "loop", "latin"))
    assert demo("-t", "good").code == 0
    assert demo("-t", "pipe").code == 4


# Files that outlive a run


# https://github.com/aaif-goose/goose/pull/10997: with such a umask, a log is created that the next run cannot open
@pytest.mark.slow
def test_files_can_be_opened_again_whatever_the_umask(demo: Ask, home: Home) -> None:
    (home.work / "rows.txt").write_text("one\n")
    asks = ("ask 'write a.txt with x'", "ask map say rows.txt -O out.jsonl", "ask undo -y")
    result = demo.shell(f"umask 0777; {'; '.join(asks)}")
    assert result.code == 0, result.stderr
    folders = (home.data, home.path / "cache")
    private = [path for folder in folders for path in folder.rglob("*") if path.name != ".pruned"]  # is never opened
    assert {path.name for path in private} >= {"audit.jsonl", "history.db", "map.db", "map.lock"}
    unusable = [path for path in private if stat.S_IMODE(path.stat().st_mode) & 0o600 != 0o600]
    assert unusable == []


# https://github.com/openai/codex/issues/39291: a newer version writes another field, and older ones reject the cache
# https://github.com/anomalyco/opencode/pull/30947: a damaged cache of models stops everything
def test_one_odd_entry_of_a_cached_models_list_is_left_out(tmp_path: Path) -> None:
    odd = [{"id": "newer", "unknown": 1}, {"id": 5}, None, {"title": "x"}, {"id": "odd", "input_price": "free"}]
    file = tmp_path / "list.json"
    file.write_text(json.dumps({"time": time.time(), "models": [*odd, {"id": "sound", "efforts": ["low"]}]}))
    expected = (ModelInfo("newer"), ModelInfo("odd"), ModelInfo("sound", efforts=("low",)))
    assert read_models(file).models == expected


# Network


# https://github.com/elixir-lang/elixir_make/pull/95, https://github.com/phoenixframework/esbuild/issues/80
@pytest.mark.parametrize("value", ["", " ", "\t"])
def test_a_blank_proxy_is_no_proxy(value: str, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    result = ask("-p", "openrouter", "hi", env={"http_proxy": value, "HTTP_PROXY": value, "ALL_PROXY": value})
    assert (result.code, result.text) == (0, "Hello.\n"), result.stderr


# https://github.com/MoonshotAI/kimi-cli/issues/1959: an IPv6 network in NO_PROXY, and nothing starts
@pytest.mark.parametrize(
    "entries", ["::1,fd00::/8,[::1],127.0.0.1", "10.0.0.0/abc,fe80::/xx,127.0.0.1", " ,//, http://x,;,127.0.0.1", "*"]
)
def test_an_odd_entry_of_no_proxy_does_not_disable_the_others(entries: str, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    result = ask("-p", "openrouter", "hi", env={"no_proxy": entries, "http_proxy": "http://127.0.0.1:1"})
    assert (result.code, result.text) == (0, "Hello.\n"), result.stderr
    assert ask("-p", "openrouter", "hi", env={"http_proxy": "http://127.0.0.1:1"}).code == 5, "the control"


def test_an_invalid_proxy_for_other_requests_is_ignored(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    assert ask("-p", "openrouter", "hi", env={"https_proxy": "http://[broken", "ftp_proxy": "::"}).text == "Hello.\n"


# https://github.com/openssl/openssl/issues/16701: one bad certificate, no certificate is loaded, and no word which
@pytest.mark.parametrize("joint", ["\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ""])
def test_an_invalid_certificate_in_a_bundle_is_named(joint: str, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path).path.read_text()
    pem = certificate[certificate.index("-----BEGIN CERTIFICATE-----") :].strip()
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(f"{pem}\n{pem}\n")
    create_ssl_context(CaBundle(str(bundle), "SSL_CERT_FILE"))
    bundle.write_text(f"{pem}\n{pem}{joint}{pem}\n")
    with pytest.raises(ConfigError, match=r"line \d+") as caught:
        create_ssl_context(CaBundle(str(bundle), "SSL_CERT_FILE"))
    assert "no certificates" not in caught.value.message


# Decisions and backups


# https://github.com/openai/codex/issues/11603: an error in one file of rules, and no rule applies
def test_an_odd_approval_is_not_applied_and_not_lost(demo: Ask, home: Home) -> None:
    home.data.mkdir()
    sound = {"scope": "tool", "value": "bash", "folder": "", "time": 1}
    odd = [5, {}, {**sound, "scope": "galaxy"}, {**sound, "time": "noon"}]
    (home.data / "approvals.json").write_text(json.dumps([*odd, sound]))
    result = demo("tools", "approvals", "--json")
    assert (result.code, [row["value"] for row in json.loads(result.text)]) == (0, ["bash"])
    assert demo("tools", "forget", json.loads(result.text)[0]["id"]).code == 0
    assert json.loads((home.data / "approvals.json").read_text()) == odd


def test_an_odd_decision_about_a_project_is_none(demo: Ask, home: Home) -> None:
    home.data.mkdir()
    decisions = {"/x": True, "/y": {"trusted": True}, "/z": {"trusted": True, "time": 1}}
    (home.data / "trusted-projects.json").write_text(json.dumps(decisions))
    (home.work / "AGENTS.md").write_text("Be nice.")
    assert demo("run echo ok").code == 0
    listed = demo("context", "list", "--json")
    assert [row["project"] for row in json.loads(listed.text)] == ["/z"]


# https://github.com/anomalyco/opencode/issues/10904: a file of zeros after a power failure
def test_a_damaged_backup_costs_only_its_own_run(demo: Ask, home: Home) -> None:
    for name in ("old", "new"):
        assert demo(f"write {name}.txt with x").code == 0
    older, newer = sorted((home.data / "originals").glob("0*"))
    content = newer.joinpath("journal").read_bytes()
    newer.joinpath("journal").write_bytes(b"\0" * 400 + b"\n")
    result = demo("undo", "-y")
    assert (result.code, str(newer) in result.stderr, (home.work / "old.txt").exists()) == (9, True, True)
    newer.joinpath("journal").write_bytes(content)
    older.joinpath("journal").write_bytes(b"\0" * 400 + b"\n")
    result = demo("undo", "-y")
    assert (result.code, str(older) in result.stderr) == (0, True)
    assert ((home.work / "old.txt").exists(), (home.work / "new.txt").exists()) == (True, False)


# Lists of settings


# https://github.com/cognizant-ai-lab/neuro-san/pull/1037: a fallback without a key, and the first model is not asked
@pytest.mark.parametrize("model", ["gemini:gemini-pro", "gemini"])
def test_a_configured_fallback_that_cannot_be_used_is_left_out(
    model: str, ask: Ask, home: Home, server: ModelServer
) -> None:
    home.configure(f'fallback = ["{model}", "openrouter:test/other"]\n[network]\ntries = 1\n')
    server.reply(wire.fails(503), wire.says("Hello."))
    result = ask("-p", "openrouter", "-m", "test/model", "hi")
    assert (result.code, result.text, f"fallback '{model}'" in result.stderr) == (0, "Hello.\n", True)
    assert server.requests[-1].json["model"] == "test/other"
    assert ask("-p", "openrouter", "-m", "test/model", "--fallback", model, "hi").code == 4


def test_an_invalid_entry_of_the_allowlist_allows_nothing(demo: Ask, home: Home) -> None:
    home.configure('[tools]\nallow = ["rm (", "git status"]\n')
    result = demo("run echo ok")
    assert (result.code, "rm (" in result.stderr) == (0, True)
    home.configure('[tools]\ndeny = ["rm (", "git status"]\n')
    assert demo("run echo ok").code == 4


# https://github.com/napari/npe2/pull/368: a distribution without a name, and no plugin is found
def test_damaged_distributions_do_not_hide_the_others(home: Home, tmp_path: Path) -> None:
    site = install_provider(tmp_path / "site", "sound")
    for name, metadata, entry_points in (
        ("no_files", None, None),
        ("no_name", b"Metadata-Version: 2.1\n", b"[ask.providers]\nx = x:y\n"),
        ("not_text", b"\xff\xfe\0", b"[ask.providers]\nx = caf\xe9:y\n"),
        ("no_syntax", b"Name: no_syntax\nVersion: 1\n", b"[ask.providers\nx y z\n= a\nq = :\n"),
    ):
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        for file, content in (("METADATA", metadata), ("entry_points.txt", entry_points)):
            if content is not None:
                (info / file).write_bytes(content)
    result = Ask({**home.env, "PYTHONPATH": str(site)}, home.work, installed=True)("providers", "--json")
    assert (result.code, "sound" in [row["name"] for row in json.loads(result.text)]) == (0, True)


def test_an_entry_of_the_allowlist_that_is_not_a_string_is_left_out(demo: Ask, home: Home) -> None:
    home.configure('[tools]\nconfirm = true\nallow = ["echo *", 5]\n')
    result = demo("run echo 42")
    assert (result.code, "42" in result.text) == (0, True)
    assert "tools.allow contains 5" in result.stderr


@pytest.mark.parametrize("variable", ["OPENROUTER_BASE_URL", "OPENROUTER_API_BASE"])
def test_an_invalid_base_url_is_an_error_in_any_variable(variable: str, ask: Ask) -> None:
    for base_url in ("box", "ftp://box.example:8000"):
        result = ask("hi", env={"OPENROUTER_BASE_URL": "", variable: base_url})
        assert (result.code, f"'{base_url}'" in result.stderr, variable in result.stderr) == (4, True, True)


def test_a_wrong_path_is_a_reason_to_check_the_base_url(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(405, "Method Not Allowed"))
    result = ask("-m", "test/model", "hi")
    assert ("check the base URL" in result.stderr, f"{server.base_url}/chat/completions" in result.stderr) == (
        True,
        True,
    )
