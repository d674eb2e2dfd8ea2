"""The arguments for bubblewrap are complete and in the right order."""

from __future__ import annotations

from pathlib import Path

from ask.safety.bubblewrap import build_bubblewrap_arguments
from ask.safety.mounts import BindMount, list_bind_mounts
from ask.safety.sandbox_config import HostFilesystem, Limits, SandboxConfig

HOME = Path("/home/u")
CONFINEMENT = SandboxConfig(
    working_directory=HOME / "work",
    allowed_folders=(HOME / "more", HOME / "work/inner"),
    readable_folders=(HOME / "python", HOME / "work/.venv"),
    secret_folders=(HOME / ".config/ask",),
    overflow_directory=HOME / ".local/share/ask/results",
    state_folder=HOME / ".local/share/ask/safe",
    home=HOME,
    environment={},
    limits=Limits(temporary_size=1000),
)
VIEW = HostFilesystem(
    root_links=(("usr/bin", Path("/bin")),),
    system_folders=(Path("/etc"), Path("/usr")),
    pinned_folders=(HOME / "work/a",),
    protected_paths=(HOME / "work/.git",),
    hidden_files=(HOME / "work/.env", Path("/etc/shadow")),
    hidden_folders=(Path("/etc/private"),),
)
ARGUMENTS = build_bubblewrap_arguments(CONFINEMENT, VIEW, ["python", "-c", "x"], filter_fd=7, info_fd=8, mounted_fd=9)


def place(*words: str) -> int:
    """Return the index of consecutive arguments."""
    return next(at for at in range(len(ARGUMENTS)) if ARGUMENTS[at : at + len(words)] == list(words))


def test_all_isolation_options_are_set() -> None:
    for wall in (
        *("--unshare-user", "--disable-userns", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-net"),
        *("--unshare-cgroup-try", "--new-session", "--die-with-parent", "--as-pid-1"),
    ):
        assert place(wall) < place("--proc")
    assert place("--cap-drop", "ALL") < place("--seccomp", "7") < place("--info-fd", "8")
    assert not {"--share-net", "--dev-bind", "--cap-add", "--bind-try"} & set(ARGUMENTS)


def test_only_writable_folders_are_mounted_writable() -> None:
    writable = [ARGUMENTS[at + 1] for at, word in enumerate(ARGUMENTS) if word == "--bind"]
    assert writable == [str(HOME / "more"), str(HOME / "work"), str(HOME / "work/a"), str(HOME / "work/inner")]


def test_later_mounts_cover_earlier_ones() -> None:
    order = [
        place("--proc", "/proc"),
        place("--size", "1000", "--perms", "1777", "--tmpfs", str(HOME)),
        place("--ro-bind", "/usr", "/usr"),
        place("--ro-bind", f"{HOME}/python", f"{HOME}/python"),
        place("--bind", f"{HOME}/work", f"{HOME}/work"),
        place("--bind", f"{HOME}/work/inner", f"{HOME}/work/inner"),
        place("--ro-bind", f"{HOME}/work/.git", f"{HOME}/work/.git"),
        place("--ro-bind", "/dev/null", f"{HOME}/work/.env"),
        place("--ro-bind", f"{HOME}/.local/share/ask/results", f"{HOME}/.local/share/ask/results"),
        place("--tmpfs", "/etc/private", "--remount-ro", "/etc/private"),
        place("--file", "9", "/run/ask-sandbox"),
        place("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"),
        place("--chdir", f"{HOME}/work", "--", "python", "-c", "x"),
    ]
    assert order == sorted(order)


def test_paths_in_a_writable_folder_are_not_mounted_twice() -> None:
    assert f"{HOME}/work/.venv" not in ARGUMENTS


def test_mounts_that_a_later_one_covers_are_omitted() -> None:
    view = VIEW._replace(protected_paths=(HOME / "work/a/.git", HOME / "work/a"), hidden_files=(HOME / "work/a/.env",))
    sandbox_config = CONFINEMENT._replace(allowed_folders=(HOME / "work/a/b",))
    below = [
        bind for bind in list_bind_mounts(sandbox_config, view) if bind.destination.is_relative_to(HOME / "work/a")
    ]
    assert below == [
        BindMount(HOME / "work/a", HOME / "work/a", writable=True),
        BindMount(HOME / "work/a", HOME / "work/a"),
        BindMount(Path("/dev/null"), HOME / "work/a/.env"),
    ]
