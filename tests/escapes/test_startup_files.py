"""Startup files that are linked into the folder, and those that Vim reads there, are not changed."""

from __future__ import annotations

import subprocess

import pytest

from tests.escapes.safe_runs import bash, run
from tests.escapes.test_guards import run_unconfined
from tests.safety.fake_host import FakeHost
from tests.safety.installation import as_user

pytestmark = pytest.mark.needs("bwrap")


def runs_attack(host: FakeHost, *command: str) -> bool:
    """Run a program as the user in the folder, and check whether it ran the attack."""
    environment = {"PATH": f"{host.base}/home/bin:/usr/bin:/bin", "HOME": str(host.base / "home"), "TERM": "dumb"}
    subprocess.run([*as_user(host.user), *command], cwd=host.work, env=environment, capture_output=True, check=False)
    ran = host.base / "ran"
    found = ran.exists()
    ran.unlink(missing_ok=True)
    return found


@pytest.mark.parametrize(
    ("link", "program"),
    [(".bashrc", ("bash", "-ic", "true")), (".profile", ("bash", "-lc", "true")), ("bin/x", ("x",))],
)
def test_a_linked_startup_file_is_not_changed(host: FakeHost, link: str, program: tuple[str, ...]) -> None:
    (host.work / "files").mkdir()
    (host.work / "files/target").write_text("#!/bin/sh\n")
    (host.work / "files/target").chmod(0o755)
    (host.base / "home/bin").mkdir()
    (host.base / "home" / link).unlink(missing_ok=True)
    (host.base / "home" / link).symlink_to(host.work / "files/target")
    host.change_owner()
    attack = "rm -f files/target; printf '#!/bin/sh\\ntouch @base@/ran\\n' > files/target; chmod +x files/target"
    assert run(host, bash(attack), "--safe").result.code == 0
    assert not runs_attack(host, "env", *program)
    run_unconfined(host, attack, host.work)
    assert runs_attack(host, "env", *program), "the attack does nothing"


@pytest.mark.slow
@pytest.mark.needs("vim")
@pytest.mark.parametrize("name", [".vimrc", ".exrc"])
@pytest.mark.parametrize(
    ("exists", "startup_file", "text"),
    [
        (True, ".vimrc", "set nocompatible exrc"),
        pytest.param(False, ".vimrc", "set nocompatible exrc", marks=pytest.mark.slow),
        pytest.param(False, ".vimrc", "setglobal exrc", marks=pytest.mark.slow),
        (False, ".exrc", "set exrc"),
    ],
)
def test_vim_runs_nothing_from_the_folder(
    host: FakeHost, name: str, exists: bool, startup_file: str, text: str
) -> None:
    (host.base / "home" / startup_file).write_text(f"{text}\n")
    if exists:
        (host.work / name).write_text("set number\n")
    host.change_owner()
    attack = f"rm -rf {name}; echo 'silent !touch @base@/ran' > {name}"
    vim = ("vim", "-T", "dumb", "+qa!", "notes.txt")
    assert run(host, bash(attack), "--safe").result.code == 0
    assert not runs_attack(host, *vim)
    run_unconfined(host, attack, host.work)
    assert runs_attack(host, *vim), "the attack does nothing"


def test_a_file_that_a_startup_file_sources_can_be_changed(host: FakeHost) -> None:
    (host.base / "home/.bashrc").write_text(f". {host.work}/aliases\n")
    (host.work / "aliases").write_text("")
    host.change_owner()
    assert run(host, bash("echo 'touch @base@/ran' > aliases"), "--safe").result.code == 0
    assert runs_attack(host, "bash", "-ic", "true")
