"""Has the installed `ask` write one of everything that it stores: `python -m tests.stored_files.generate FOLDER`.

Run it in a checkout of a version before changing how something is stored. FOLDER gets the files of its home, with paths
and addresses replaced by names, and databases as SQL.
"""

from __future__ import annotations

import shutil
import signal
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from tests import wire
from tests.cli.chat.chat_session import Chat
from tests.model_server import HOLD, ModelServer, Reply, Request
from tests.program import TEST_KEY, Ask, Home, make_home
from tests.sample_files import png

HOME_NAME, SERVER_NAME = "@HOME@", "@SERVER@"
"""Stand for the folder of the home, and for the URL of the model server."""
CONFIG = """\
# My settings.
model = "test/model"

[tools]
allow = ["git status"]  # harmless

[providers.mine]
base_url = "@SERVER@"
model = "mine/model"
key_env = "MINE_API_KEY"

[aliases]
fast = "openrouter:test/fast"
"""
TEMPLATE = """\
+++
description = "Shout"
+++
Shout this: {{input}}
"""
SKILL = """\
---
name: haiku
description: Writes haiku
---
Count the syllables.
"""
ROWS = "one\ntwo\nthree\nfour\n"


def generate(folder: Path) -> None:
    """Write the files of a home to a folder."""
    with tempfile.TemporaryDirectory() as temporary, ModelServer() as server:
        home = make_home(Path(temporary).resolve())
        ask = Ask({**home.env, "OPENROUTER_BASE_URL": server.base_url}, home.work, installed=True)
        write_settings(ask, home, server)
        write_conversations(ask, home, server)
        write_decisions(ask, home, server)
        write_job(ask, home, server)
        write_undo(ask, home, server)
        check(ask, "history", "export", "--all", "--json", "-o", "conversations.jsonl")
        check(ask, "mcp", "add", "notes", "--", "notes-server", "--path", "/srv/notes")
        for name in ("config", "data", "work"):
            export(home.path / name, folder / name, {str(home.path): HOME_NAME, server.base_url: SERVER_NAME})


def check(ask: Ask, *arguments: str, code: int = 0, stdin: bytes | None = None) -> None:
    """Run a command that must end with this code."""
    result = ask.process(*arguments, stdin=stdin)
    assert result.code == code, (arguments, result)


def write_settings(ask: Ask, home: Home, server: ModelServer) -> None:
    home.configure(CONFIG.replace(SERVER_NAME, server.base_url))
    check(ask, "config", "set", "max_rounds", "7")
    check(ask, "config", "set", "options.temperature", "0.5")
    check(ask, "keys", "set", "openrouter", stdin=TEST_KEY.encode())
    check(ask, "keys", "set", "mine", stdin=b"mine-0123456789abcdef|mine-fedcba9876543210")
    for path, text in {"templates/shout.md": TEMPLATE, "skills/haiku/SKILL.md": SKILL}.items():
        (home.config / path).parent.mkdir(parents=True)
        (home.config / path).write_text(text)


def write_conversations(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("Blue light is scattered."), wire.says("Because of its short waves."))
    check(ask, "why is the sky blue?")
    check(ask, "-c", "and why?")

    (home.work / "notes.txt").write_text("before\n")
    state = wire.detail(type="reasoning.encrypted", data="c2VjcmV0", id="r1", format="openai-responses-v1", index=0)
    write = ("write_file", {"filepath": "notes.txt", "content": "after\n"})
    call = wire.streams(wire.reasoning("I should write."), state, *wire.stream("Writing.", [write]))
    server.reply(
        call, wire.calls(("bash", {"command": "cat notes.txt; echo 数据库"})), wire.says("Wrote 数据库 notes.")
    )
    check(ask, "-y", "change the notes")

    (home.work / "dot.png").write_bytes(png())
    server.reply(wire.says("A red dot."))
    check(ask, "-f", "dot.png", "-f", "notes.txt", "-s", "Be brief.", "describe the picture")

    server.reply(wire.fails(400, "that is invalid"))
    check(ask, "a question that fails", code=6)

    server.reply(wire.streams(*map(wire.text, ["The first ", "half"]), 2.2, wire.text(" arrives"), HOLD))
    with ask.start("tell a long story") as running:
        running.wait_for("arrive")
        running.signal(signal.SIGKILL)
        running.finish()

    server.reply(wire.says("Number 1."), wire.says("Number 2."))
    with Chat(ask) as chat:
        chat.send("give me a number")
        chat.send("/retry")
        assert chat.quit().code == 0

    server.reply(wire.says("Long talk."), wire.says("Longer talk."), wire.says("They talked."), wire.says("After it."))
    check(ask, "let us talk about rivers")
    check(ask, "-c", "more about rivers")
    check(ask, "compact")
    check(ask, "-c", "after the summary")

    server.reply(*[wire.fails(503)] * 4, wire.says("I stand in."))
    check(ask, "-m", "test/gone", "--fallback", "openrouter:test/spare", "who answers?")


def write_decisions(ask: Ask, home: Home, server: ModelServer) -> None:
    """Approve a command on a terminal, trust the project's instructions, and undo in safe mode."""
    server.reply(wire.calls(("bash", {"command": "date +%Y"})), wire.says("Done."))
    with ask.start_on_terminal("--confirm", "which year?") as running:
        running.wait_for("Run this? ")
        running.type_in("m")
        running.wait_for("Which? ")
        running.type_in("6")  # the program, always
        assert running.finish().code == 0
    project = home.work / "project"
    project.mkdir()
    (project / ".git").mkdir()
    (project / "AGENTS.md").write_text("Use tabs.\n")
    server.reply(wire.says("I know."))
    inside = Ask(ask.env, project, installed=True)
    with inside.start_on_terminal("hi") as running:
        running.wait_for("AGENTS.md")
        running.type_in("y\n")
        assert running.finish().code == 0

    (project / "kept.txt").write_text("original\n")
    server.reply(wire.calls(("bash", {"command": "echo changed > kept.txt; echo new > new.txt"})), wire.says("Done."))
    check(inside, "--safe", "--no-context", "change files")


def write_undo(ask: Ask, home: Home, server: ModelServer) -> None:
    """Undo a run."""
    folder = home.work / "undone"
    folder.mkdir()
    (folder / "kept.txt").write_text("original")  # git keeps no empty folder
    server.reply(wire.calls(("write_file", {"filepath": "new.txt", "content": "new"})), wire.says("Written."))
    inside = Ask(ask.env, folder, installed=True)
    check(inside, "-y", "write a file")
    check(inside, "undo", "-y")


def write_job(ask: Ask, home: Home, server: ModelServer) -> None:
    """Interrupt a job after two rows."""

    def answer(request: Request) -> Reply:
        word = wire.asked(request.json)
        return wire.says(f"answer to {word}", whole=True) if word in ("Say one", "Say two") else Reply((HOLD,))

    (home.work / "rows.txt").write_text(ROWS)
    server.reply(answer)
    seen = len(server.requests)
    with ask.start("map", "-j", "1", "Say {{line}}", "rows.txt") as running:
        server.wait_for_requests(seen + 3)
        running.signal(signal.SIGKILL)
        running.finish()


def export(source: Path, target: Path, names: dict[str, str]) -> None:
    """Copy files; replace texts in them, and write databases as SQL."""
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        if path.is_dir() or path.name.endswith(("-wal", "-shm", ".lock", "-journal")):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".db":
            copy.with_suffix(".sql").write_text(replace_names(dump(path), names))
        elif path.suffix == ".png":
            shutil.copy(path, copy)
        else:
            copy.write_text(replace_names(path.read_text(), names))


def replace_names(text: str, names: dict[str, str]) -> str:
    for old, new in names.items():
        text = text.replace(old, new)
    return text


def dump(path: Path) -> str:
    """Return the SQL that makes a database."""
    with closing(sqlite3.connect(path)) as connection:
        tables = "SELECT name, sql FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%'"
        indexes = dict(connection.execute(tables))
        of_index = tuple(f"{verb} {name}" for verb in ("INSERT INTO", "CREATE TABLE") for name in indexes)
        skipped = (*of_index, "INSERT INTO sqlite_master", "PRAGMA writable_schema", "DELETE FROM sqlite_sequence")
        plain = str.maketrans("", "", "'\"")
        lines = [line for line in connection.iterdump() if not line.translate(plain).startswith(skipped)]
        for name, statement in indexes.items():  # a full-text index is built from the texts that it refers to
            lines += [f"{statement};", f"INSERT INTO {name} ({name}) VALUES ('rebuild');"]
        for name in ("application_id", "user_version"):
            lines.append(f"PRAGMA {name} = {connection.execute(f'PRAGMA {name}').fetchone()[0]};")
        return "\n".join(lines) + "\n"


if __name__ == "__main__":
    generate(Path(sys.argv[1]))
