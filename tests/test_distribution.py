"""The source distribution and the wheel, installed as users do: in a virtual environment, with pipx and with uv."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.program import PROGRAMS, Home
from tests.shells import TAB, Shell

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


def run(*command: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a command that must succeed, and return its output."""
    process = subprocess.run(
        [str(part) for part in command],
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, f"{command}: {process.stdout}{process.stderr}"
    return process.stdout


def build(folder: Path) -> Path:
    """Build in a copy of the source, because parallel test processes write to the same folders in it."""
    ignored = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")
    shutil.copytree(ROOT, folder / "source", ignore=ignored)
    run(sys.executable, "-m", "build", "--outdir", folder / "dist", folder / "source")
    return folder / "dist"


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The paths of the source distribution and the wheel: those in $ASK_DIST, or new ones."""
    folder = Path(os.environ["ASK_DIST"]) if "ASK_DIST" in os.environ else build(tmp_path_factory.mktemp("build"))
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return {"sdist": sdist.resolve(), "wheel": wheel.resolve()}


def install_with_pip(file: Path, prefix: Path, env: dict[str, str]) -> Path:
    run(sys.executable, "-m", "venv", prefix)
    run(prefix / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", file, env=env)
    return prefix


def install_with_pipx(file: Path, prefix: Path, env: dict[str, str]) -> Path:
    run(PROGRAMS / "pipx", "install", "--python", sys.executable, file, env=env)
    return prefix / "venvs" / "ask-gents"


def install_with_uv(file: Path, prefix: Path, env: dict[str, str]) -> Path:
    command = (PROGRAMS / "uv", "tool", "install", "--quiet", "--python", sys.executable, file)
    run(*command, env=env)
    return prefix / "ask-gents"


def test_metadata_is_valid(distributions: dict[str, Path]) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *distributions.values())


def test_the_wheel_contains_all_modules_and_data(distributions: dict[str, Path]) -> None:
    with zipfile.ZipFile(distributions["wheel"]) as archive:
        packed = set(archive.namelist())
    for folder in ("ask", "completions", "prompts", "providers", "shell"):
        package = folder if folder == "ask" else f"ask_{folder}"
        for line in run("git", "ls-files", folder, cwd=ROOT).splitlines():
            assert line.replace(folder, package, 1) in packed


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
@pytest.mark.parametrize("install", [install_with_pip, install_with_pipx, install_with_uv])
@pytest.mark.needs("man")
def test_an_installed_distribution_works(
    kind: str,
    install: Callable[[Path, Path, dict[str, str]], Path],
    distributions: dict[str, Path],
    home: Home,
    tmp_path: Path,
) -> None:
    bin_folder = tmp_path / "bin"
    prefix = tmp_path / "prefix"
    folders = {"PIPX_HOME": prefix, "PIPX_BIN_DIR": bin_folder, "PIPX_MAN_DIR": tmp_path / "man"}
    folders |= {"UV_TOOL_DIR": prefix, "UV_TOOL_BIN_DIR": bin_folder}
    environment = install(distributions[kind], prefix, {**os.environ, **{k: str(v) for k, v in folders.items()}})
    env = dict(home.env)
    ask = environment / "bin" / "ask" if install is install_with_pip else bin_folder / "ask"

    (home.work / "notes.txt").write_text("A note.\n")
    assert "notes.txt" in run(ask, "-p", "demo", "which files are here?", env=env, cwd=home.work)
    rows = run(ask, "map", "-p", "demo", "run echo {{line}}", "notes.txt", env=env, cwd=home.work)
    assert json.loads(rows)["error"] is None
    assert "--provider" in run("man", "--pager=cat", environment / "share" / "man" / "man1" / "ask.1", env=env)
    with Shell("bash", home, {**home.env, "PATH": f"{ask.parent}:{home.env['PATH']}"}).on_terminal() as running:
        running.type_in(f"ask hist{TAB}")
        running.wait_for("ask history")
