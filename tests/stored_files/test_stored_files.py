"""What a user has stored is there after an upgrade: the files of earlier versions, opened with this one."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from ask.history.store import SCHEMA_VERSION
from tests import wire
from tests.history.test_damaged_files import in_a_world
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home, Running, make_home
from tests.stored_files.generate import CONFIG, HOME_NAME, SERVER_NAME

FOLDER = Path(__file__).parent
VERSIONS = sorted(path.name for path in FOLDER.iterdir() if (path / "config").is_dir())
EXPORTS = sorted(FOLDER.glob("*/work/conversations.jsonl"))
TITLES = {
    "why is the sky blue?",
    "change the notes",
    "a question that fails",
    "tell a long story",
    "give me a number",
    "let us talk about rivers",
    "who answers?",
    "which year?",
    "hi",
    "change files",
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home whose data are next to its other folders, as the files name them."""
    return make_home(tmp_path)


@pytest.fixture(params=VERSIONS)
def ask(request: pytest.FixtureRequest, home: Home, server: ModelServer) -> Ask:
    """The program in a home with the files of a version."""
    restore(Path(__file__).parent / request.param, home, {HOME_NAME: str(home.path), SERVER_NAME: server.base_url})
    return Ask({**home.env, "OPENROUTER_BASE_URL": server.base_url}, home.work)


@pytest.fixture
def fine(server: ModelServer) -> None:
    server.reply(wire.says("Fine."))


def restore(source: Path, home: Home, names: Mapping[str, str]) -> None:
    """Write the files to a home, with its own paths and addresses."""
    now = time.time_ns()
    for path in sorted(source.rglob("*")):
        copy = home.path / path.relative_to(source)
        if path.is_dir():
            copy.mkdir(exist_ok=True)
        elif path.suffix == ".png":
            shutil.copy(path, copy)
        else:
            text = path.read_text()
            for name, value in names.items():
                text = text.replace(name, value)
            if path.suffix == ".sql":
                with closing(sqlite3.connect(copy.with_suffix(".db"))) as connection:
                    connection.execute("PRAGMA journal_mode = WAL")
                    connection.executescript(text)
            else:
                copy.write_text(text)
    for place, folder in enumerate(sorted((home.data / "originals").glob("0*"))):  # those of long ago are removed
        folder.rename(folder.with_name(f"{now + place:020}-{folder.name.partition('-')[2]}"))
    (home.work / "project" / ".git").mkdir()


def sent_texts(server: ModelServer) -> list[str]:
    """Return the texts of the last request's messages, without the system prompt."""
    body = server.requests[-1].json
    return [
        wire.asked(body, place) if message["content"] else ""
        for place, message in enumerate(body["messages"])
        if message["role"] != "system"
    ]


def identify(ask: Ask, title: str) -> str:
    overviews = json.loads(ask("history", "list", "--json").stdout)
    return next(str(one["id"]) for one in overviews if one["title"].startswith(title))


@pytest.mark.slow_after_first
def test_all_conversations_are_listed_shown_and_exported(ask: Ask) -> None:
    overviews = json.loads(ask("history", "list", "--json").stdout)
    assert {one["title"] for one in overviews} >= TITLES
    for one in overviews:
        shown = ask("history", "show", one["id"])
        assert (shown.code, shown.stderr) == (0, "")
        assert one["title"].split()[0] in shown.text
    assert "that is invalid" in ask("history", "show", identify(ask, "a question that fails")).text
    assert len(ask("history", "export", "--all", "--json").text.splitlines()) == len(overviews)


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (["rivers", "let"], "let us talk about rivers"),
        (["scattered"], "why is the sky blue?"),
        (["数据库"], "change the notes"),
        (["库"], "change the notes"),
    ],
)
def test_conversations_are_found(ask: Ask, words: list[str], title: str) -> None:
    (hit,) = json.loads(ask("history", "search", "--json", *words).stdout)
    assert hit["title"] == title


@pytest.mark.usefixtures("fine")
def test_the_indexes_match_the_messages(ask: Ask, home: Home) -> None:
    assert ask("-c", "and now?").code == 0
    assert ask("history", "delete", "-y", identify(ask, "change the notes")).code == 0
    with closing(sqlite3.connect(home.data / "history.db")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        for index in ("texts", "trigrams"):
            connection.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.usefixtures("fine")
@pytest.mark.parametrize(
    ("title", "texts"),
    [
        (
            "why is the sky blue?",
            ["why is the sky blue?", "Blue light is scattered.", "and why?", "Because of its short waves."],
        ),
        ("give me a number", ["give me a number", "Number 2."]),
        ("who answers?", ["who answers?", "I stand in."]),
    ],
)
def test_conversations_continue(ask: Ask, server: ModelServer, title: str, texts: list[str]) -> None:
    assert ask("--resume", identify(ask, title), "go on").text == "Fine.\n"
    assert sent_texts(server) == [*texts, "go on"]


@pytest.mark.usefixtures("fine")
def test_a_conversation_continues_with_its_tool_calls_and_the_state_of_its_provider(
    ask: Ask, server: ModelServer
) -> None:
    assert ask("--resume", identify(ask, "change the notes"), "go on").code == 0
    messages = server.requests[-1].json["messages"]
    (write,) = [message for message in messages if message.get("content") == "Writing."]
    assert write["reasoning_details"][0]["data"] == "c2VjcmV0"
    assert json.loads(write["tool_calls"][0]["function"]["arguments"]) == {
        "filepath": "notes.txt",
        "content": "after\n",
    }
    assert any(message["role"] == "tool" and "数据库" in message["content"] for message in messages)


@pytest.mark.usefixtures("fine")
def test_a_conversation_continues_with_its_attachments(ask: Ask, server: ModelServer) -> None:
    assert ask("--resume", identify(ask, "describe the picture"), "go on").code == 0
    content = str(server.requests[-1].json["messages"])
    assert "data:image/png;base64," in content
    assert "Be brief." in content


@pytest.mark.usefixtures("fine")
def test_a_conversation_continues_with_its_summary(ask: Ask, server: ModelServer) -> None:
    assert ask("--resume", identify(ask, "let us talk about rivers"), "go on").code == 0
    texts = "\n".join(sent_texts(server))
    assert "They talked." in texts
    assert "After it." in texts
    assert "Long talk." not in texts


@pytest.mark.usefixtures("fine")
def test_a_conversation_continues_after_an_answer_that_was_cut_off(ask: Ask, server: ModelServer) -> None:
    assert ask("--resume", identify(ask, "tell a long story"), "go on").code == 0
    assert "The first half" in "\n".join(sent_texts(server))


@pytest.mark.usefixtures("fine")
def test_settings_and_keys_apply(ask: Ask, home: Home, server: ModelServer) -> None:
    assert ask("hello").text == "Fine.\n"
    request = server.requests[-1]
    assert (request.json["model"], request.json["temperature"]) == ("test/model", 0.5)
    assert request.headers["Authorization"] == f"Bearer {TEST_KEY}"
    assert ask("-m", "fast", "hello").code == 0
    assert server.requests[-1].json["model"] == "test/fast"
    assert ask("-p", "mine", "hello").code == 0
    request = server.requests[-1]
    assert (request.json["model"], request.headers["Authorization"]) == ("mine/model", "Bearer mine-0123456789abcdef")
    assert ask("config", "set", "max_rounds", "9").code == 0
    text = (home.config / "config.toml").read_text()
    assert CONFIG.splitlines()[0] in text
    assert "max_rounds = 9" in text


@pytest.mark.usefixtures("fine")
def test_templates_skills_and_servers_are_there(ask: Ask, server: ModelServer) -> None:
    assert ask("-t", "shout", "hello").code == 0
    assert sent_texts(server) == ["Shout this: hello"]
    assert "haiku" in ask("skills").text
    assert "notes-server" in ask("mcp", "list").text


@pytest.mark.slow_after_first
@pytest.mark.needs("bwrap")
def test_approvals_and_rules_apply(ask: Ask, home: Home, server: ModelServer) -> None:
    has_level = "level" in (home.data / "approvals.json").read_text()
    assert "date" in ask("tools", "approvals").text
    cases = [
        ("--safe", "date +%s", 0),
        ("-q", "date +%s", 0 if has_level else 8),  # an approval without a level counts as given in safe mode
        ("-q", "git status", 0),
        ("-q", "touch forbidden", 8),
    ]
    for option, command, code in cases:
        server.reply(wire.calls(("bash", {"command": command})), wire.says("Done."))
        assert ask("--confirm", option, "go").code == code, command


@pytest.mark.usefixtures("fine")
def test_a_trusted_project_is_trusted(ask: Ask, home: Home, server: ModelServer) -> None:
    result = Ask(ask.env, home.work / "project")("hi")
    assert result.code == 0
    assert "Use tabs." in str(server.requests[-1].json["messages"][0])


def test_an_interrupted_job_resumes(ask: Ask, server: ModelServer) -> None:
    server.reply(lambda request: wire.says(f"answer to {wire.asked(request.json)}", whole=True))
    result = ask("map", "Say {{line}}", "rows.txt")
    assert result.code == 0
    answers = [json.loads(line)["answer"] for line in result.text.splitlines()]
    assert answers == [f"answer to Say {number}" for number in ("one", "two", "three", "four")]
    assert sorted(wire.asked(request.json) for request in server.requests) == ["Say four", "Say three"]


@pytest.mark.parametrize("file", EXPORTS, ids=lambda file: file.parent.parent.name)
def test_exported_conversations_are_imported(file: Path, home: Home, server: ModelServer) -> None:
    ask = Ask({**home.env, "OPENROUTER_BASE_URL": server.base_url}, home.work)
    assert ask("history", "import", str(file)).code == 0
    overviews = json.loads(ask("history", "list", "--json").stdout)
    assert {one["title"] for one in overviews} >= TITLES
    server.reply(wire.says("Fine."))
    assert ask("--resume", identify(ask, "let us talk about rivers"), "go on").code == 0
    assert "They talked." in "\n".join(sent_texts(server))
    assert "Long talk." not in "\n".join(sent_texts(server))
    (cut_off,) = [json.loads(line) for line in file.read_text().splitlines() if '"title":"tell a long story"' in line]
    exported = json.loads(ask("history", "export", "--json", cut_off["id"]).stdout)
    (message,) = [one for one in exported["runs"][0]["messages"] if one["role"] == "assistant"]
    assert (message["complete"], message["finish_reason"]) == (False, "")


def test_an_undo_can_be_reversed(ask: Ask, home: Home) -> None:
    folder = home.work / "undone"
    if folder.exists():  # the first version here has no undo
        assert Ask(ask.env, folder)("undo", "-y", "--redo").code == 0
        assert (folder / "new.txt").read_text() == "new"


def test_runs_can_be_undone(ask: Ask, home: Home) -> None:
    project = home.work / "project"
    assert Ask(ask.env, project)("undo", "-y").code == 0
    assert (project / "kept.txt").read_text() == "original\n"
    assert not (project / "new.txt").exists()
    assert ask("undo", "-y", identify(ask, "change the notes")).code == 0
    assert (home.work / "notes.txt").read_text() == "before\n"


@pytest.mark.slow
def test_a_killed_migration_leaves_the_old_or_the_new_file(ask: Ask, home: Home) -> None:
    path = home.data / "history.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(messages)")]
        values = {"number": "NULL", "content": "content || '数据库'"}
        copy = f"INSERT INTO messages SELECT {', '.join(values.get(name, name) for name in columns)} FROM messages"
        for _ in range(9):
            connection.execute(copy)
        connection.execute("INSERT INTO texts (texts) VALUES ('rebuild')")
        (count,) = connection.execute("SELECT count(*) FROM messages").fetchone()
        (old_version,) = connection.execute("PRAGMA user_version").fetchone()
    content, versions = path.read_bytes(), set()
    for delay in (0.0, *(random.Random(3).uniform(0.05, 1.5) for _ in range(7)), 30.0):
        path.write_bytes(content)
        with ask.start("history", "list", "-n", "1") as running:
            wait(running, delay)
            running.signal(signal.SIGKILL)
            running.finish()
        with closing(sqlite3.connect(path)) as connection:
            versions.add(connection.execute("PRAGMA user_version").fetchone()[0])
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert connection.execute("SELECT count(*) FROM messages").fetchone() == (count,)
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    assert versions == {old_version, SCHEMA_VERSION}


def wait(running: Running, seconds: float) -> None:
    """Wait until the process has ended, at most this long."""
    deadline = time.monotonic() + seconds
    while running.process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.slow_after_first
@pytest.mark.needs("bwrap")
def test_a_read_only_history_is_migrated_in_memory(ask: Ask, home: Home) -> None:
    path = home.data / "history.db"
    content = path.read_bytes()
    result = in_a_world(ask, "ask history search --json 数据库", "--ro-bind", str(home.data), str(home.data))
    (hit,) = json.loads(result.stdout)
    assert hit["title"] == "change the notes"
    assert path.read_bytes() == content
