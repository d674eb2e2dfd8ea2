"""Folders in which safe mode refuses to start, and toolchains that are readable."""

from __future__ import annotations

import os
import shlex
import site
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from ask.atomic_files import write_decisions
from ask.errors import SafetyError
from ask.safety.mounts import MountEntry, find_alias
from ask.safety.sandbox_config import SandboxConfig
from ask.safety.sandbox_folders import build_sandbox_config
from ask.safety.scan_record import ScanRecord, write_scan_record


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("home/work", "home/.config/ask", "home/.local/share/ask", "home/.local/bin"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path / "home"


def confined(home: Path, directory: Path, *allowed: Path, path: str = "/usr/bin", **more: Any) -> SandboxConfig:
    data = more.pop("data_dir", home / ".local/share/ask")
    return build_sandbox_config(
        directory,
        allowed,
        config_dir=home / ".config/ask",
        cache_dir=home / ".cache/ask",
        data_dir=data,
        overflow_directory=data / "results",
        **{"environment": {"HOME": str(home), "PATH": path, "TERM": "xterm", "KEY": "1", "CI": "2"}, **more},
    )


def test_paths_are_resolved_once(home: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(home / "work")
    (tmp_path / "more").mkdir()
    found = confined(home, tmp_path / "link", tmp_path / "link/../../more")
    assert found.working_directory == home / "work"
    assert found.allowed_folders == (tmp_path / "more",)


@pytest.mark.parametrize("runs_commands", [True, False])
@pytest.mark.parametrize("link", ["data", "work/data", "deep/data"])
def test_no_link_that_a_call_has_left_makes_a_folder_writable(
    home: Path, tmp_path: Path, link: str, runs_commands: bool
) -> None:
    for name in ("work/deep", "work/real", "private/work"):
        (home / name).mkdir(parents=True)
    write_scan_record(home / ".local/share/ask/safe", [home / "work"], ScanRecord((), (), ()))
    (home / "work/data").symlink_to(home / "private")
    (home / "work/deep/data").symlink_to("../../private")
    (home / "work/inside").symlink_to("real")
    (home / "work/alias").symlink_to(home / "work")
    folder = home / "work/deep/data" if "deep" in link else home / "work" / ("alias/data" if "/" in link else link)
    environment = {"HOME": str(home), "PATH": "/usr/bin", "PWD": str(folder)}
    for directory, *allowed in ([home / "work", folder], [home / "work", folder / "work"], [home / "private"]):
        with pytest.raises(SafetyError, match="symbolic link"):
            confined(home, directory, *allowed, runs_commands=runs_commands, environment=environment)
    inside = confined(home, home / "work", home / "work/inside", environment=environment, runs_commands=runs_commands)
    assert inside.allowed_folders == (home / "work/real",)
    (tmp_path / "own").symlink_to(home / "private")
    assert confined(home, home / "work", tmp_path / "own").allowed_folders == (home / "private",)


def test_links_that_are_older_than_the_first_run_are_followed_unless_they_are_renamed(home: Path) -> None:
    state = home / ".local/share/ask/safe"
    (home / "private").mkdir()
    (home / "work/data").symlink_to(home / "private")
    time.sleep(0.05)  # the kernel's clock for files has steps
    write_scan_record(state, [home / "work"], ScanRecord((), (), ()))
    assert confined(home, home / "work", home / "work/data").allowed_folders == (home / "private",)
    (home / "work/data").rename(home / "work/renamed")
    with pytest.raises(SafetyError, match="symbolic link"):
        confined(home, home / "work", home / "work/renamed")


def test_a_clock_that_was_ahead_makes_no_later_link_look_old(home: Path) -> None:
    state = home / ".local/share/ask/safe"
    (home / "private").mkdir()
    record = {"protected": [], "hidden": [], "repositories": [], "begin": time.time() + 86_400}
    write_decisions(state / "scans.json", {str(home / "work"): record})
    write_scan_record(state, [home / "work"], ScanRecord((), (), ()))
    (home / "work/data").symlink_to(home / "private")
    with pytest.raises(SafetyError, match="symbolic link"):
        confined(home, home / "work", home / "work/data")


@pytest.mark.parametrize("folder", ["link45", "data", "data/sub"])
def test_no_link_leads_to_a_writable_folder_that_safe_mode_hides_or_in_too_many_steps(home: Path, folder: str) -> None:
    for name in ("work/prod.env/sub", "private"):
        (home / name).mkdir(parents=True)
    write_scan_record(home / ".local/share/ask/safe", [home / "work"], ScanRecord((), (), ()))
    (home / "work/link0").symlink_to(home / "private")
    for number in range(45):  # the kernel follows 40
        (home / f"work/link{number + 1}").symlink_to(f"link{number}")
    (home / "work/data").symlink_to("prod.env")
    with pytest.raises(SafetyError):
        confined(home, home / "work", home / "work" / folder)
    assert confined(home, home / "work", home / "work/prod.env")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("/", "contains the system"),
        ("/usr", "contains the system"),
        ("/etc", "contains the system"),
        ("/proc/self", "belongs to the kernel"),
        ("/dev/shm", "belongs to the kernel"),
        ("HOME", "contains your home directory"),
        ("HOME/..", "contains your home directory"),
        ("HOME/.config", "ask's own configuration"),
        ("HOME/.config/ask", "ask's own configuration"),
        ("HOME/.local/share", "ask's own data"),
        ("HOME/.local/share/ask/results", "ask's own data"),
        ("HOME/.cache", "ask's own cache"),
        ("HOME/.cache/ask/mcp", "ask's own cache"),
        (str(Path(__file__).parents[2]), "ask's own code|Python loads modules"),
        (str(Path(__file__).parents[2] / "ask/tools"), "ask's own code"),
        (str(Path(__file__).parents[2] / "providers"), "ask's own code"),
        (str(Path(os.__file__).parent), "ask's own code|Python loads modules"),
        (sys.prefix, "ask's own code|Python loads modules"),
        ("HOME/missing", "does not exist"),
        ("HOME/file", "is not a folder"),
    ],
)
def test_folders_that_cannot_be_confined_are_refused(home: Path, name: str, why: str) -> None:
    (home / "file").touch()
    (home / ".local/share/ask/results").mkdir()
    (home / ".cache/ask/mcp").mkdir(parents=True)
    folder = Path(name.replace("HOME", str(home)))
    for directory, allowed in ((folder, []), (home / "work", [folder])):
        with pytest.raises(SafetyError, match=why) as caught:
            confined(home, directory, *allowed)
        assert caught.value.exit_code == 8
        assert caught.value.hint
        assert not (allowed and "start in" in caught.value.hint)
        assert ("pipx" in caught.value.hint) == ("code" in why), caught.value.hint


@pytest.mark.slow
def test_the_folder_of_a_package_in_development_mode_is_refused(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a plugin: the next run imports it outside the sandbox."""
    project = home / "work/plugin"
    (project / "ask_notes").mkdir(parents=True)
    (project / "ask_notes/__init__.py").touch()
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "ask-notes"\nversion = "1"\n[tool.setuptools]\npackages = ["ask_notes"]\n'
    )
    build = "import setuptools.build_meta as backend; backend.build_editable('dist')"
    subprocess.run([sys.executable, "-c", build], cwd=project, check=True, capture_output=True)
    with ZipFile(next(project.glob("dist/*.whl"))) as wheel:
        wheel.extractall(tmp_path / "site")
    for name in ("meta_path", "path", "path_hooks"):
        monkeypatch.setattr(sys, name, [*getattr(sys, name)])
    assert confined(home, project).working_directory == project
    site.addsitedir(str(tmp_path / "site"))
    assert find_spec("ask_notes"), "the package is not installed"
    for folder in (home / "work", project, project / "ask_notes"):
        with pytest.raises(SafetyError, match="ask's own code"):
            confined(home, folder)


def test_a_folder_from_which_other_pythons_load_modules_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If ask runs on `python -I`, it ignores PYTHONPATH, but the user's other programs do not."""
    monkeypatch.setenv("PYTHONPATH", f"/opt/x:{home}/work/lib")
    with pytest.raises(SafetyError, match="load") as caught:
        confined(home, home / "work")
    assert "PYTHONPATH" in (caught.value.hint or "")


def test_a_link_to_a_refused_folder_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(home)
    with pytest.raises(SafetyError, match="home directory"):
        confined(home, tmp_path / "link")


@pytest.mark.parametrize(
    ("name", "value", "advised"),
    [
        ("LD_LIBRARY_PATH", "/usr/local/cuda/lib64:", "/usr/local/cuda/lib64"),
        ("LD_LIBRARY_PATH", ":/usr/local/cuda/lib64", "/usr/local/cuda/lib64"),
        ("LD_LIBRARY_PATH", "/opt/x;.;/opt/y z", "'/opt/x:/opt/y z'"),
        ("LD_LIBRARY_PATH", "/opt/x:HOME/work/build/lib", "/opt/x"),
        ("LD_LIBRARY_PATH", ":", "''"),
        ("LD_AUDIT", "/opt/x.so:HOME/work/y.so", "/opt/x.so"),
        ("GCONV_PATH", "build/gconv", "''"),
        ("OPENSSL_MODULES", "HOME/work/lib", "''"),
        ("LD_LIBRARY_PATH", "", None),
        ("LD_LIBRARY_PATH", "/opt/x:HOME/other", None),
        ("LD_PRELOAD", "libjemalloc.so.2 HOME/work/fast.so", "libjemalloc.so.2"),
        ("LD_PRELOAD", "libjemalloc.so.2 /usr/lib/fast.so", None),
    ],
)
def test_folders_from_which_programs_load_libraries_are_refused(
    home: Path, name: str, value: str, advised: str | None
) -> None:
    environment = {"HOME": str(home), "PATH": "/usr/bin", name: value.replace("HOME", str(home))}
    if advised is not None:
        with pytest.raises(SafetyError, match="load libraries from") as caught:
            confined(home, home / "work", environment=environment)
        hint = caught.value.hint or ""
        assert hint.partition(";")[0] == f"run: export {name}={advised}"
        confined(home, home / "work", environment=environment | {name: "".join(shlex.split(advised))})
    else:
        confined(home, home / "work", environment=environment)


def test_the_environment_has_only_inherited_and_configured_variables(home: Path) -> None:
    environment = confined(home, home / "work", extra_variables=["CI", "MISSING"]).environment
    assert environment == {
        "PATH": "/usr/bin",
        "TERM": "xterm",
        "LANG": "C.UTF-8",
        "CI": "2",
        "HOME": str(home),
        "TMPDIR": "/tmp",
    }


def test_toolchains_are_readable_but_not_private_folders(home: Path, tmp_path: Path) -> None:
    for name in ("bin", "lib", ".local/lib", "node/bin", "node/lib/node_modules", ".cargo/bin", ".pyenv/versions"):
        (home / name).mkdir(parents=True)
    (home / ".pyenv/shims").mkdir()
    (tmp_path / "closed").mkdir(mode=0)
    search = [
        f"{home}/{name}" for name in ("node/bin", ".cargo/bin", ".pyenv/shims", ".local/bin", "bin", ".", "missing")
    ]
    shown = confined(
        home, home / "work", path=":".join([*search, "relative", "", str(tmp_path / "closed/bin")])
    ).readable_folders
    under_home = {str(path.relative_to(home)) for path in shown if path.is_relative_to(home)}
    assert under_home == {"node", ".cargo/bin", ".pyenv", ".local/bin", "bin"}


def test_programs_in_the_home_are_readable_without_the_data_next_to_them(home: Path, tmp_path: Path) -> None:
    """npm creates ~/.local/lib/node_modules if its prefix is ~/.local, and the data of ask may be elsewhere."""
    for folder in (home / ".local/lib/node_modules", tmp_path / "data"):
        folder.mkdir(parents=True)
    shown = confined(home, home / "work", path=f"{home}/.local/bin", data_dir=tmp_path / "data").readable_folders
    assert [path for path in shown if path.is_relative_to(home)] == [home / ".local/bin"]


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        ("bin lib .env", "bin"),
        ("bin lib/python .git", "bin"),
        ("shims lib", "shims"),
        ("bin lib/python3.12/os.py", ""),
        ("bin pyvenv.cfg", ""),
        ("bin lib/rustlib", ""),
    ],
)
def test_a_project_on_path_is_not_a_toolchain(home: Path, tmp_path: Path, made: str, shown: str) -> None:
    for name in made.split():
        (tmp_path / "project" / name).mkdir(parents=True)
    programs = tmp_path / "project" / made.split(maxsplit=1)[0]
    readable = confined(home, home / "work", path=str(programs)).readable_folders
    assert [path for path in readable if path.is_relative_to(tmp_path)] == [tmp_path / "project" / shown]


@pytest.mark.parametrize("project_folder", ["src", "notes", "node_modules"])
def test_of_a_project_that_is_a_virtual_environment_only_that_is_readable(
    home: Path, tmp_path: Path, project_folder: str
) -> None:
    made = ("bin", "lib/python3.12/site-packages", "lib/node_modules", "pyvenv.cfg", "include", project_folder)
    for name in made:
        (tmp_path / "project" / name).mkdir(parents=True)
    readable = confined(home, home / "work", path=f"{tmp_path}/project/bin").readable_folders
    shown = {str(path.relative_to(tmp_path / "project")) for path in readable if path.is_relative_to(tmp_path)}
    assert shown == {"bin", "lib/python3.12", "lib/node_modules", "pyvenv.cfg"}


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        ("bin src pyvenv.cfg", "bin pyvenv.cfg"),
        ("bin lib/node_modules", "bin lib/node_modules"),
        ("bin conda-meta", "bin"),
        ("shims versions", "shims"),
        ("bin bin/python3 pyvenv.cfg lib/python3.12/os.py lib/x", "bin pyvenv.cfg lib/python3.12"),
        ("bin bin/node lib/node_modules lib/x", "bin lib/node_modules"),
    ],
)
def test_no_call_of_an_earlier_run_makes_a_project_a_toolchain(
    home: Path, tmp_path: Path, made: str, shown: str
) -> None:
    project = tmp_path / "project"
    for name in made.split():
        (project / name).mkdir(parents=True)
    write_scan_record(home / ".local/share/ask/safe", [project], ScanRecord((f"{project}/.git",), (), ()))
    readable = confined(home, home / "work", path=f"{project}/{made.split(maxsplit=1)[0]}").readable_folders
    assert {path for path in readable if path.is_relative_to(tmp_path)} == {project / name for name in shown.split()}


@pytest.mark.parametrize(("folder", "marker"), [("project", "lib"), ("project", "pyvenv.cfg"), ("project/lib", "lib")])
def test_a_link_of_an_earlier_run_makes_no_project_a_toolchain(
    home: Path, tmp_path: Path, folder: str, marker: str
) -> None:
    for name in ("project/bin", "runtime/node_modules", *([folder] if "/" in folder else [])):
        (tmp_path / name).mkdir(parents=True)
    record = ScanRecord((f"{tmp_path}/{folder}/.git",), (), ())
    write_scan_record(home / ".local/share/ask/safe", [tmp_path / folder], record)
    link = tmp_path / "project" / (f"{marker}/node_modules" if "/" in folder else marker)
    link.symlink_to(tmp_path / ("runtime/node_modules" if "/" in folder else "runtime"))
    readable = confined(home, home / "work", path=f"{tmp_path}/project/bin").readable_folders
    assert [path for path in readable if path.is_relative_to(tmp_path)] == [tmp_path / "project/bin"]


def test_a_folder_of_an_earlier_run_in_a_subfolder_makes_no_project_a_toolchain(home: Path, tmp_path: Path) -> None:
    for name in ("bin", "lib/node_modules"):
        (tmp_path / "project" / name).mkdir(parents=True)
    record = ScanRecord((f"{tmp_path}/project/lib/.git",), (), ())
    write_scan_record(home / ".local/share/ask/safe", [tmp_path / "project/lib"], record)
    readable = confined(home, home / "work", path=f"{tmp_path}/project/bin").readable_folders
    assert [path for path in readable if path.is_relative_to(tmp_path)] == [tmp_path / "project/bin"]


@pytest.mark.parametrize("link", ["current", "bin/python3", "bin/node"])
@pytest.mark.parametrize("target", ["documents/x", "node/bin"])
def test_a_link_of_an_earlier_run_makes_only_toolchains_readable(
    home: Path, tmp_path: Path, link: str, target: str
) -> None:
    for name in ("project/bin", f"home/{target}", "home/node/lib/node_modules"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    record = ScanRecord((f"{tmp_path}/project/.git",), (), ())
    write_scan_record(home / ".local/share/ask/safe", [tmp_path / "project"], record)
    folder = home / target
    (tmp_path / "project" / link).symlink_to(folder if link == "current" else folder / "node")
    path = f"{tmp_path}/project/{link.partition('/')[0]}"
    readable = confined(home, home / "work", path=path).readable_folders
    assert [path for path in readable if path.is_relative_to(home)] == ([home / "node"] if "node" in target else [])


def test_a_home_in_a_readable_system_folder_is_refused(home: Path) -> None:
    folder = Path("/opt") / f"ask-test-{os.getpid()}"
    try:
        folder.mkdir()
    except PermissionError:  # then no user has files there
        return
    try:
        with pytest.raises(SafetyError, match="home directory"):
            confined(home, home / "work", environment={"HOME": str(folder), "PATH": "/usr/bin"})
        confined(home, home / "work", environment={"HOME": str(folder), "PATH": "/usr/bin"}, runs_commands=False)
    finally:
        folder.rmdir()


def test_mounts_that_only_look_like_one_of_the_home_are_not_refused(home: Path) -> None:
    """NFS says of all its mounts that their root is "/", and those of a server can have one device number."""
    (home / "ask").mkdir()
    other = home.parent / "opt"
    other.mkdir()

    def find(private: Path) -> str:
        entries = [(1, 0, "/"), (2, 1, str(home)), (3, 1, str(other))]
        mounts = [MountEntry(number, parent, "0:47", "/", point, (), "nfs4") for number, parent, point in entries]
        return find_alias(private, [other], mounts)

    assert find(home) == find(home / "ask") == ""
    (other / "ask").symlink_to(home / "ask")  # in place of a bind mount, which not every user can make
    assert find(home / "ask") == f"{other}/ask"
    assert find(home / "ask/missing/x") == f"{other}/ask/missing/x"


def test_a_folder_with_a_kernel_file_system_is_refused(
    home: Path, record_property: Callable[[str, object], None]
) -> None:
    place = home / "work/an image/proc"
    place.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "proc", "proc", str(place)], capture_output=True, check=False).returncode:
        record_property("not tried here", "a proc mounted in the folder (the kernel or a container forbids it)")
        return
    try:
        with pytest.raises(SafetyError, match="an image/proc: it belongs to the kernel"):
            confined(home, home / "work")
    finally:
        subprocess.run(["umount", str(place)], check=True)
