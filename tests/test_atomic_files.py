"""Atomic writing: complete or not at all, locked, and private whatever the umask."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ask.atomic_files import create_private_folder, lock_file, replace_file, write_private_file
from ask.errors import FileError
from ask.regular_files import read_regular_file
from tests import wire
from tests.cli.chat.chat_session import CTRL_D, ENTER, PROMPT
from tests.model_server import ModelServer
from tests.program import ASK, Ask, Home, Running, run, run_on_terminal
from tests.slow_parameters import mark_others_slow


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0, 0o077, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[int]:
    assert tmp_path.is_dir()  # created before the umask is set, or an ordinary user could not enter it
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_private_folders_and_files_have_the_same_mode_under_every_umask(tmp_path: Path) -> None:
    create_private_folder(tmp_path / "a/b/c")
    write_private_file(tmp_path / "d/e/file", b"content")
    folders = [tmp_path / name for name in ("a", "a/b", "a/b/c", "d", "d/e")]
    assert {mode_of(folder) for folder in folders} == {0o700}
    assert mode_of(tmp_path / "d/e/file") == 0o600


def test_an_existing_folder_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o755)
    create_private_folder(tmp_path / "shared")
    create_private_folder(tmp_path / "shared/own")
    assert (mode_of(tmp_path / "shared"), mode_of(tmp_path / "shared/own")) == (0o755, 0o700)


def test_a_file_at_the_path_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    for path in (tmp_path / "file", tmp_path / "file/below"):
        with pytest.raises(NotADirectoryError):
            create_private_folder(path)
    with pytest.raises(FileError), lock_file(tmp_path / "file/below"):
        pass


def test_a_symlink_is_followed_even_if_its_target_is_missing(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("folder/target")
    for content in (b"one", b"two"):
        write_private_file(link, content)
        assert link.is_symlink()
        assert (tmp_path / "folder/target").read_bytes() == content


@pytest.mark.parametrize(("keep_mode", "mode"), [(True, 0o640), (False, 0o600)])
def test_the_mode_of_an_existing_file_is_kept_on_request(keep_mode: bool, mode: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    path.chmod(0o640)
    write_private_file(path, b"new", keep_mode=keep_mode, durable=True)
    assert (path.read_bytes(), mode_of(path)) == (b"new", mode)


def test_a_device_or_pipe_to_which_a_file_is_linked_is_not_replaced(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "config.toml"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    with pytest.raises(OSError, match="not a regular file"):
        write_private_file(link, b"content")
    assert (pipe.is_fifo(), link.is_symlink(), sorted(tmp_path.iterdir())) == (True, True, [link, pipe])


@pytest.mark.needs("root")
def test_a_cache_can_be_linked_to_the_null_device(ask: Ask, home: Home, tmp_path: Path) -> None:
    null = tmp_path / "null"
    os.mknod(null, stat.S_IFCHR | 0o666, os.stat(os.devnull).st_rdev)
    cache = Path(home.env["XDG_CACHE_HOME"], "ask", "plugins.json")
    cache.parent.mkdir()
    cache.symlink_to(null)
    result = ask("-p", "demo", "hello")
    assert (result.code, result.stderr, null.is_char_device()) == (0, "", True)


def test_a_failed_replacement_keeps_the_old_content_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def chunks() -> Iterator[bytes]:
        yield b"new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace_file(path, chunks(), None)
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"old", ["file"])


COUNT = """
import sys
from pathlib import Path
from ask.atomic_files import lock_file, write_private_file
path = Path(sys.argv[1])
for _ in range(50):
    with lock_file(path):
        write_private_file(path, str(int(path.read_text()) + 1).encode())
"""


@pytest.mark.parametrize("link", mark_others_slow([False, True]))
def test_changes_under_the_lock_are_not_lost(link: bool, tmp_path: Path) -> None:
    target = tmp_path / "folder/count"
    target.parent.mkdir()
    target.write_text("0")
    other = tmp_path / "link"
    other.symlink_to(target)
    paths = [str(target), str(other if link else target)] * 2
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda path: run([sys.executable, "-c", COUNT, path]), paths))
    assert [result.code for result in results] == [0] * 4
    assert target.read_text() == "200"


@pytest.mark.slow
def test_a_suspended_process_does_not_block_others_forever(ask: Ask, home: Home) -> None:
    script = "import sys; from pathlib import Path; from ask.atomic_files import lock_file\n"
    script += "with lock_file(Path(sys.argv[1])): print('locked', flush=True); sys.stdin.read()"
    with Running([sys.executable, "-c", script, str(home.config / "config.toml")], terminal=True) as other:
        other.wait_for("locked")
        other.signal(signal.SIGSTOP)
        for command in (["config", "set", "max_rounds", "9"], ["keys", "set", "openrouter"]):
            result = run([ASK, *command], env=ask.env, cwd=ask.cwd, stdin=b"key-0123456789", timeout=60)
            assert (result.code, str(home.config) in result.stderr) == (9, True), result.stderr
        other.signal(signal.SIGKILL)
    assert ask("config", "set", "max_rounds", "9").code == 0


@pytest.mark.slow
def test_all_files_that_ask_writes_are_private_under_a_umask_of_zero(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "seq 100000"})), wire.says("done"), wire.says("hello"))
    script = """
    rm -r "$XDG_CONFIG_HOME" "$XDG_DATA_HOME" "$XDG_CACHE_HOME"
    umask 0
    OPENROUTER_BASE_URL=http://127.0.0.1:9 ask --complete models "" openrouter
    echo key | ask keys set demo
    ask config set stdin_limit 1000
    ask templates new mine
    ask mcp add here -- sh -c 'echo broken >&2'
    ask models -p demo
    ask init bash --install
    ask hi
    ask chat
    """
    answers = [(PROMPT, "hello" + ENTER), (PROMPT, CTRL_D)]
    env = {**ask.env, "EDITOR": "true"}
    result = run_on_terminal(["bash", "-c", script], env=env, cwd=home.work, answers=answers, timeout=60)
    folders = [Path(home.env[f"XDG_{kind}_HOME"]) for kind in ("CONFIG", "DATA", "CACHE")]
    found = [path for folder in folders for path in folder.rglob("*")]
    expected = {"keys.toml", "config.toml", "mine.md", "history.db", "audit.jsonl", "plugins.json", "warned"}
    expected |= {"results", "models", "chat_history", "bash-completion", "mcp"}
    assert expected <= {path.name for path in found}, result.text
    assert [str(path) for path in found if mode_of(path) & 0o077] == []


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "hidden").symlink_to(os.devnull)
    assert [read_regular_file(tmp_path / name) for name in ("file", "hidden")] == [b"content", b""]
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless", ".", "missing"):
        with pytest.raises(OSError, match=name):
            read_regular_file(tmp_path / name)


LEASE_HOLDER = """\
import fcntl, os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("ready", flush=True)
signal.sigtimedwait([signal.SIGIO], 10)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has leases")
def test_a_file_on_which_a_server_has_a_lease_is_read_once_it_gives_that_up(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    command = [sys.executable, "-S", "-c", LEASE_HOLDER, str(tmp_path / "file")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout
        assert server.stdout.readline() == b"ready\n"
        assert read_regular_file(tmp_path / "file") == b"content"


@pytest.mark.needs("root")
def test_the_null_device_of_another_container_is_an_empty_file(tmp_path: Path) -> None:
    """`docker run -v /dev/null:FILE` mounts that of the host, which is another file than /dev/null in the container."""
    os.mknod(tmp_path / "null", stat.S_IFCHR | 0o666, os.stat(os.devnull).st_rdev)
    assert read_regular_file(tmp_path / "null") == b""


@pytest.mark.parametrize(
    ("file", "arguments", "code"),
    [
        ("CONFIG/config.toml", "-p demo hi", 4),
        ("CONFIG/keys.toml", "keys", 4),
        ("CACHE/retirements.json", "-p demo hi", 0),
        ("DATA/approvals.json", "tools approvals", 9),
        ("DATA/map.db", "--max-cost-per-day 9 -p demo hi", 9),
        ("DATA/originals/1-a/journal", "undo --list", 9),
    ],
)
def test_a_named_pipe_in_place_of_a_stored_file_is_not_waited_for(
    ask: Ask, home: Home, file: str, arguments: str, code: int
) -> None:
    kind, _, name = file.partition("/")
    path = Path(home.env[f"XDG_{kind}_HOME"], "ask", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    result = ask(*arguments.split())
    assert (result.code, code == 0 or str(path) in result.stderr) == (code, True), result.stderr
