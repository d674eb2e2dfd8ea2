"""The file tools confined by path checks: real files, links and hard links, and folders swapped while they run."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ask.errors import SafetyError
from ask.safety.approval_preview import build_preview
from ask.safety.file_confinement import FileConfinement, normalize_name
from ask.safety.protected_paths import PROTECTED_NAMES
from ask.safety.sandbox_folders import build_sandbox_config
from ask.safety.tool_policy import PendingToolCall
from ask.tools.base import RunToolContext, ToolError
from ask.tools.definitions import EDIT_FILE, LIST_DIR, READ_FILE, WRITE_FILE
from tests.safety.scanned_folders import Folders
from tests.slow_parameters import mark_others_slow

TURNS = 300
TOOLS = {tool.spec.name: tool for tool in (READ_FILE, WRITE_FILE, EDIT_FILE, LIST_DIR)}


class Host(Folders):
    """A machine with a home, ask's own folders, a folder of the run and one outside it."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.outside = base / "outside"
        self.outside.mkdir()
        (base / "config/keys.toml").write_text("OUTSIDE key")
        (self.outside / "file").write_text("OUTSIDE")
        self.confinement: FileConfinement | None = None
        self.backed_up: list[Path] = []

    def confine(self, *allowed: Path) -> FileConfinement:
        """Confine the tools to the folder of the run and others, as they are now."""
        self.close()
        config = build_sandbox_config(
            self.work,
            allowed,
            config_dir=self.base / "config",
            cache_dir=self.base / "cache",
            data_dir=self.base / "data",
            overflow_directory=self.base / "data/results/x",
            environment={"PATH": os.environ["PATH"], "HOME": str(self.base / "home")},
            runs_commands=False,
        )
        self.confinement = FileConfinement(config)
        return self.confinement

    @property
    def context(self) -> RunToolContext:
        confinement = self.confinement or self.confine()
        return RunToolContext(
            self.work,
            {},
            10,
            self.base / "data/results/x",
            print,
            before_write=lambda path, *_: self.backed_up.append(path),
            keep_hard_links=False,
            confinement=confinement.context,
        )

    def call(self, tool: str, path: Path | str, **arguments: str) -> str:
        name = "dirpath" if tool == "list_dir" else "filepath"
        return TOOLS[tool].run({name: str(path), **arguments}, self.context).text

    def denied(self, tool: str, path: Path | str, **arguments: str) -> str:
        with pytest.raises(ToolError) as caught:
            self.call(tool, path, **arguments)
        return str(caught.value)

    def close(self) -> None:
        if self.confinement:
            self.confinement.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path)
    yield host
    host.close()


# Inside


def test_files_in_the_folders_can_be_read_written_and_listed(host: Host) -> None:
    more = host.base / "more"
    more.mkdir()
    host.confine(more)
    for path in ("a/b/file", host.work / "file", more / "file", "../more/new/file", "a/../b", "./c"):
        assert host.call("write_file", path, content="one two").startswith("created ")
        assert host.call("edit_file", path, old_text="two", new_text="three").startswith("edited ")
        assert host.call("read_file", path) == "one three"
    assert host.call("list_dir", ".").splitlines() == ["dir a", "file 9 b", "file 9 c", "file 9 file"]
    assert host.call("list_dir", "../more") == "file 9 file\ndir new"
    assert host.call("list_dir", "a") == "dir b"
    assert host.backed_up[-1] == host.work / "c"
    assert (more / "new/file").read_text() == "one three"


def test_links_within_the_folders_are_followed(host: Host) -> None:
    more = host.base / "more"
    more.mkdir()
    host.write("work/real/file", "inside")
    (host.work / "relative").symlink_to("real")
    (host.work / "absolute").symlink_to(host.work / "relative/../real/file")
    (host.work / "across").symlink_to(more)
    host.confine(more)
    assert host.call("read_file", "relative/file") == host.call("read_file", "absolute") == "inside"
    assert host.call("read_file", "relative/../real/file") == "inside"
    host.call("write_file", "absolute", content="new")
    host.call("write_file", "across/file", content="more")
    assert (host.work / "absolute").is_symlink()
    assert (host.work / "real/file").read_text() == "new"
    assert (more / "file").read_text() == "more"
    assert host.call("list_dir", ".").splitlines()[1] == "link across -> " + str(more)
    assert host.backed_up == [host.work / "real/file", more / "file"]


def test_errors_about_missing_files_help_as_they_do_without_safe_mode(host: Host) -> None:
    host.write("work/settings.py")
    assert "settings.py" in host.denied("read_file", "setings.py")
    assert "no such file" in host.denied("read_file", "missing/settings.py")
    assert "no such file" in host.denied("read_file", "missing/../settings.py")
    assert "no such directory" in host.denied("list_dir", "missing/folder")
    assert "a directory" in host.denied("read_file", ".")
    assert "not a directory" in host.denied("list_dir", "settings.py")
    assert "is a file" in host.denied("read_file", "settings.py/x")


def test_long_results_of_the_run_can_be_read_but_not_written(host: Host) -> None:
    host.confine()
    path = host.write("data/results/x/result-1.txt", "long")
    assert host.call("read_file", path) == "long"
    assert "read-only" in host.denied("write_file", path, content="x")
    host.denied("read_file", host.write("data/results/y/result-1.txt"))


# Outside


@pytest.mark.parametrize(
    "path", ["../outside/file", "@/outside/file", "a/../../outside/file", "@/config/keys.toml", "/etc/passwd"]
)
def test_nothing_outside_the_folders_can_be_reached(host: Host, path: str) -> None:
    (host.work / "a").mkdir()
    path = path.replace("@", str(host.base))
    for tool, arguments in (
        ("read_file", {}),
        ("write_file", {"content": "x"}),
        ("edit_file", {"old_text": "OUTSIDE", "new_text": "x"}),
        ("list_dir", {}),
    ):
        message = host.denied(tool, path, **arguments)
        assert "outside the folders" in message
        assert str(host.work) in message
    assert (host.outside / "file").read_text() == "OUTSIDE"


def test_links_that_lead_outside_are_not_followed(host: Host) -> None:
    (host.outside / "back").symlink_to(host.work)
    for name, target in {
        "file": host.outside / "file",
        "relative": Path("../outside/file"),
        "folder": host.outside,
        "chain": Path("folder/file"),
        "new": host.outside / "new",
        "system": Path("/etc/passwd"),
        "loop": Path("loop"),
    }.items():
        (host.work / name).symlink_to(target)
    for path in ("file", "relative", "folder/file", "chain", "new", "folder/new", "folder/back/x", "system", "loop"):
        assert "OUTSIDE" not in host.denied("read_file", path)
        host.denied("write_file", path, content="x")
        host.denied("edit_file", path, old_text="OUTSIDE", new_text="x")
        preview = build_preview(
            PendingToolCall("write_file", {"filepath": path, "content": "x"}, host.context), lambda _: True
        )
        assert "OUTSIDE" not in str(preview)
    assert "outside the folders" in host.denied("list_dir", "folder")
    assert sorted(path.name for path in host.outside.iterdir()) == ["back", "file"]
    assert (host.outside / "file").read_text() == "OUTSIDE"
    assert host.backed_up == []


def test_an_error_does_not_tell_whether_a_path_outside_exists(host: Host) -> None:
    (host.work / "link").symlink_to(host.outside / "file")
    (host.work / "dangling").symlink_to(host.outside / "file2")
    there, missing = host.denied("read_file", "../outside/file"), host.denied("read_file", "../outside/file2")
    assert missing == there.replace("outside/file ", "outside/file2 ")
    there, missing = host.denied("read_file", "link"), host.denied("read_file", "dangling")
    assert missing == there.replace("outside/file ", "outside/file2 ")


def test_a_write_breaks_a_hard_link_that_leads_outside(host: Host) -> None:
    os.link(host.outside / "file", host.work / "written")
    os.link(host.outside / "file", host.work / "edited")
    host.call("write_file", "written", content="new")
    host.call("edit_file", "edited", old_text="OUTSIDE", new_text="new")
    assert (host.work / "written").read_text() == (host.work / "edited").read_text() == "new"
    assert (host.outside / "file").read_text() == "OUTSIDE"


def test_special_files_are_not_opened(host: Host) -> None:
    os.mkfifo(host.work / "pipe")
    assert "FIFO" in host.denied("read_file", "pipe")
    assert "FIFO" in host.denied("write_file", "pipe", content="x")
    assert "not a directory" in host.denied("list_dir", "pipe")


# Protected and hidden


@pytest.mark.slow_after_first
@pytest.mark.parametrize("name", [entry.name.replace("*", "my") for entry in PROTECTED_NAMES])
@pytest.mark.parametrize("folder", mark_others_slow(["", "deep/down/"], ["deep/down/"]))
def test_protected_names_cannot_be_written_whether_they_exist_or_not(host: Host, name: str, folder: str) -> None:
    for path in (f"{folder}{name}", f"{folder}{name}/hooks/x", f"{folder}{name.upper()}"):
        message = host.denied("write_file", path, content="x")
        assert "safe mode" in message
        assert not (host.work / path).exists()
    host.confinement = host.confine()
    if name != ".envrc":
        host.write(f"work/{folder}{name}", "readable")
        assert host.call("read_file", f"{folder}{name}") == "readable"
        host.denied("edit_file", f"{folder}{name}", old_text="readable", new_text="x")


def test_a_link_does_not_unprotect_what_it_leads_to_or_its_own_name(host: Host) -> None:
    host.git("init")
    host.write("work/shared/settings.json")
    (host.work / ".vscode").symlink_to("shared")
    (host.work / "innocent").symlink_to(".git/hooks")
    host.denied("write_file", "innocent/pre-commit", content="x")
    host.denied("write_file", ".vscode/settings.json", content="x")
    host.denied("write_file", "shared/settings.json", content="x")
    assert not (host.work / ".git/hooks/pre-commit").exists()


def test_what_git_will_run_is_protected(host: Host) -> None:
    host.git("init")
    host.git("config", "core.hooksPath", "tools/hooks")
    host.git("config", "core.fsmonitor", "tools/monitor")
    host.git("config", "include.path", "../more.gitconfig")
    host.confine()
    for path in ("tools/hooks/pre-commit", "tools/monitor", "more.gitconfig", ".git/config", "Tools/Hooks/post-merge"):
        assert "read-only in safe mode" in host.denied("write_file", path, content="x")
    assert host.call("write_file", "tools/other", content="x").startswith("created ")
    assert sorted(path.name for path in host.work.iterdir()) == [".git", "tools"]


def test_files_with_secrets_are_hidden_everywhere(host: Host) -> None:
    names = (".env", ".env.local", "prod.env", ".envrc", "deep/.ENV", "node_modules/x/.env")
    for name in names:
        host.write(f"work/{name}", "SECRET")
    host.write("work/vault/secrets.txt", "SECRET")
    (host.work / "app").mkdir()
    (host.work / "app/.env").symlink_to("../vault/secrets.txt")
    host.write("work/.env.d/key", "SECRET")
    host.confine()
    for name in (*names, "app/.env", "vault/secrets.txt", "vault/SECRETS.TXT", ".env.d/key"):
        assert "hidden" in host.denied("read_file", name)
        assert "hidden" in host.denied("write_file", name, content="x")
    assert "hidden" in host.denied("list_dir", ".env.d")
    host.write("work/later/.env", "SECRET")
    assert "hidden" in host.denied("read_file", "later/.env")
    (host.work / "alias").symlink_to("later/.env")
    assert "hidden" in host.denied("read_file", "alias")


def test_hard_links_to_hidden_files_cannot_be_read(host: Host) -> None:
    hidden = ("config/keys.toml", "data/history.db", "data/originals/1/1", "work/.env", "work/.env.d/key")
    for number, name in enumerate(hidden):
        os.link(host.write(name, "SECRET"), host.work / f"notes {number}")
    os.link(host.outside / "file", host.work / "package")
    host.confine()
    for number in range(len(hidden)):
        assert "hidden" in host.denied("read_file", f"notes {number}")
        assert "hidden" in host.denied("edit_file", f"notes {number}", old_text="SECRET", new_text="x")
    assert host.call("read_file", "package") == "OUTSIDE"
    (host.base / "config/keys.toml").unlink()
    assert host.call("read_file", "notes 0") == "SECRET", "it is no longer one of ask's own files"
    host.call("write_file", "notes 1", content="x")
    assert (host.base / "data/history.db").read_text() == "SECRET"


def test_a_virtual_environment_named_env_is_not_hidden(host: Host) -> None:
    host.write("work/.env/pyvenv.cfg")
    host.write("work/.env/lib/x.py", "code")
    assert host.call("read_file", ".env/lib/x.py") == "code"


@pytest.mark.parametrize("name", [".Git", ".gi\u200ct", ".\ufeffgit", ".hu\u017fky", ".hus\u212ay"])
def test_names_that_macos_takes_for_a_protected_one_are_normalized(name: str) -> None:
    assert normalize_name(name) in {".git", ".husky"}


def test_a_folder_that_cannot_be_confined_is_refused(host: Host) -> None:
    for folder in (host.base / "home", host.base / "config", host.base / "data", host.base, Path("/"), Path("/etc")):
        with pytest.raises(SafetyError):
            host.confine(folder)
    host.confinement = None


def test_closing_leaves_nothing(host: Host) -> None:
    before = len(os.listdir("/dev/fd"))
    host.confine().close()
    host.confinement = None
    assert list(host.work.iterdir()) == []
    assert not (host.base / "data/results/x").exists()
    assert len(os.listdir("/dev/fd")) == before


def test_calls_close_what_they_open(host: Host) -> None:
    host.write("work/a/b/file")
    (host.work / "link").symlink_to("a/b/../b/file")
    (host.work / "out").symlink_to(host.outside)
    host.confine()
    before = len(os.listdir("/dev/fd"))
    for path in ("link", "a/b/file", "out/file", "missing/x", "a/b/file/x", "..", ".git/x", "a"):
        for tool, arguments in (("read_file", {}), ("write_file", {"content": "x"}), ("list_dir", {})):
            with suppress(ToolError):
                host.call(tool, path, **arguments)
    assert len(os.listdir("/dev/fd")) == before


def test_the_self_test_passes(host: Host) -> None:
    assert [prevented for _, prevented in host.confine().run_self_test()] == [True] * 4
    assert list((host.base / "data/results/x").iterdir()) == []


# Races


@contextmanager
def swapping(exchange: Callable[[], None]) -> Iterator[None]:
    """Call a function over and over in a thread, until the end of the context."""
    stopped = threading.Event()

    def run() -> None:
        while not stopped.is_set():
            exchange()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def swap(path: Path, folder: Path, link: Path) -> Callable[[], None]:
    """Return a function that puts the link in the place of the folder, and then the folder back."""

    def exchange() -> None:
        for source, target in ((path, folder), (link, path), (path, link), (folder, path)):
            while True:
                try:
                    source.rename(target)
                    break
                except OSError:  # a call has created the missing folder
                    shutil.rmtree(target, ignore_errors=True)

    return exchange


@pytest.mark.slow
def test_a_folder_swapped_for_a_link_leads_nowhere(host: Host) -> None:
    host.write("work/sub/inner/file", "inside")
    (host.outside / "inner").mkdir()
    (host.outside / "inner/file").write_text("OUTSIDE")
    link = host.work / "link"
    link.symlink_to(host.outside)
    host.confine()
    reached = 0
    with swapping(swap(host.work / "sub", host.work / "sub2", link)):
        for turn in range(TURNS):
            for tool, path, arguments in (
                ("read_file", "sub/inner/file", {}),
                ("list_dir", "sub", {}),
                ("write_file", "sub/inner/file", {"content": f"inside {turn}"}),
                ("write_file", f"sub/made/{turn}", {"content": "inside"}),
                ("edit_file", "sub/inner/file", {"old_text": "inside", "new_text": "inside "}),
            ):
                with suppress(ToolError):
                    result = host.call(tool, path, **arguments)
                    assert "OUTSIDE" not in result
                    reached += 1
    assert reached, "no call got through"
    assert sorted(str(path.relative_to(host.outside)) for path in host.outside.rglob("*")) == [
        "file",
        "inner",
        "inner/file",
    ]
    assert (host.outside / "inner/file").read_text() == (host.outside / "file").read_text() == "OUTSIDE"


@pytest.mark.slow
def test_a_file_swapped_for_a_link_leads_nowhere(host: Host) -> None:
    file, link = host.write("work/file", "inside"), host.work / "link"
    link.symlink_to(host.outside / "file")
    host.confine()
    reached = 0
    with swapping(swap(file, host.work / "file2", link)):
        for _ in range(TURNS):
            for tool, arguments in (
                ("read_file", {}),
                ("write_file", {"content": "inside"}),
                ("edit_file", {"old_text": "OUTSIDE", "new_text": "changed"}),
            ):
                with suppress(ToolError, OSError):
                    assert "OUTSIDE" not in host.call(tool, "file", **arguments)
                    reached += 1
    assert reached, "no call got through"
    assert (host.outside / "file").read_text() == "OUTSIDE"


def test_a_file_swapped_for_a_hard_link_to_a_hidden_file_is_not_read(host: Host) -> None:
    file, link = host.write("work/file", "inside"), host.work / "link"
    os.link(host.base / "config/keys.toml", link)
    host.confine()
    reached = 0
    with swapping(swap(file, host.work / "file2", link)):
        for _ in range(TURNS):
            with suppress(ToolError):
                assert "OUTSIDE" not in host.call("read_file", "file")
                reached += 1
    assert reached, "no call got through"


def test_a_folder_that_is_itself_replaced_stays_the_folder_of_the_run(host: Host) -> None:
    host.write("work/file", "inside")
    host.confine()
    host.work.rename(host.base / "moved")
    host.work.symlink_to(host.outside)
    assert host.call("read_file", "file") == "inside"
    host.call("write_file", "new", content="x")
    assert not (host.outside / "new").exists()
    assert (host.base / "moved/new").exists()
