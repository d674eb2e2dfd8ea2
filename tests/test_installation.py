"""Hints that depend on how ask was installed, in environments like those of pip, pipx and `uv tool`."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from tests.program import Home, run

ROOT = Path(__file__).parents[1]
WEB = ["ddgs>=9.5"]
CODE = (
    "import sys; from ask.config.installation import format_install_command; print(format_install_command(sys.argv[1]))"
)


class Environment:
    """A virtual environment with ask, among the packages of the tests."""

    def __init__(self, path: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True)
        self.path = path
        [self.packages] = path.glob("lib/python*/site-packages")
        packages = sysconfig.get_path("purelib")
        (self.packages / "ask.pth").write_text(f"{ROOT}\nimport site; site.addsitedir({packages!r})\n")
        self.add("ask-gents", {}, str(distribution("ask-gents").metadata))
        self.program = path / "bin" / "ask"
        self.program.write_text(f"#!{path}/bin/python\nfrom ask.__main__ import main\nmain()\n")
        self.program.chmod(0o755)

    def add(self, name: str, origin: Mapping[str, Any], metadata: str = "") -> None:
        """Add a package's metadata, with its origin."""
        folder = self.packages / f"{name.replace('-', '_')}-1.0.dist-info"
        folder.mkdir(exist_ok=True)
        if metadata or not (folder / "METADATA").exists():
            (folder / "METADATA").write_text(metadata or f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        if origin:
            (folder / "direct_url.json").write_text(json.dumps(origin))

    def hint(self, extra: str = "web") -> list[str]:
        """Return the install command for an extra, split into words."""
        command = [str(self.path / "bin" / "python"), "-c", CODE, extra]
        done = subprocess.run(command, cwd=self.path, capture_output=True, text=True, check=True)
        return shlex.split(done.stdout)


@pytest.fixture(scope="module")
def created(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("environment") / "ask-gents-dev")


@pytest.fixture
def environment(created: Environment) -> Iterator[Environment]:
    """A virtual environment with only ask in it, as installed by pip from an index."""
    before = {path for path in created.path.rglob("*") if path.suffix in (".json", ".toml", ".dist-info")}
    yield created
    for path in {path for path in created.path.rglob("*") if path.suffix in (".json", ".toml")} - before:
        path.unlink()
    for path in set(created.packages.glob("*.dist-info")) - before:
        shutil.rmtree(path)


@pytest.mark.slow
def test_pipx_injects_the_requirements_of_the_extra(environment: Environment) -> None:
    (environment.path / "pipx_metadata.json").write_text("{}")
    assert environment.hint() == ["pipx", "inject", "ask-gents-dev", *WEB]
    assert environment.hint("mcp") == ["pipx", "inject", "ask-gents-dev", "mcp>=2.3"]


def test_uv_tool_is_given_all_packages_again(environment: Environment) -> None:
    receipt = """
[tool]
requirements = [
    { name = "ask-gents", extras = ["mcp"], directory = "/src/ask it" },
    { name = "requests", specifier = ">=2.32" },
    { name = "ask-tools-one", editable = "/src/one" },
    { name = "not-there" },
]
"""
    (environment.path / "uv-receipt.toml").write_text(receipt)
    environment.add("ask-gents", {"url": "file:///src/ask%20it", "dir_info": {}})
    environment.add("ask-tools-one", {"url": "file:///src/one", "dir_info": {"editable": True}})
    others = ["--with", "requests>=2.32", "--with-editable", "/src/one"]
    assert environment.hint() == ["uv", "tool", "install", "/src/ask it[mcp,web]", *others]


@pytest.mark.parametrize(
    ("origin", "source"),
    [
        ({}, ["ask-gents[web]"]),
        ({"url": "file:///src/ask", "dir_info": {}}, ["/src/ask[web]"]),
        ({"url": "file:///src/ask", "dir_info": {"editable": True}}, ["--editable", "/src/ask[web]"]),
        (
            {"url": "https://example.com/ask.git", "vcs_info": {"vcs": "git", "commit_id": "12ab"}},
            ["ask-gents[web] @ git+https://example.com/ask.git@12ab"],
        ),
        ({"url": "file:///src/ask.whl", "archive_info": {}}, ["ask-gents[web] @ file:///src/ask.whl"]),
    ],
)
def test_pip_installs_from_the_origin_of_ask(
    environment: Environment, origin: dict[str, Any], source: list[str]
) -> None:
    environment.add("ask-gents", origin)
    python = str(environment.path / "bin" / "python")
    hint = environment.hint()
    assert hint[: -len(source)] in ([python, "-m", "pip", "install"], ["uv", "pip", "install", "--python", python])
    assert hint[-len(source) :] == source


def check_path(program: Path, home: Home, path: str = os.defpath) -> dict[str, str]:
    """Return what the doctor reports about PATH when it is started as this program."""
    env = {**home.env, "PATH": path}
    rows = json.loads(run([str(program), "doctor", "--offline", "--json"], env=env, cwd=home.work).text)
    [found] = [row for row in rows if row["check"] == "PATH"]
    return dict(found)


@pytest.mark.slow
def test_doctor_names_the_folder_of_the_program(environment: Environment, home: Home) -> None:
    assert str(environment.program.parent) in check_path(environment.program, home)["fix"]


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["pipx", "uv"])
def test_doctor_names_the_folder_of_the_launcher(tool: str, environment: Environment, home: Home) -> None:
    folder = Path(home.env["HOME"], ".local/bin") if tool == "pipx" else home.path / "uv"
    folder.mkdir(parents=True)
    launcher = folder / "ask"
    launcher.symlink_to(environment.program)
    if tool == "uv":
        entry_points = f'[tool]\nentrypoints = [{{ name = "ask", install-path = "{launcher}" }}]\n'
        (environment.path / "uv-receipt.toml").write_text(entry_points)
    for program in (launcher, environment.program):
        missing = check_path(program, home)
        assert missing["state"] == "warning"
        assert str(folder) in missing["fix"]
        found = check_path(program, home, f"{folder}:{os.defpath}")
        assert found["state"] == "ok"
        assert str(launcher) in found["found"]
