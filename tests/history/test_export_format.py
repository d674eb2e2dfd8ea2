"""Conversations leave a history and come into another one with nothing lost; what is no conversation stays out."""

from __future__ import annotations

import io
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.errors import FileError
from ask.history.entries import Conversation, read_runs
from ask.history.export_format import ConversationExport, from_json_value, read_exports, to_json_line, to_json_value
from ask.history.importer import ImportStatus, import_conversations
from ask.history.store import Store
from ask.messages import ProviderState
from tests.conversation_strategies import conversations
from tests.json_strategies import any_json, replace_any_part

SMALL: dict[str, Any] = {
    "format": "ask-conversation",
    "version": 2,
    "id": "abc",
    "runs": [{"provider": "demo", "model": "m", "messages": [{"role": "user", "content": "hi"}]}],
}
CALLS = [{"id": "1", "name": "bash", "arguments": "{}"}]
RESULT = {"role": "tool", "tool_call_id": "1"}


def small(**changes: Any) -> dict[str, Any]:
    return {**SMALL, **changes}


def with_run(**changes: Any) -> dict[str, Any]:
    return small(runs=[{**SMALL["runs"][0], **changes}])


def with_messages(*messages: dict[str, Any]) -> dict[str, Any]:
    return with_run(messages=list(messages))


def in_memory() -> Store:
    """An empty history that is no file."""
    return Store(Path("none"), create=False)


def exported(store: Store) -> str:
    found = [Conversation(*row) for row in store.fetch_rows("SELECT * FROM conversations ORDER BY number")]
    return "".join(to_json_line(ConversationExport(one, read_runs(store, one))) for one in found)


def read(data: bytes | str) -> list[ConversationExport]:
    return list(read_exports(io.BytesIO(data.encode() if isinstance(data, str) else data), "file"))


@given(st.lists(conversations(), max_size=2, unique_by=lambda one: one["id"]))
def test_any_conversation_comes_through_an_export_and_an_import_as_it_was(values: list[dict[str, Any]]) -> None:
    lines = "".join(to_json_line(from_json_value(value)) for value in values)
    with in_memory() as store:
        assert {one.status for one in import_conversations(store, read(lines), None)} <= {ImportStatus.IMPORTED}
        assert exported(store) == lines
        assert {one.status for one in import_conversations(store, read(lines), None)} <= {ImportStatus.ALREADY_PRESENT}
        assert exported(store) == lines


@given(conversations())
def test_every_field_is_written_as_it_was_read(value: dict[str, Any]) -> None:
    again = to_json_value(from_json_value(value))
    assert json.dumps(again, sort_keys=True) == json.dumps(value, sort_keys=True)


def test_every_column_of_every_table_is_in_the_form(tmp_path: Path) -> None:
    message = {"role": "assistant", "calls": CALLS, "attachments": [{"name": "", "media_type": "", "data": ""}]}
    saved = from_json_value(with_messages(message))
    value = to_json_value(saved)
    (run,) = value["runs"]
    (message,) = run["messages"]
    parts = {
        "conversations": value,
        "runs": {**run, **run["usage"]},
        "messages": {**message, **message["usage"]},
        "calls": message["calls"][0],
        "attachments": message["attachments"][0],
    }
    with Store(tmp_path / "h.db") as store:
        for table, part in parts.items():
            columns = {row["name"] for row in store.fetch_rows(f"PRAGMA table_info({table})")}
            assert columns - {"number", "conversation", "run", "message", "position"} <= part.keys()


def test_what_may_be_missing_has_a_default() -> None:
    ((conversation, (run,)),) = read(json.dumps(SMALL))
    assert (conversation.id, conversation.title, run.provider, run.exit_code) == ("abc", "", "demo", None)
    assert run.entries[0].complete


@pytest.mark.parametrize(
    "layout",
    [
        lambda a, b: f"{a}\n{b}",
        lambda a, b: f"\ufeff\n{a}\r\n\n{b}\n",
        lambda a, b: f"[{a}, {b}]",
        lambda a, b: json.dumps([json.loads(a), json.loads(b)], indent=2),
        lambda a, b: json.dumps(json.loads(a), indent=1) + "\n" + json.dumps(json.loads(b), indent=1),
        lambda a, b: f"{a} {b}",
    ],
    ids=["lines", "lines from Windows", "array", "pretty array", "as jq writes", "on one line"],
)
def test_several_conversations_are_read_in_any_layout(layout: Any) -> None:
    text = layout(json.dumps(SMALL), json.dumps(small(id="def")))
    assert [saved.conversation.id for saved in read(text)] == ["abc", "def"]


def test_an_empty_file_holds_none() -> None:
    assert read("") == read("\n \n") == read("[]") == []


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (1, "must be an object"),
        ({}, "format is missing"),
        (small(format="other"), "format must be 'ask-conversation'"),
        (small(version=3), "unsupported export version 3"),
        (small(version="1"), "version must be a whole number"),
        (small(id="../../etc"), "id must be an id"),
        (small(id="12"), "id must be an id"),
        (small(title=None), "title must be text"),
        (small(created=1e300), "created must be a time"),
        (small(created=float("nan")), "created must be a time"),
        (small(runs=[]), "the conversation has no runs"),
        (small(more=1), "unknown field 'more'"),
        (with_run(provider=None), "run 1: provider must be text"),
        (with_run(rounds=2**63), "run 1: rounds must be a whole number"),
        (with_run(exit_code=True), "run 1: exit_code must be a whole number"),
        (with_run(replaced_by=0), "run 1: replaced_by"),
        (with_run(first_kept_run=2), "run 1: first_kept_run does not refer to a run"),
        (with_run(usage={"cost": "1"}), "run 1, usage: cost must be a number"),
        (with_run(messages=[1]), "run 1, message 1: must be an object"),
        (with_run(messages={}), "run 1: messages must be a list of objects"),
        (with_messages({"role": "user", "usage": {"more": 1}}), "run 1, message 1, usage: unknown field 'more'"),
        (with_messages({"role": "system"}), "run 1, message 1: role must be one of user, assistant, tool"),
        (with_messages({"role": []}), "run 1, message 1: role must be one of"),
        (with_messages({"role": "user", "content": 1}), "run 1, message 1: content must be text"),
        (with_messages({"role": "user", "calls": CALLS}), "only an assistant message can contain tool calls"),
        (with_messages({"role": "assistant", "calls": [{}]}), "call 1: id is missing"),
        (
            with_messages({"role": "user", "attachments": [{"name": "", "media_type": "", "data": "%"}]}),
            "data must be base64",
        ),
        (
            with_messages({"role": "user", "provider_state": {"provider": "", "model": "", "data": []}}),
            "data must be an object",
        ),
        (with_messages(RESULT), "run 1, message 1: no earlier call matches this result"),
        (
            with_messages({"role": "assistant", "calls": CALLS}, RESULT, RESULT),
            "message 3: no earlier call matches",
        ),
        (with_messages({"role": "assistant", "calls": CALLS}, {"role": "user"}, RESULT), "message 3: no earlier call"),
    ],
)
def test_what_is_no_conversation_is_refused_with_the_place(value: Any, reason: str) -> None:
    with pytest.raises(FileError, match="file, line 2: ") as caught:
        read(json.dumps(SMALL) + "\n" + json.dumps(value))
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xfe{", "not JSON"),
        (b"# A title", "not JSON"),
        (b'{"a": \n', "not JSON"),
        (b'{"a":' * 100_000, "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"9" * 10_000, "not JSON"),
        (json.dumps(SMALL).encode() + b"\n{", "line 2: not JSON"),
        (json.dumps(SMALL).encode() + b"\n\xff", "line 2: not JSON"),
    ],
)
def test_garbage_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(FileError, match=r"^file") as caught:
        read(data)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@given(conversations().flatmap(replace_any_part))
def test_a_conversation_with_any_part_replaced_is_read_or_refused_and_what_is_read_can_be_saved(value: Any) -> None:
    try:
        saved = from_json_value(value)
    except FileError:
        return
    with in_memory() as store:
        import_conversations(store, [saved], None)
        assert exported(store) == to_json_line(saved)


@given(any_json())
def test_any_json_at_all_is_refused(value: Any) -> None:
    with pytest.raises(FileError):
        from_json_value(value)


@given(st.binary(max_size=60))
def test_any_bytes_at_all_are_refused_or_empty(data: bytes) -> None:
    try:
        assert read(data) == []
    except FileError as fault:
        assert str(fault)


def test_another_conversation_of_the_same_id_is_refused_or_gets_a_new_one(tmp_path: Path) -> None:
    other = from_json_value(small(title="other"))
    with Store(tmp_path / "h.db") as store:
        import_conversations(store, [from_json_value(SMALL)], None)
        before = exported(store)
        with pytest.raises(FileError, match=r"abc.*--as-new"):
            import_conversations(store, [from_json_value(small(id="def")), other], None)
        assert exported(store) == before, "all or none"
        (taken,) = import_conversations(store, [other], lambda: "fed")
        assert (taken.status, taken.id, taken.imported_id) == (ImportStatus.RENAMED, "abc", "fed")
        assert exported(store) == before + to_json_line(other).replace('"abc"', '"fed"')


def test_one_that_was_continued_here_and_elsewhere_is_called_so(tmp_path: Path) -> None:
    (run,) = SMALL["runs"]
    with Store(tmp_path / "h.db") as store:
        import_conversations(store, [from_json_value(small(runs=[run, {**run, "model": "here"}]))], None)
        elsewhere = from_json_value(small(runs=[run, {**run, "model": "elsewhere"}]))
        with pytest.raises(FileError, match=r"conversation abc was continued .*ask history import --as-new"):
            import_conversations(store, [elsewhere], None)


def test_a_summary_stands_for_the_same_runs_wherever_it_is_taken_in(tmp_path: Path) -> None:
    runs = [{**SMALL["runs"][0], "first_kept_run": first_kept_run} for first_kept_run in (None, None, 1, 4)]
    with Store(tmp_path / "h.db") as store:
        import_conversations(store, [from_json_value(small(id="first")), from_json_value(small(runs=runs))], None)
        _, *numbers = [row["number"] for row in store.fetch_rows("SELECT number FROM runs ORDER BY number")]
        first_kept_run = [
            row["first_kept_run"] for row in store.fetch_rows("SELECT first_kept_run FROM runs ORDER BY number")
        ]
        assert first_kept_run == [None, None, None, numbers[1], numbers[3] + 1]
        assert [run["first_kept_run"] for run in json.loads(exported(store).splitlines()[1])["runs"]] == [
            None,
            None,
            1,
            4,
        ]


def test_a_replaced_run_names_the_same_replacement_after_an_import(tmp_path: Path) -> None:
    runs = [{**SMALL["runs"][0], "replaced_by": replaced_by} for replaced_by in (2, 2, None)]
    with Store(tmp_path / "h.db") as store:
        import_conversations(store, [from_json_value(small(id="first")), from_json_value(small(runs=runs))], None)
        _, *numbers = [row["number"] for row in store.fetch_rows("SELECT number FROM runs ORDER BY number")]
        replacements = [row["replaced_by"] for row in store.fetch_rows("SELECT replaced_by FROM runs ORDER BY number")]
        assert replacements == [None, numbers[2], numbers[2], None]
        exported_runs = json.loads(exported(store).splitlines()[1])["runs"]
        assert [run["replaced_by"] for run in exported_runs] == [2, 2, None]


def test_what_is_taken_in_is_found_by_its_words(tmp_path: Path) -> None:
    with Store(tmp_path / "h.db") as store:
        import_conversations(store, [from_json_value(with_messages({"role": "user", "content": "marzipan"}))], None)
        assert len(store.fetch_rows("SELECT rowid FROM texts WHERE texts MATCH 'marzipan'")) == 1


def test_the_snapshot_of_an_export_is_of_one_moment(tmp_path: Path) -> None:
    with Store(tmp_path / "h.db") as store, Store(tmp_path / "h.db") as other:
        import_conversations(store, [from_json_value(SMALL)], None)
        with store.read_transaction():
            before = exported(store)
            import_conversations(other, [from_json_value(small(id="def"))], None)
            assert exported(store) == before
        assert exported(store) == before + to_json_line(from_json_value(small(id="def")))


def test_nothing_is_taken_in_when_reading_fails_half_way(tmp_path: Path) -> None:
    with Store(tmp_path / "h.db") as store:
        with pytest.raises(FileError):
            import_conversations(store, read_exports(io.BytesIO(json.dumps(SMALL).encode() + b"\n{"), "file"), None)
        assert exported(store) == ""
    with sqlite3.connect(tmp_path / "h.db") as connection:
        assert connection.execute("SELECT count(*) FROM texts").fetchone() == (0,)
    connection.close()


def test_fields_of_the_first_days_have_other_names() -> None:
    message = {"role": "assistant", "content": "Hello.", "whole": False, "finish": "stop"}
    state = {"provider": "demo", "model": "m", "data": {"a": 1}}
    [run] = from_json_value({**with_messages({**message, "native": state}), "version": 1}).runs
    [entry] = run.entries
    assert (entry.complete, entry.finish_reason) == (False, "stop")
    assert entry.message.provider_state == ProviderState("demo", "m", {"a": 1})
