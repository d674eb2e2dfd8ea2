"""`ask safe`: the self-test of safe mode and its report."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from ask.safety.protected_paths import SHOWN_ONCE
from tests import wire
from tests.escapes.safe_runs import build_environment, create_ask_host
from tests.escapes.test_failing_closed import ANOTHER, HIDDEN, build_changed_host_command
from tests.model_server import ModelServer
from tests.program import NO_COMPILED_FILES, Ask, Home, run
from tests.safety.installation import as_user, installation

WAYS = (
    "reading ask's configuration and data",
    "changing protected files",
    "changing kernel settings",
    "sockets that bypass the network rules",
    "privileges",
    "seeing other processes",
    "writing outside",
    "connecting to a server",
)
"""The checks of the self-test, by the names that users see."""


@pytest.mark.needs("bwrap")
def test_the_self_test_lists_every_check_and_known_gaps(home: Home) -> None:
    result = Ask(home.env, home.work)("safe")
    assert (result.code, result.stderr) == (0, "")
    rows = {row[1]: row for row in (line.split("\t") for line in result.text.splitlines())}
    assert {row[0] for row in rows.values()} == {"ok"}
    assert set(WAYS) <= set(rows)
    assert rows["bubblewrap"][2].split()[1] >= "0.8.0"
    assert rows["can be written"][2] == str(home.work)
    assert rows["enabled for every run"][2] == "no, only with --safe"


def test_the_self_test_leaves_no_file(home: Home) -> None:
    Ask(home.env, home.work)("safe")
    assert list(home.work.iterdir()) == []
    files = [path.name for path in home.files if path.parent.name == "safe"]
    assert files in ([], ["scans.json"])  # without bubblewrap, nothing is scanned


@pytest.mark.needs("bwrap")
def test_json_has_the_same_results(home: Home) -> None:
    rows = json.loads(Ask(home.env, home.work)("safe", "--json").text)
    assert {tuple(row) for row in rows} == {("state", "check", "found", "fix")}
    assert set(WAYS) <= {row["check"] for row in rows}


@pytest.mark.needs("bwrap")
def test_the_configuration_is_printed(home: Home) -> None:
    (home.path / "more").mkdir()
    home.configure(
        f'[safe]\nenabled = true\nallow_dirs = ["{home.path}/more"]\nallow_hosts = ["A.test"]\n'
        'allow_command_hosts = ["B.test", "c.test:22"]\n'
    )
    text = Ask(home.env, home.work)("safe").text
    assert f"can be written\t{home.path}/more, {home.work}\t" in text
    assert "can be fetched from\ta.test; other hosts after asking\t" in text
    assert "commands can reach\tb.test, c.test:22\t" in text
    assert "enabled for every run\tyes\t" in text


@pytest.mark.needs("bwrap")
def test_an_unavailable_sandbox_is_reported_with_cause_and_fix(home: Home) -> None:
    ask = replace(Ask(home.env, home.work), cwd=home.path / "home")
    result = ask("safe")
    assert result.code == 8
    assert "problem\tsandbox\tsafe mode protects nothing in" in result.text
    assert "\tstart in the project's own folder\n" in result.text
    [line] = result.stderr.splitlines()
    assert line.startswith("ask: safe mode does not work in ")


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_missing_and_ineffective_bubblewrap_is_detected() -> None:
    user = "root" if os.geteuid() == 0 else "ordinary"
    with create_ask_host(user) as host, ModelServer() as server:
        reports = {}
        for change in (HIDDEN, ANOTHER):
            command = [*as_user(user), *build_changed_host_command(host, change), installation(user).ask, "safe"]
            result = run(command, env=build_environment(host, server), cwd=host.work)
            assert result.code == 8
            reports[change] = result.text
    assert "which is not installed\tinstall bubblewrap" in reports[HIDDEN]
    assert "the sandbox failed its self-test" in reports[ANOTHER]


@pytest.mark.slow_after_first
@pytest.mark.parametrize("option", [pytest.param("--safe", marks=pytest.mark.needs("bwrap")), "--safe-files"])
def test_a_full_disk_ends_a_run_with_the_path_of_the_record(ask: Ask, home: Home, option: str) -> None:
    # A limit for the size of files fails like a full disk, but needs no file system of its own.
    result = ask.shell(f"ulimit -f 0; trap '' XFSZ; ask {option} go", NO_COMPILED_FILES)
    assert result.code == 8, result.stderr
    assert "/ask/safe/" in result.stderr.replace("\n", "")
    assert "cannot write" in result.stderr.replace("\n", " ")


def test_a_remembered_path_is_forgotten_on_request(ask: Ask, home: Home, server: ModelServer) -> None:
    for name in ("secrets/a", "secrets/b", "secrets-2"):
        (home.work / name).parent.mkdir(exist_ok=True)
        (home.work / name).write_text("token-1")
        (home.work / f"{name.replace('/', '-')}.env").symlink_to(name)
    server.reply(*[wire.says("Done.")] * 3)
    assert ask("--safe-files", "go").code == 0
    for link in home.work.glob("*.env"):
        link.unlink()
    (notice,) = [line for line in ask("--safe-files", "go").stderr.splitlines() if "as in an earlier run" in line]
    assert "3 paths" in notice
    assert "--forget" in notice
    result = ask("safe", "--forget", "secrets")
    assert (result.code, result.text) == (0, f"Forgot 2 paths in {home.work}/secrets: a, b.\n")
    unknown = ask("safe", "--forget", "secrets")
    assert unknown.code == 2
    assert f"{home.work}/secrets-2" in unknown.stderr
    assert ask("safe", "--forget", "secrets-2", "--json").code == 2
    (notice,) = [line for line in ask("--safe-files", "go").stderr.splitlines() if "as in an earlier run" in line]
    assert "1 path stays" in notice
    assert f"ask safe --forget {home.work}/secrets-2" in notice


def test_commands_of_git_are_always_named(home: Home) -> None:
    ask = Ask(home.env, home.work)
    assert ask.shell("git init -q && git config alias.go '!python3 -m go'").code == 0
    for _ in range(2):
        rows = json.loads(ask("safe", "--files", "--json").text)
        [found] = [row["found"] for row in rows if "alias.go" in row["found"]]
        assert not found.endswith(SHOWN_ONCE)
        assert "python3 -I" in found


@pytest.mark.needs("bwrap")
def test_a_repository_around_the_folder_is_reported(home: Home) -> None:
    ask = Ask(home.env, home.work)
    assert ask.shell("git init -q && mkdir sub").code == 0
    rows = json.loads(replace(ask, cwd=home.work / "sub")("safe", "--json").text)
    [fix] = [row["fix"] for row in rows if row["check"] == "git"]
    assert "--allow-git" in fix


@pytest.mark.parametrize("option", [pytest.param("--safe", marks=pytest.mark.needs("bwrap")), "--safe-files"])
def test_a_cache_that_calls_could_write_is_refused(ask: Ask, home: Home, server: ModelServer, option: str) -> None:
    (home.work / "link").symlink_to("below")
    result = ask(option, "hi", env={"XDG_CACHE_HOME": str(home.work / "link/cache")})
    assert (result.code, server.requests, "cache" in result.stderr) == (8, [], True)
