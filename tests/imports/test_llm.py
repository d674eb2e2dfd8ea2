"""`ask import llm`, with a folder of llm whose log is in llm_log.sql."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ask.history.entries import Run
from ask.messages import Attachment
from tests import wire
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home, Result
from tests.saved_history import list_messages, read_conversations, read_saved_runs

LOG = (Path(__file__).parent / "llm_log.sql").read_text()
CONVERSATIONS = 13
IMAGE_HASH = "7343d363d427f598455ae5f102d2f7e8c95efa14a6f454b8acc352c9458cac11"
SECRET = "sk-llm-0123456789abcdef"
FILES = {
    "aliases.json": json.dumps({"fast": "openrouter/vendor/fast", "odd": "some-model", "mine": "gpt-4o"}),
    "default_model.txt": "claude-sonnet-5",
    "keys.json": json.dumps({"// Note": "secret", "anthropic": SECRET, "strange": "x", "openai": 5}),
    "model_options.json": json.dumps({"gpt-4o": {"temperature": "0.3"}}),
    "extra-openai-models.yaml": "- model_id: local-bird\n  model_name: bird-1\n  api_base: http://localhost:9/v1\n",
    "templates/summarize.yaml": "system: Summarize this, and keep {{braces}}\n",
    "templates/trans late.yaml": (
        "model: gpt-4o\nprompt: 'Translate $input to $lang for $$5 (${tone})'\n"
        "defaults:\n  lang: French\n  tone: '}}'\noptions:\n  temperature: 0.5\nschema_object: {type: object}\n"
    ),
    "templates/plain.yaml": "Say hello to 2026-11-27\n",
    "templates/system.yaml": "system: Answer about $input\n",
    "templates/broken.yaml": "system: [",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "llm"
    (path / "templates").mkdir(parents=True)
    write_log(path)
    return path


@pytest.fixture
def llm(ask: Ask, folder: Path) -> Callable[..., Result]:
    user = replace(ask, env={**ask.env, "LLM_USER_PATH": str(folder)})
    return lambda *arguments: user("import", "llm", *arguments)


def write_log(folder: Path, script: str = LOG) -> None:
    with closing(sqlite3.connect(folder / "logs.db")) as database:
        database.executescript(script)


def change_log(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "logs.db")) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


def read_summary(result: Result, code: int = 0) -> Any:
    assert result.code == code, result.stderr
    return json.loads(result.stdout)


def find_runs(home: Home, question: str) -> list[Run]:
    """Return the runs of the conversation that begins with a question."""
    runs = read_saved_runs(home)
    (first,) = (number for number, run in enumerate(runs) if run.entries[0].message.content.startswith(question))
    following = runs[first + 1 :]
    titles = [conversation.created for conversation in read_conversations(home.data / "history.db")]
    end = next((number for number, run in enumerate(following) if run.started in titles), len(following))
    return [runs[first], *following[:end]]


def read_content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


# Conversations


def test_conversations_of_both_formats_are_complete(llm: Callable[..., Result], home: Home, folder: Path) -> None:
    before = read_content(folder)
    summary = read_summary(llm("--json"))
    assert summary["conversations"] == {"new": CONVERSATIONS, "continued": 0, "present": 0}
    assert read_content(folder) == before
    for first, second in (
        ("What is a pelican?", "And a heron?"),
        ("A new question", "and another"),
        ("Continue me", "After the upgrade"),
    ):
        runs = find_runs(home, first)
        assert [list_messages(run) for run in runs] == [
            [("user", first, True), ("assistant", f"Answer 1: {first}", True)],
            [("user", second, True), ("assistant", f"Answer 2: {second}", True)],
        ]
        assert all(run.usage[:3] == (12, 5, 4) and run.version == "llm" for run in runs)
        assert runs[0].started < runs[1].started
    (run,) = find_runs(home, "Describe it")
    assert run.system == "Be brief"
    assert find_runs(home, "A new question")[0].system == "Be terse"


@pytest.mark.parametrize("question", ["Use the tools", "Use new tools"])
def test_tool_calls_have_their_results(llm: Callable[..., Result], home: Home, question: str) -> None:
    assert llm().code == 0
    run = find_runs(home, question)[0]
    user, request, upper, version, answer = run.entries
    assert [record.call.name for record in request.calls] == ["upper", "llm_version"]
    assert json.loads(request.calls[0].call.arguments) == {"text": "a"}
    assert [upper.message.tool_call_id, version.message.tool_call_id] == [each.call.id for each in request.calls]
    assert (upper.message.content, upper.message.tool_name, run.rounds) == ("A", "upper", 1)
    assert (user.message.content, answer.message.content[:6]) == (question, "Answer")


def test_a_failed_call_is_marked(llm: Callable[..., Result], home: Home) -> None:
    assert llm().code == 0
    (run,) = find_runs(home, "Let it fail")
    assert run.entries[1].calls[0].failed


def test_attachments_and_fragments_are_part_of_the_message(
    llm: Callable[..., Result], home: Home, folder: Path, tmp_path: Path
) -> None:
    photo, data = tmp_path / "photo.png", b"\x89PNG\r\n\x1a\nphoto"
    photo.write_bytes(data)
    values = (str(photo), hashlib.sha256(data).hexdigest())
    with closing(sqlite3.connect(folder / "logs.db")) as database:
        database.execute("UPDATE attachments SET content = NULL, path = ?, id = ? WHERE content NOT NULL", values)
        database.execute("UPDATE prompt_attachments SET attachment_id = ?", values[1:])
        database.execute("UPDATE attachments SET path = ? WHERE path LIKE '%lost%'", [str(tmp_path / "lost.png")])
        database.execute("UPDATE parts SET payload = replace(payload, ?, ?)", (IMAGE_HASH, values[1]))
        database.commit()
    summary = read_summary(llm("--json"))
    for question in ("Describe it", "Describe again"):
        (run,) = find_runs(home, question)
        assert run.entries[0].message.attachments == (Attachment("photo.png", "image/png", data),)
    (run,) = find_runs(home, "A photo on the web")
    assert "[attachment: https://example.org/heron.png]" in run.entries[0].message.content
    (run,) = find_runs(home, "A lost photo")
    assert str(tmp_path / "lost.png") in run.entries[0].message.content
    assert sum(line.startswith("1 attachment ") for line in summary["not_imported"]) == 2
    runs = [run for run in read_saved_runs(home) if run.entries[0].message.content.startswith("Herons are birds.")]
    assert [run.entries[0].message.content.split() for run in runs] == [
        [*["Herons", "are", "birds.", "Summarize"]],
        [*["Herons", "are", "birds.", "Summarize", "again"]],
    ]
    assert {run.system.strip() for run in runs} == {"Herons are birds."}


def test_each_import_adds_only_what_is_new(llm: Callable[..., Result], home: Home, folder: Path, ask: Ask) -> None:
    """Later messages of a conversation are added after those that were written here."""
    thread = "SELECT id FROM threads WHERE name = 'A new question'"
    change_log(folder, f"DELETE FROM turns WHERE id = (SELECT max(id) FROM turns WHERE thread_id = ({thread}))")
    assert read_summary(llm("--json"))["conversations"]["new"] == CONVERSATIONS
    conversation = next(each for each in read_conversations(home.data / "history.db") if "A new" in each.title)
    assert ask("-p", "demo", "--resume", conversation.id, "hello").code == 0
    (folder / "logs.db").unlink()
    write_log(folder)
    counts = read_summary(llm("--json"))["conversations"]
    assert counts == {"new": 0, "continued": 1, "present": CONVERSATIONS - 1}
    assert read_summary(llm("--json"))["conversations"] == {"new": 0, "continued": 0, "present": CONVERSATIONS}
    shown = ask("history", "show", conversation.id).text
    assert shown.count("> ") == 3
    assert shown.index("A new question") < shown.index("hello") < shown.index("and another")


def test_a_run_that_was_imported_during_its_tool_calls_is_completed(
    llm: Callable[..., Result], home: Home, folder: Path
) -> None:
    thread = "SELECT id FROM threads WHERE name = 'Let it fail'"
    change_log(folder, f"DELETE FROM turns WHERE id = (SELECT max(id) FROM turns WHERE thread_id = ({thread}))")
    assert llm().code == 0
    (run,) = find_runs(home, "Let it fail")
    assert [entry.message.role for entry in run.entries] == ["user", "assistant"]
    (folder / "logs.db").unlink()
    write_log(folder)
    assert read_summary(llm("--json"))["conversations"]["continued"] == 1
    (run,) = find_runs(home, "Let it fail")
    assert [entry.message.role for entry in run.entries] == ["user", "assistant", "tool", "assistant"]
    assert run.usage[:2] == (24, 10)


def test_an_imported_conversation_continues_with_the_default_model(
    llm: Callable[..., Result], ask: Ask, server: ModelServer, home: Home
) -> None:
    """It has a model that is not available here; its tool calls are sent in the format of the new one."""
    assert llm().code == 0
    (first, *_) = find_runs(home, "Use new tools")
    assert (first.provider, first.model) == ("", "local-bird")
    server.reply(wire.says("Hello again."))
    conversation = next(each for each in read_conversations(home.data / "history.db") if "Use new" in each.title)
    result = ask("--resume", conversation.id, "Once more")
    assert (result.code, result.text) == (0, "Hello again.\n"), result.stderr
    sent = [message["role"] for message in server.requests[-1].json["messages"]]
    assert sent[1:7] == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert "\tlocal-bird\t" in ask("history", "list").text


def test_an_export_of_imported_conversations_can_be_imported(llm: Callable[..., Result], ask: Ask, home: Home) -> None:
    assert llm().code == 0
    exported = ask("history", "export", "--all", "--format", "json").stdout
    (home.data / "history.db").unlink()
    assert ask("history", "import", stdin=exported).code == 0
    assert ask("history", "export", "--all", "--format", "json").stdout == exported


@pytest.mark.slow
def test_an_interrupted_import_leaves_complete_conversations(ask: Ask, home: Home, folder: Path) -> None:
    count = 5_000
    threads = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) "
    change_log(
        folder,
        "DELETE FROM responses",
        "DELETE FROM turns",
        *(
            f"{threads} INSERT INTO turns (id, thread_id, tip_message_hash, model, datetime_utc) "
            f"SELECT i || 'turn{turn}', 'thread' || i, i || 'message{turn}', 'gpt-4o', '2026-01-0{turn}' FROM n"
            for turn in (1, 2)
        ),
        *(f"{threads} INSERT INTO messages (hash, role) SELECT i || 'message{turn}', 'user' FROM n" for turn in (1, 2)),
        *(
            f"{threads} INSERT INTO parts (message_hash, position, type, text) "
            f"SELECT i || 'message{turn}', 0, 'text', 'hello' FROM n"
            for turn in (1, 2)
        ),
    )
    with ask.start("import", "llm", str(folder)) as running:
        deadline = time.monotonic() + 30
        while not count_conversations(home) and time.monotonic() < deadline:
            time.sleep(0.02)
        running.signal()
        result = running.finish()
    first = count_conversations(home)
    assert (result.code, 0 < first < count) == (130, True), result.stderr
    assert {len(run.entries) for run in read_saved_runs(home)} == {2}
    assert read_summary(ask("import", "llm", str(folder), "--json"))["conversations"] == {
        "new": count - first,
        "continued": 0,
        "present": first,
    }


def count_conversations(home: Home) -> int:
    file = home.data / "history.db"
    return len(read_conversations(file)) if file.exists() else 0


# Damage


def test_damaged_rows_do_not_affect_others(llm: Callable[..., Result], home: Home, folder: Path) -> None:
    change_log(
        folder,
        "UPDATE parts SET payload = '{' WHERE tool_name = 'fail'",
        "UPDATE parts SET text = CAST(x'ff41' AS TEXT) WHERE text = 'Answer 1: As JSON'",
        "UPDATE turns SET datetime_utc = 'yesterday', token_details = '[]', input_tokens = 'x', duration_ms = NULL "
        "WHERE id = (SELECT max(id) FROM turns)",
        "UPDATE responses SET response = NULL, model = NULL WHERE prompt = 'What is a pelican?'",
        "UPDATE tool_calls SET arguments = 'no', tool_call_id = NULL",
        "UPDATE messages SET parent_hash = hash WHERE hash = (SELECT min(hash) FROM messages WHERE role = 'user')",
        "DELETE FROM fragments",
    )
    summary = read_summary(llm("--json"))
    assert summary["conversations"]["new"] == CONVERSATIONS
    assert any("damaged part" in line for line in summary["not_imported"])
    assert "\ufffdA" in [run.entries[-1].message.content for run in read_saved_runs(home)]
    (run,) = find_runs(home, "Use the tools")
    assert json.loads(run.entries[1].calls[0].call.arguments) == {"arguments": "no"}


def test_deeply_nested_arguments_do_not_end_the_import(llm: Callable[..., Result], home: Home, folder: Path) -> None:
    change_log(
        folder,
        "INSERT INTO responses (id, conversation_id, model, prompt, response, datetime_utc) "
        "VALUES ('deep', 'deep', 'gpt-4o', 'Deep', 'Yes', '2026-01-01T00:00:00')",
        "INSERT INTO tool_calls (response_id, name, arguments) "
        "VALUES ('deep', 'x', replace(hex(zeroblob(50000)), '0', '['))",
    )
    assert read_summary(llm("--json"))["conversations"]["new"] == CONVERSATIONS + 1
    assert find_runs(home, "Deep")


def test_the_list_escapes_the_control_characters_of_a_model(llm: Callable[..., Result], ask: Ask, folder: Path) -> None:
    change_log(
        folder,
        "INSERT INTO responses (id, conversation_id, model, prompt, response, datetime_utc) "
        "VALUES ('x', 'x', char(27) || '[31mred', char(27) || ']0;title', 'Yes', '2026-01-01T00:00:00')",
    )
    read_summary(llm("--json"))
    assert b"\x1b" not in ask("history", "list").stdout


def test_a_template_that_toml_cannot_express_costs_only_itself(llm: Callable[..., Result], folder: Path) -> None:
    (folder / "templates/odd.yaml").write_text("prompt: Hi\noptions: {5: x}\n")
    (folder / "templates/zero.yaml").write_text("prompt: Hi\n")
    assert read_summary(llm("--json"), 9)["templates"] == ["zero"]


def test_an_alias_with_a_lone_surrogate_costs_only_itself(llm: Callable[..., Result], folder: Path) -> None:
    (folder / "aliases.json").write_text('{"\\ud800": "gpt-4o", "good": "gpt-4o"}')
    assert read_summary(llm("--json"), 9)["aliases"] == {"good": "openai:gpt-4o"}


def test_a_damaged_file_is_reported_once(llm: Callable[..., Result], folder: Path) -> None:
    (folder / "aliases.json").write_text("{")
    (problem,) = read_summary(llm("--json"), 9)["problems"]
    assert "aliases.json" in problem


def test_a_template_with_yaml_aliases_costs_only_itself(llm: Callable[..., Result], folder: Path) -> None:
    lines = ["x0: &x0 [a, b]", *(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]" for n in range(1, 12))]
    (folder / "templates/odd.yaml").write_text("\n".join([*lines, "system: *x11", "prompt: Hi", ""]))
    (folder / "templates/good.yaml").write_text("prompt: Say *hi*\n")
    assert read_summary(llm("--json"), 9)["templates"] == ["good"]


@pytest.mark.parametrize(
    "statements",
    [
        ["DROP TABLE tool_calls", "DROP TABLE tool_results", "ALTER TABLE responses DROP COLUMN token_details"],
        ["ALTER TABLE turns ADD COLUMN later TEXT", "CREATE TABLE later (x)"],
    ],
)
def test_other_versions_of_the_tables_are_read(llm: Callable[..., Result], folder: Path, statements: list[str]) -> None:
    change_log(folder, "PRAGMA foreign_keys = OFF", *statements)
    assert read_summary(llm("--json"))["conversations"]["new"] == CONVERSATIONS


def test_a_table_of_an_unknown_version_costs_its_conversations_only(llm: Callable[..., Result], folder: Path) -> None:
    change_log(folder, "ALTER TABLE turns RENAME COLUMN parent_message_hash TO parent")
    summary = read_summary(llm("--json"), 9)
    assert summary["conversations"]["new"] == 4
    assert len(summary["problems"]) == CONVERSATIONS - 4


@pytest.mark.parametrize("content", [b"", b"no database" * 500, b"SQLite format 3\0" + b"x" * 5000])
def test_a_file_that_is_no_log_leaves_the_rest(llm: Callable[..., Result], folder: Path, content: bytes) -> None:
    (folder / "logs.db").write_bytes(content)
    (folder / "aliases.json").write_text('{"mine": "gpt-4o"}')
    summary = read_summary(llm("--json"), 9 if content else 0)
    assert (summary["aliases"], bool(summary["problems"])) == ({"mine": "openai:gpt-4o"}, bool(content))


def test_a_write_ahead_log_is_read_and_nothing_is_written_beside_it(llm: Callable[..., Result], folder: Path) -> None:
    with closing(sqlite3.connect(folder / "logs.db", isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("DELETE FROM turns")
        before = read_content(folder)
        assert (folder / "logs.db-wal").stat().st_size
        assert read_summary(llm("--json"))["conversations"]["new"] == 5
        assert read_content(folder) == before
    with closing(sqlite3.connect(folder / "logs.db")) as writer:
        assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    os.chmod(folder, 0o500)
    assert read_summary(llm("--json"))["conversations"]["present"] == 5
    assert [file.name for file in folder.glob("logs.db*")] == ["logs.db"]
    os.chmod(folder, 0o700)


# The other files


@pytest.fixture
def files(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).write_text(text)


@pytest.mark.usefixtures("files")
def test_the_other_files_are_imported_once(llm: Callable[..., Result], home: Home, ask: Ask) -> None:
    summary = read_summary(llm("--keys", "--json"), 9)
    assert summary["templates"] == ["plain", "summarize", "trans-late"]
    assert summary["aliases"] == {"fast": "openrouter:vendor/fast", "mine": "openai:gpt-4o"}
    assert (summary["default_model"], summary["keys"]) == ("anthropic:claude-sonnet-5", ["anthropic"])
    notes = "\n".join(summary["not_imported"])
    for expected in ("local-bird", "alias odd", "key strange", "gpt-4o", "schema_object", "$input", "trans-late"):
        assert expected in notes
    assert [problem for problem in summary["problems"] if "broken.yaml" in problem] == summary["problems"]
    assert SECRET in (home.config / "keys.toml").read_text()
    assert ask("config", "get", "model").text == "anthropic:claude-sonnet-5\n"
    shown = json.loads(ask("templates", "show", "trans-late", "--json").stdout)
    assert shown["prompt"] == "Translate {{input}} to {{lang|French}} for $5 ({{tone}})"
    assert (shown["model"], shown["options"], shown["tools"]) == ("openai:gpt-4o", {"temperature": 0.5}, False)
    assert json.loads(ask("templates", "show", "plain", "--json").stdout)["prompt"] == "Say hello to 2026-11-27"
    before = read_content(home.config)
    again = read_summary(llm("--keys", "--json"), 9)
    assert (again["templates"], again["aliases"], again["default_model"], again["keys"]) == ([], {}, "", [])
    assert (again["kept"], read_content(home.config)) == ([], before)


@pytest.mark.usefixtures("files")
def test_nothing_of_the_user_is_replaced(llm: Callable[..., Result], home: Home) -> None:
    own = {
        "config.toml": 'model = "demo:demo"\n[aliases]\nfast = "demo:demo"\n',
        "keys.toml": f'anthropic = "{TEST_KEY}"\n',
        "templates/summarize.md": "Mine\n",
    }
    (home.config / "templates").mkdir(parents=True)
    for name, text in own.items():
        (home.config / name).write_text(text)
    summary = read_summary(llm("--keys", "--json"), 9)
    assert [line.partition(":")[0] for line in summary["kept"]] == [
        "key for anthropic",
        "template summarize",
        "alias fast",
        "default model",
    ]
    assert (home.config / "templates/summarize.md").read_text() == "Mine\n"
    config = (home.config / "config.toml").read_text()
    assert config.startswith('model = "demo:demo"\n[aliases]\nfast = "demo:demo"\n')
    assert TEST_KEY in (home.config / "keys.toml").read_text()


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("answer", "is_imported"), [("y", True), ("n", False)])
def test_a_terminal_is_asked_once_for_all_keys(home: Home, folder: Path, answer: str, *, is_imported: bool) -> None:
    (folder / "keys.json").write_text(json.dumps({"anthropic": SECRET, "openrouter": SECRET, "gemini": SECRET}))
    user = Ask({**home.env, "LLM_USER_PATH": str(folder)}, home.work)
    question = "Import the API keys for anthropic, openrouter, gemini? [y/N] "
    result = user.on_terminal("import", "llm", answers=[(question, f"{answer}\n")])
    assert (result.code, SECRET in result.text) == (9, False)
    assert (home.config / "keys.toml").exists() == is_imported


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("arguments", [[], ["--no-keys"]])
def test_without_consent_no_key_is_imported(llm: Callable[..., Result], home: Home, arguments: list[str]) -> None:
    result = llm(*arguments)
    assert "keys for anthropic" in result.stderr
    assert SECRET not in result.stderr
    assert not (home.config / "keys.toml").exists()


def test_a_configured_server_is_the_provider_of_its_models(
    llm: Callable[..., Result], home: Home, folder: Path
) -> None:
    (folder / "extra-openai-models.yaml").write_text(FILES["extra-openai-models.yaml"])
    (folder / "default_model.txt").write_text("local-bird")
    home.configure('[providers.nest]\nbase_url = "http://127.0.0.1:9/v1"\n')
    assert read_summary(llm("--json"))["default_model"] == "nest:bird-1"
    assert ("nest", "bird-1") in {(run.provider, run.model) for run in read_saved_runs(home)}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["numpy", "as", "np"], "ask -- import numpy as np"),
        (["llm", "in", "python"], "ask -- import llm in python"),
        (["llm", "please"], "ask -- import llm please"),
        ([], "ask import --help"),
    ],
)
def test_a_question_that_begins_with_import_is_explained(ask: Ask, words: list[str], expected: str) -> None:
    result = ask("import", *words)
    assert (result.code, result.stdout) == (9 if words[-1:] == ["please"] else 2, b"")
    assert expected in result.stderr


def test_a_missing_folder_is_an_error(ask: Ask, home: Home) -> None:
    result = ask("import", "llm")
    assert (result.code, result.stderr.count("\n")) == (9, 1)
    assert str(Path(home.env["XDG_CONFIG_HOME"], "io.datasette.llm")) in result.stderr
    assert not (home.data / "history.db").exists()
