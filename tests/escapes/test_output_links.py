"""Links that a call leaves in the folder, on the way to a file that the user names as the output of a later command."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import program, wire
from tests.escapes.safe_runs import bash, build_environment, run
from tests.model_server import ModelServer, Reply, Request
from tests.safety.fake_host import TOKEN, FakeHost
from tests.safety.installation import as_user, installation
from tests.slow_parameters import mark_others_slow

pytestmark = pytest.mark.needs("bwrap")
COMMANDS = {
    "record": ("--record", "{}", "hi"),
    "map": ("map", "Say {{line}}", "-O", "{}", "--fresh", "in.txt"),
    "report": ("map", "Say {{line}}", "--report", "{}", "in.txt"),
    "export": ("history", "export", "--all", "-o", "{}"),
}
READING_MAP = ("map", "Say {{line}}", "{}")
LINKS = {
    "a file": ("ln -s ../outside/secret.jsonl out.jsonl", "out.jsonl"),
    "a new file": ("ln -s ../outside/new.jsonl out.jsonl", "out.jsonl"),
    "a chain": ("ln -s ../outside/new.jsonl b; ln -s $PWD/b out.jsonl", "out.jsonl"),
    "a folder": ("ln -s ../outside recs", "recs/secret.jsonl"),
    "a folder below": ("mkdir a; ln -s ../../outside a/recs", "notes/../a/recs/new.jsonl"),
    "a link inside": ("mkdir a; ln -s a recs", "recs/new.jsonl"),
}
COMMON_LINKS = ("a chain", "a folder below")


@pytest.fixture(autouse=True)
def files(host: FakeHost) -> None:
    (host.base / "outside/secret.jsonl").write_text(TOKEN)
    (host.work / "in.txt").write_text("a\nb\n")
    (host.work / "notes").mkdir()
    host.change_owner()


def answer(request: Request) -> Reply:
    return wire.whole_reply(wire.answer("Hi.")) if not request.json.get("stream") else wire.says("Hi.")


def run_command(host: FakeHost, command: Sequence[str], output: str) -> program.Result:
    with ModelServer() as server:
        server.reply(answer)
        words = [output if word == "{}" else word for word in command]
        prefix = [*as_user(host.user), installation(host.user).ask]
        return program.run([*prefix, *words], env=build_environment(host, server), cwd=host.work)


def read_outside(host: FakeHost) -> dict[str, str]:
    return {path.name: path.read_text() for path in (host.base / "outside").iterdir() if path.is_file()}


@pytest.mark.slow_after_first
@pytest.mark.parametrize("name", mark_others_slow(LINKS, COMMON_LINKS))
def test_no_output_follows_a_link_that_a_call_has_left(host: FakeHost, name: str) -> None:
    script, output = LINKS[name]
    assert run(host, bash(script), "--safe").result.code == 0
    before = read_outside(host)
    for command in COMMANDS.values():
        result = run_command(host, command, output)
        assert result.code == 9, result.stderr
        assert "symbolic link" in result.stderr
    assert read_outside(host) == before
    assert not list(Path(host.work, "a").glob("*.jsonl"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        *(("-f", "notes.md"), ("-f", "*.md"), ("-f", "recs"), ("-f", "recs/secret.jsonl", "--safe")),
        *(("-C", "recs", "-f", "secret.jsonl"), ("-C", "recs", "-f", "."), ("-C", "recs", "-f", "git:HEAD")),
    ],
)
def test_no_file_is_attached_through_a_link_that_a_call_has_left(host: FakeHost, options: tuple[str, ...]) -> None:
    script = "ln -s ../outside recs; ln -s recs/secret.jsonl notes.md; ln -s in.txt inside.txt; ln -s .env my.env"
    assert run(host, bash(script), "--safe").result.code == 0
    refused, followed = run(host, [], *options), run(host, [], "-f", "inside.txt", "-f", "my.env")
    assert (refused.result.code, refused.requests) == (9, 0)
    assert "symbolic link" in refused.result.stderr
    assert run_command(host, READING_MAP, "notes.md").code == 9
    assert (followed.result.code, followed.requests) == (0, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [("-s", "@notes.md"), ("--schema", "@notes.md"), ("--schema", "sub/schema.json"), ("-f", "README")],
    ids="_".join,
)
def test_no_text_is_read_through_a_link_that_a_call_has_left(host: FakeHost, options: tuple[str, ...]) -> None:
    script = (
        "ln -s ../outside/secret.jsonl notes.md; mkdir sub; ln -s ../notes.md sub/schema.json; ln -s new/.env README"
    )
    assert run(host, bash(script), "--safe").result.code == 0
    (host.work / "new").mkdir()
    (host.work / "new/.env").write_text(TOKEN)
    host.change_owner()
    result = run(host, [], *options)
    assert (result.result.code, result.requests) == (9, 0)
    assert "symbolic link" in result.result.stderr


@pytest.mark.slow
def test_no_output_is_written_in_a_folder_entered_by_such_a_link(host: FakeHost) -> None:
    assert run(host, bash("ln -s ../outside recs"), "--safe").result.code == 0
    before = read_outside(host)
    for command in (COMMANDS["record"], COMMANDS["export"]):
        assert run_command(host, ("-C", "recs", *command), "new.jsonl").code == 9
    assert read_outside(host) == before


@pytest.mark.slow
def test_the_users_older_links_are_followed(host: FakeHost) -> None:
    for name in ("own", "moved"):
        (host.work / name).symlink_to("../outside")
    host.change_owner()
    assert run(host, bash("mv moved recs"), "--safe").result.code == 0
    for options in (("-f", "own/secret.jsonl"), ("-f", "in.txt", "--record", "own/new.jsonl")):
        assert run(host, [], *options).result.code == 0
    for options in (("-f", "recs/secret.jsonl"), ("-f", "in.txt", "--record", "recs/new.jsonl")):
        assert run(host, [], *options).result.code == 9


@pytest.mark.slow
@pytest.mark.parametrize(("options", "directory"), [(("--workdir-template", "recs"), "work"), ((), "work/recs")])
def test_no_row_gets_a_copy_of_a_folder_to_which_such_a_link_leads(
    host: FakeHost, options: tuple[str, ...], directory: str
) -> None:
    assert run(host, bash("ln -s ../outside recs"), "--safe").result.code == 0
    for level in ("--safe", "--safe-files"):
        words = ("-C", str(host.base / directory), "map", "--tools", level, *options, "Say {{line}}", "{}")
        result = run_command(host, words, str(host.work / "in.txt"))
        assert result.code == 9
        assert "symbolic link" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", LINKS)
def test_where_no_call_could_write_links_are_followed(host: FakeHost, name: str) -> None:
    assert run(host, [], "--safe", directory=host.base / "work_evil").result.code == 0
    script, output = LINKS[name]
    subprocess.run([*as_user(host.user), "bash", "-c", script], cwd=host.work, check=True)
    contents = {TOKEN}
    for command in COMMANDS.values():
        result = run_command(host, command, output)
        assert result.code == 0, result.stderr
        contents.add((host.work / output).resolve().read_text())
    assert len(contents) == 1 + len(COMMANDS)


@pytest.mark.slow
def test_a_call_of_the_same_run_cannot_redirect_a_recording(host: FakeHost) -> None:
    (host.work / "recs").mkdir()
    host.change_owner()
    done = run(host, bash("mv recs r; ln -s ../outside recs"), "--safe", "--record", "recs/new.jsonl")
    assert done.result.code == 9, done.result.stderr
    assert "new.jsonl" not in read_outside(host)


@pytest.mark.slow
@pytest.mark.parametrize(("option", "change"), [("--safe", "rm f"), ("--safe", ""), ("--safe-files", "")])
def test_undo_restores_nothing_through_a_link_that_a_later_run_has_left(
    host: FakeHost, option: str, change: str
) -> None:
    """The first run works in a folder of the second, which replaces it by a link to another one with such a file."""
    folder, target = host.work / "a/bin", host.base / "outside/bin"
    folder.mkdir(parents=True)
    (folder / "f").write_text("from the model\n")
    target.mkdir()
    if not change:
        (target / "f").write_text("x")
    host.change_owner()
    before = {path.name: path.read_text() for path in target.iterdir()}
    calls = bash(change) if change else [("write_file", {"filepath": "f", "content": "x"})]
    assert run(host, calls, option, directory=folder).result.code == 0
    with ModelServer() as server:
        ask = [*as_user(host.user), installation(host.user).ask]
        environment = build_environment(host, server)
        listing = program.run([*ask, "history", "list"], env=environment, cwd=host.work).stdout
        assert run(host, bash("mv a b; ln -s ../outside a"), "--safe").result.code == 0
        undo = [*ask, "undo", "-y", listing.split()[1].decode()]
        result = program.run(undo, env=environment, cwd=host.base)
        assert result.code == 9, result.stderr
        assert {path.name: path.read_text() for path in target.iterdir()} == before
        (host.work / "a").unlink()
        (host.work / "b").rename(host.work / "a")
        assert program.run(undo, env=environment, cwd=host.base).code == 0
    assert (folder / "f").read_text() == "from the model\n"
