"""Keys from a command and from the system keyring."""

from __future__ import annotations

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ask.config.external_keys import run_key_command
from ask.errors import ConfigError
from tests.test_main import is_alive

KEY = "sk-from-a-command-0123456789"


def run(command: str, timeout: float = 10, **environment: str) -> str:
    return run_key_command("openai", command, {"PATH": os.environ["PATH"], **environment}, timeout)


@pytest.mark.parametrize(
    "command",
    [
        f"echo {KEY}",
        f"printf '  {KEY} \\r\\n'",
        f"printf {KEY}",
        f"echo {KEY}; echo user: me",
        f"echo {KEY} | cat",
        "echo $VAULT",
    ],
)
def test_the_key_is_the_first_line_of_the_output(command: str) -> None:
    assert run(command, VAULT=KEY) == KEY


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo vault is locked >&2; exit 7", ["exit code 7", "vault is locked"]),
        ("no-such-program", ["exit code 127", "not found"]),
        ("exit 3", ["exit code 3"]),
        ("kill -9 $$", ["exit code -9"]),
        ("true", ["printed no key"]),
        (f"echo; echo {KEY}", ["printed no key"]),
        ("printf 'a\\033[1mb'", ["something other than a key"]),
        ("echo clé", ["something other than a key"]),
    ],
)
def test_a_failure_names_the_provider_the_exit_code_and_the_error_output(command: str, expected: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        run(command)
    text = str(caught.value)
    assert all(part in text for part in ["openai", *expected])
    assert "\n" not in text
    assert caught.value.exit_code == 4


def test_output_of_a_command_without_a_key_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        run(f"printf '\\t{KEY}\\007\\n'")
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "command", ["{child}", "{child} | cat", "{child} & wait", "{child} & exit", "setsid {child} & wait"]
)
def test_a_command_that_takes_too_long_is_killed_with_its_children(command: str, tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(ConfigError, match=r"openai timed out after 0\.5 s"):
        run(command.format(child="sh -c 'echo $$ > $PID_FILE; exec sleep 30'"), 0.5, PID_FILE=str(tmp_path / "pid"))
    assert time.monotonic() - started < 20
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_a_command_runs_nothing_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, key in (("home", KEY), ("project", "sk-of-the-project")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vault.py").write_text(f"print({key!r})")
    monkeypatch.chdir(tmp_path / "project")
    assert run("python3 -m vault", HOME=str(tmp_path / "home")) == KEY
    assert [run("pwd"), run("pwd", HOME=str(tmp_path / "missing"))] == ["/", "/"]


def test_a_command_runs_although_the_home_directory_cannot_be_entered() -> None:
    """In a container with another user, HOME is often that of root."""
    with TemporaryDirectory() as home:
        os.chmod(home, 0)
        child = os.fork()
        if not child:
            try:
                if os.geteuid() == 0:
                    os.setuid(65534)
                os._exit(run("pwd", HOME=home) != "/")
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        os.chmod(home, 0o700)
