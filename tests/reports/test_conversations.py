"""Reports about saved conversations: one damaged value, row, conversation or line costs nothing else."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from ask.history.store import COLUMN_TYPES, NULLABLE_COLUMNS, Store
from tests.history.saved import assistant, called, result, save, user
from tests.program import Ask, Home, Result

READERS = (
    "list",
    "list --json",
    "show damaged",
    "show damaged --json",
    "search sky",
    "export --all",
    "export --all --json",
    "export --all --format html",
    "stats",
)
"""The commands that read conversations."""


@pytest.fixture
def demo(home: Home) -> Ask:
    return Ask({**home.env, "ASK_PROVIDER": "demo"}, home.work)


def damage(home: Home, script: str) -> None:
    """Save two conversations, and change the rows of the first."""
    call = called("date")
    save(home.data / "history.db", "damaged", user("why is the sky blue?"), assistant("", call), result(call, "now"))
    save(home.data / "history.db", "sound", user("and the sky on Mars?"), assistant("Red."))
    with closing(sqlite3.connect(home.data / "history.db")) as database, database:
        database.executescript(script)


def read(demo: Ask, reader: str) -> Result:
    return demo("history", *reader.split())


# https://github.com/anomalyco/opencode/issues/10904: zeros in one session's file, and no session is listed
# https://github.com/openai/codex/issues/28139: one file with a BOM, and no thread can be read
# https://github.com/AtomicBot-ai/atomic-agent/pull/367: one unreadable row empties the list of sessions
@pytest.mark.parametrize(
    "script",
    [
        "UPDATE conversations SET title = CAST(x'ff41fe' AS TEXT) WHERE id = 'damaged'",
        "UPDATE conversations SET title = x'00', updated = 'yesterday', created = x'00' WHERE id = 'damaged'",
        "UPDATE conversations SET updated = 1e18, created = -1e18 WHERE id = 'damaged'",
        "UPDATE runs SET started = 'now', directory = x'ff', system = CAST(x'ff' AS TEXT) WHERE number = 1",
        "UPDATE runs SET input_tokens = 'many', cost = 'free', rounds = 'x', exit_code = 'ok' WHERE number = 1",
        "UPDATE messages SET content = CAST(x'ff41fe' AS TEXT) WHERE number = 1",
        "UPDATE messages SET content = x'00ff', time = 'noon' WHERE number = 2",
        "UPDATE messages SET role = 'developer', input_tokens = 'many', cost = 'free' WHERE number = 1",
        "UPDATE messages SET provider_state = '{' WHERE number = 2",
        "UPDATE messages SET provider_state = '[1]' WHERE number = 2",
        "UPDATE messages SET provider_state = 'null' WHERE number = 2",
        "UPDATE calls SET arguments = CAST(x'ff' AS TEXT), started = 'noon', failed = 'x', rule = x'ff'",
        "INSERT INTO attachments VALUES (1, 0, 'a.png', 'image/png', 'text')",
        "INSERT INTO attachments VALUES (1, 0, x'ff', x'00', 1)",
    ],
)
def test_a_damaged_value_costs_nothing_else(script: str, demo: Ask, home: Home) -> None:
    damage(home, script)
    for reader in READERS:
        shown = read(demo, reader)
        assert shown.code == 0, (reader, shown.stderr)
        assert "internal error" not in shown.stderr
    assert {"damaged", "sound"} == {row["id"] for row in json.loads(read(demo, "list --json").text)}
    assert read(demo, "search mars").text.startswith("sound")
    assert demo("-p", "demo", "--resume", "damaged", "hi").code == 0


def test_a_repair_is_reported_once(demo: Ask, home: Home) -> None:
    damage(home, "UPDATE messages SET provider_state = '{'")
    assert read(demo, "export --all --json").stderr.count("damaged values are left empty") == 1
    assert "damaged values are left empty" in demo("-p", "demo", "--resume", "damaged", "hi").stderr
    assert read(demo, "list").stderr == "", "nothing that is listed is damaged"


# https://github.com/anomalyco/opencode/issues/9673: a session is listed, but its content is gone
def test_a_conversation_without_messages_is_not_exported_but_the_others_are(demo: Ask, home: Home) -> None:
    damage(home, "DELETE FROM runs WHERE number = 1")
    shown = read(demo, "export --all --json")
    assert [json.loads(line)["id"] for line in shown.text.splitlines()] == ["sound"]
    assert (shown.code, "conversation damaged" in shown.stderr) == (9, True)
    assert "sound" in read(demo, "export --all").text
    hint = read(demo, "show damaged")
    assert (hint.code, "ask history delete damaged" in hint.stderr) == (9, True)
    assert demo("history", "delete", "damaged", "-y").code == 0
    assert read(demo, "export --all --json").code == 0


def test_each_column_has_a_known_type(home: Home) -> None:
    """A column without one is not checked, so its damaged values would be an internal error."""
    names = {str: "TEXT", float: "REAL", int: "INTEGER", bytes: "BLOB"}
    with Store(home.path / "history.db") as store:
        for table in ("conversations", "runs", "messages", "calls", "attachments"):
            for column in store.fetch_rows(f"SELECT * FROM pragma_table_info('{table}')"):
                assert names[COLUMN_TYPES[column[1]]] == column[2], (table, column[1])
                is_required = column[3] or column[5]
                assert is_required or column[1] in NULLABLE_COLUMNS, (table, column[1])


# https://github.com/danny-avila/LibreChat/pull/15388: one bad conversation discards the whole file
# https://github.com/neilberkman/ccrider/pull/11: one damaged line, and the session is not imported
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("line", ["{", "\0\0\0", '{"format": "other"}', '{"format": "ask-conversation", "version": 1}'])
def test_a_bad_line_of_an_import_is_left_out(place: int, line: str, demo: Ask, home: Home) -> None:
    run = {"provider": "demo", "model": "demo", "messages": [{"role": "user", "content": "hi"}]}
    lines = [json.dumps({"format": "ask-conversation", "version": 1, "id": name, "runs": [run]}) for name in "ab"]
    lines.insert(place, line)
    imported = demo("history", "import", stdin="\n".join(lines).encode())
    assert (imported.code, f"stdin, line {place + 1}" in imported.stderr) == (9, True)
    assert {row["id"] for row in json.loads(demo("history", "list", "--json").text)} == {"a", "b"}


def test_a_bad_conversation_of_an_array_is_left_out(demo: Ask) -> None:
    run = {"provider": "demo", "model": "demo", "messages": [{"role": "user", "content": "hi"}]}
    sound = {"format": "ask-conversation", "version": 1, "id": "a", "runs": [run]}
    values = [{**sound, "runs": [{**run, "messages": [{"role": "robot"}]}]}, sound, None]
    imported = demo("history", "import", stdin=json.dumps(values, indent=1).encode())
    assert (imported.code, "conversation 1" in imported.stderr, "conversation 3" in imported.stderr) == (9, True, True)
    assert [row["id"] for row in json.loads(demo("history", "list", "--json").text)] == ["a"]
