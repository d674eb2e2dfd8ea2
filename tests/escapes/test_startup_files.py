"""Startup files that are linked into the folder, and those that Vim reads there, are not changed."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.escapes.safe_runs import bash, run
from tests.escapes.test_guards import run_unconfined
from tests.safety.fake_host import FakeHost
from tests.safety.installation import as_user

pytestmark = pytest.mark.needs("bwrap")
PLACE_MODULE = """
import colorsys, importlib._bootstrap_external, importlib.util, os, sys
source = colorsys.__file__
code = compile(f"open({sys.argv[2]!r}, 'w')", source, "exec")
sys.pycache_prefix, status = sys.argv[1], os.stat(source)
path = importlib.util.cache_from_source(source)
os.makedirs(os.path.dirname(path), exist_ok=True)
with open(path, "wb") as file:
    file.write(importlib._bootstrap_external._code_to_timestamp_pyc(code, int(status.st_mtime), status.st_size))
"""


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
def test_no_module_is_placed_where_every_python_looks_for_compiled_ones(host: FakeHost) -> None:
    (host.work / "place.py").write_text(PLACE_MODULE)
    host.change_owner()
    folder, python = str(host.work / "cache/python"), host.fill("@python@")
    variables = {"PYTHONPYCACHEPREFIX": folder}
    attack = f"{python} -I place.py {folder} @base@/ran"
    program = ("env", f"PYTHONPYCACHEPREFIX={folder}", python, "-c", "import colorsys")
    assert run(host, bash(attack), "--safe", env=variables).result.code == 0
    assert not runs_attack(host, *program)
    run_unconfined(host, attack, host.work)
    assert runs_attack(host, *program), "the attack does nothing"


@pytest.mark.slow
@pytest.mark.needs("vim")
@pytest.mark.parametrize("name", [".vimrc", ".exrc"])
@pytest.mark.parametrize(
    ("exists", "startup_file", "text"),
    [
        (True, ".vimrc", "set nocompatible exrc"),
        (False, ".vimrc", "set nocompatible exrc"),
        (False, ".vimrc", "setglobal exrc"),
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


@pytest.mark.slow
def test_a_file_that_a_startup_file_sources_can_be_changed(host: FakeHost) -> None:
    (host.base / "home/.bashrc").write_text(f". {host.work}/aliases\n")
    (host.work / "aliases").write_text("")
    host.change_owner()
    assert run(host, bash("echo 'touch @base@/ran' > aliases"), "--safe").result.code == 0
    assert runs_attack(host, "bash", "-ic", "true")


@pytest.mark.slow
@pytest.mark.needs("direnv")
@pytest.mark.parametrize(
    ("loaded", "attack"),
    [
        ("source_env_if_exists .envrc.local", "echo 'touch @base@/ran' > .envrc.local"),
        ("watch_file setup.sh; . ./setup.sh", "rm -f setup.sh; echo 'touch @base@/ran' > setup.sh"),
    ],
)
def test_direnv_loads_nothing_that_a_run_has_created_or_changed(host: FakeHost, loaded: str, attack: str) -> None:
    """direnv asks about a changed `.envrc`, and loads what that names at the next prompt without asking."""
    (host.work / ".envrc").write_text(f"{loaded}\n")
    (host.work / "setup.sh").write_text("true\n")
    os.utime(host.work / "setup.sh", (0, 0))  # direnv compares times in seconds
    host.change_owner()
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(host.base / "home")}
    direnv = [*as_user(host.user), "direnv"]
    subprocess.run([*direnv, "allow", "."], cwd=host.work, env=environment, check=True)
    variables = subprocess.run(
        [*direnv, "export", "json"], cwd=host.work, env=environment, check=True, stdout=subprocess.PIPE
    )
    in_shell = {name: value for name, value in json.loads(variables.stdout).items() if value is not None}

    def runs_attack_at_the_prompt() -> bool:
        command = [*direnv, "export", "bash"]
        subprocess.run(command, cwd=host.work, env={**environment, **in_shell}, capture_output=True, check=True)
        ran = (host.base / "ran").exists()
        (host.base / "ran").unlink(missing_ok=True)
        return ran

    assert run(host, bash(attack), "--safe", env=in_shell).result.code == 0
    assert not runs_attack_at_the_prompt()
    run_unconfined(host, attack, host.work)
    assert runs_attack_at_the_prompt(), "the attack does nothing"


@pytest.mark.slow
@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("option", ["--safe", "--safe-files"])
@pytest.mark.parametrize(
    ("config", "old", "new"),
    [
        ('mcp.files = ["{}"]', '{"mcpServers": {}}', '{"mcpServers": {"x": {"command": "touch", "args": ["ran"]}}}'),
        # It runs outside the sandbox, and again in the same run if the service rejects the key.
        ('[providers.groq]\nkey_command = "sh {}"', "echo old", "touch ran"),
    ],
    ids=["MCP servers", "key command"],
)
def test_a_configured_file_in_the_folder_is_not_changed(
    host: FakeHost, config: str, old: str, new: str, option: str, *, exists: bool
) -> None:
    file = host.work / "tools/configured"
    file.parent.mkdir()
    if exists:
        file.write_text(old)
    (host.base / "config/ask/config.toml").write_text(config.format(file) + "\n")
    host.change_owner()
    write = ("write_file", {"filepath": "tools/configured", "content": new})
    calls = [*(bash("rm -rf tools; mkdir tools") if option == "--safe" else ()), write]
    assert run(host, calls, option).result.code == 0
    assert (file.read_text() if file.exists() else "") == (old if exists else "")
    assert run(host, [write]).result.code == 0
    assert file.read_text() == new, "the attack does nothing"


@pytest.mark.slow
@pytest.mark.parametrize("is_linked", [False, True])
@pytest.mark.parametrize("option", ["--safe", "--safe-files"])
def test_the_users_own_skills_in_the_folder_are_not_changed(host: FakeHost, option: str, *, is_linked: bool) -> None:
    """Those of a project are asked about after a change, but not the user's own."""
    file = host.work / "skills/deploy/SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text("old")
    folder = host.base / "own-skills" if is_linked else host.work / "skills"
    if is_linked:
        folder.mkdir()
        (folder / "deploy").symlink_to(file.parent)
    (host.base / "config/ask/config.toml").write_text(f'skills.folders = ["{folder}"]\n')
    host.change_owner()
    write = ("write_file", {"filepath": "skills/deploy/SKILL.md", "content": "new"})
    new = host.work / "skills" / ("deploy/more" if is_linked else "more") / "SKILL.md"
    add = ("write_file", {"filepath": str(new), "content": "new"})
    assert run(host, [write, add], option).result.code == 0
    assert (file.read_text(), new.exists()) == ("old", False)
    assert run(host, [write, add]).result.code == 0
    assert (file.read_text(), new.exists()) == ("new", True), "the attack does nothing"


@pytest.mark.slow
@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("option", ["--safe", "--safe-files"])
def test_the_script_of_a_hook_outside_the_sandbox_is_not_changed(host: FakeHost, option: str, exists: bool) -> None:
    """It runs again in the same run, after the next call."""
    file = host.work / "tools/check.sh"
    file.parent.mkdir()
    if exists:
        file.write_text("true")
    ran = host.base / "ran"
    (host.base / "config/ask/config.toml").write_text(
        "[[hooks]]\nevent = 'after_tool'\ncommand = 'sh tools/check.sh'\nsandbox = false\n"
    )
    host.change_owner()
    write = ("write_file", {"filepath": "tools/check.sh", "content": f"touch {ran}"})
    calls = [*(bash("rm -rf tools; mkdir tools") if option == "--safe" else ()), write, *([write] * 2)]
    assert run(host, calls, option).result.code == 0
    assert not ran.exists()
    assert (file.read_text() if file.exists() else "") == ("true" if exists else "")
    assert run(host, [write, write]).result.code == 0
    assert ran.exists(), "the attack does nothing"
