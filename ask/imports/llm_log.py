"""The conversations in logs.db of llm: the tables of version 0.36, and those of earlier versions beside them.

A conversation has the same id in both. Until 0.35, `responses` contained the requests; since then, `turns` refer to a
tree of messages in `messages` and `parts`. An upgraded file keeps the old rows where they are.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ask.attachments import MAX_TOTAL_BYTES, SUFFIXES, detect_media_type
from ask.history.export_format import ConversationExport
from ask.history.importer import SourceConversation
from ask.imports.model_names import ModelResolver
from ask.imports.runs import (
    AssistantMessage,
    SourceMessage,
    ToolResult,
    Turn,
    UserMessage,
    make_export,
    make_tool_call,
)
from ask.imports.source_data import ImportNotes, make_conversation_id
from ask.messages import Attachment, ServerToolCall, ToolCall, Usage

PROGRAM = "llm"
LOCK_SECONDS = 5.0
NO_EXTRAS: dict[str, Any] = {}
DAMAGED_PARTS = ("damaged part", "of a message")
COPY_ATTEMPTS = 5


class LogDatabase:
    """An open logs.db, which is only read.

    Raises:
        sqlite3.Error: it is no database, damaged or locked.
        OSError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._copy: TemporaryDirectory[str] | None = None
        log = path.with_name(f"{path.name}-wal")
        if log.is_file() and log.stat().st_size:
            # To read a write-ahead log, SQLite writes to files beside it.
            self._copy = TemporaryDirectory()
            path = _copy_database(path, log, Path(self._copy.name))
            options = "mode=rw"
        else:
            with path.open("rb") as file:
                uses_log = file.read(20)[18:20] == b"\2\2"
            options = "immutable=1" if uses_log else "mode=ro"
        self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?{options}", uri=True, timeout=LOCK_SECONDS)
        self._connection.row_factory = sqlite3.Row
        self._connection.text_factory = partial(bytes.decode, errors="replace")
        tables = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        self.tables = {row[0] for row in tables}

    def fetch(self, query: str, *parameters: Any) -> list[sqlite3.Row]:
        return self._connection.execute(query, parameters).fetchall()

    def fetch_links(self, table: str, target: str, column: str, owner: Any) -> list[sqlite3.Row]:
        """Return the rows of `target` that belong to a row of another table; [] without these tables."""
        if not {table, f"{target}s"} <= self.tables:
            return []
        join = f'JOIN {target}s ON {target}s.id = {table}.{target}_id WHERE {table}.{column} = ? ORDER BY "order"'
        return self.fetch(f"SELECT {target}s.* FROM {table} {join}", owner)  # noqa: S608

    def close(self) -> None:
        self._connection.close()
        if self._copy:
            self._copy.cleanup()


def _copy_database(path: Path, log: Path, folder: Path) -> Path:
    """Copy a database with its log while neither changes."""
    for _ in range(COPY_ATTEMPTS):
        before = [(file.stat().st_mtime_ns, file.stat().st_size) for file in (path, log)]
        copies = [shutil.copyfile(file, folder / file.name) for file in (path, log)]
        if before == [(file.stat().st_mtime_ns, file.stat().st_size) for file in (path, log)]:
            break
    return copies[0]


class LogReader:
    """Reads the conversations of a log, each when it is needed."""

    def __init__(self, database: LogDatabase, models: ModelResolver, notes: ImportNotes) -> None:
        self._database = database
        self._models = models
        self._notes = notes

    def list_conversations(self) -> Iterator[SourceConversation]:
        """Yield the conversations, those with the oldest last message first."""
        sources = []
        if "turns" in self._database.tables:
            sources.append("SELECT thread_id AS id, datetime_utc AS time FROM turns")
        if "responses" in self._database.tables:
            sources.append("SELECT coalesce(conversation_id, id) AS id, datetime_utc AS time FROM responses")
        if not sources:
            return
        query = f"SELECT id, max(time) AS time FROM ({' UNION ALL '.join(sources)}) GROUP BY id ORDER BY 2, 1"  # noqa: S608
        for row in self._database.fetch(query):
            if isinstance(row["id"], str):
                yield SourceConversation(
                    make_conversation_id(PROGRAM, row["id"]), _parse_time(row["time"]), partial(self._load, row["id"])
                )

    def _load(self, thread: str) -> ConversationExport | None:
        try:
            return self._read_conversation(thread)
        except (sqlite3.Error, LookupError, TypeError, ValueError, RecursionError) as error:
            # A table of an unknown version, or damaged.
            self._notes.problems.append(f"cannot read the conversation {thread} of llm ({error})")
            return None

    def _read_conversation(self, thread: str) -> ConversationExport | None:
        systems: list[str] = []
        turns: list[Turn] = []
        for row in self._fetch_rows("responses", "coalesce(conversation_id, id) = ?", thread):
            system, turn = self._read_response(row)
            systems.append(system)
            turns.append(turn)
        seen: set[str] = set()
        for row in self._fetch_rows("turns", "thread_id = ?", thread):
            system, turn = self._read_turn(row, seen, is_first=not turns)
            systems.append(system)
            turns.append(turn)
        system = next(filter(None, reversed(systems)), "")
        return make_export(make_conversation_id(PROGRAM, thread), PROGRAM, turns, system=system)

    def _fetch_rows(self, table: str, condition: str, value: str, order: str = "datetime_utc, id") -> list[sqlite3.Row]:
        if table not in self._database.tables:
            return []
        return self._database.fetch(f"SELECT * FROM {table} WHERE {condition} ORDER BY {order}", value)  # noqa: S608

    # Since version 0.36

    def _read_turn(self, row: sqlite3.Row, seen: set[str], *, is_first: bool) -> tuple[str, Turn]:
        """Return the system prompt of a turn, and what it added to the conversation.

        That is what precedes the answer since the last answer, and the answer: the whole chain of messages differs from
        that of the turn before if an attached file has changed. The first turn of a thread may continue another one.
        """
        parent = row["parent_message_hash"]
        chain = self._walk(parent, seen, "" if is_first else "assistant")
        chain += self._walk(row["tip_message_hash"], seen, "", parent)
        seen.update(message["hash"] for message in chain)
        messages: list[SourceMessage] = []
        system = ""
        for message in chain:
            if message["role"] == "system":
                system = "\n\n".join(_get_text(part, "text") for part in self._read_parts(message["hash"]))
            else:
                messages += self._read_message(message)
        return system, self._make_turn(row, messages)

    def _walk(self, tip: Any, seen: set[str], last_role: str, parent: str | None = None) -> list[sqlite3.Row]:
        """Return the messages that lead to `tip`, after the last that is `parent`, was seen, or has a role."""
        chain: list[sqlite3.Row] = []
        visited = {parent, None}
        while tip not in visited and tip not in seen:
            visited.add(tip)
            rows = self._database.fetch("SELECT * FROM messages WHERE hash = ?", tip)
            if not rows or rows[0]["role"] == last_role:
                break
            chain.append(rows[0])
            tip = rows[0]["parent_hash"]
        return chain[::-1]

    def _read_parts(self, message_hash: str) -> Iterator[dict[str, Any]]:
        """Yield the parts of a message with the values of their columns and their JSON."""
        for row in self._database.fetch("SELECT * FROM parts WHERE message_hash = ? ORDER BY position", message_hash):
            values = self._parse_json(row["payload"])
            references = values.get("text_ref")
            if isinstance(references, list):
                values["text"] = "".join(map(self._read_text_piece, references))
            if row["text"] is not None:
                values["text"] = row["text"]
            yield {**values, "type": row["type"]}

    def _read_text_piece(self, piece: Any) -> str:
        if isinstance(piece, dict) and "fragment" in piece:
            rows = self._database.fetch("SELECT content FROM fragments WHERE id = ?", piece["fragment"])
            return _get_text(rows[0], "content") if rows else ""
        return _get_text(piece, "literal") if isinstance(piece, dict) else ""

    def _read_message(self, row: sqlite3.Row) -> Iterator[SourceMessage]:
        parts = list(self._read_parts(row["hash"]))
        results = [part for part in parts if part["type"] == "tool_result" and not part.get("server_executed")]
        for position, part in enumerate(results):
            files, notes = self._read_attachments(self._find_attachments(part.get("attachments")))
            yield ToolResult(
                _get_text(part, "tool_call_id") or f"call_{position}",
                _get_text(part, "name"),
                "\n\n".join([_get_text(part, "output"), *notes]),
                failed=bool(part.get("exception")),
                attachments=files,
            )
        texts = [_get_text(part, "text") for part in parts if part["type"] == "text"]
        references = [part.get("attachment") for part in parts if part["type"] == "attachment"]
        files, notes = self._read_attachments(self._find_attachments(references))
        text = "\n\n".join(["".join(texts), *notes]) if notes else "".join(texts)
        if row["role"] == "assistant":
            calls = [part for part in parts if part["type"] == "tool_call" and not part.get("server_executed")]
            reasoning = "".join(_get_text(part, "text") for part in parts if part["type"] == "reasoning")
            server_calls = tuple(_read_server_calls(parts))
            if text or calls or reasoning or files or server_calls:
                yield AssistantMessage(text, _make_calls(calls), reasoning, server_calls, files)
        elif text or files:
            yield UserMessage(text, files)

    def _find_attachments(self, references: Any) -> list[sqlite3.Row]:
        ids = [each.get("id") for each in references or () if isinstance(each, dict)]
        rows = [self._database.fetch("SELECT * FROM attachments WHERE id = ?", each) for each in ids]
        for _ in range(rows.count([])):
            self._notes.count("attachment", "that the log does not contain")
        return [row for found in rows for row in found]

    # Before version 0.36

    def _read_response(self, row: sqlite3.Row) -> tuple[str, Turn]:
        response = row["id"]
        fetch_links = self._database.fetch_links
        fragments = fetch_links("prompt_fragments", "fragment", "response_id", response)
        systems = fetch_links("system_fragments", "fragment", "response_id", response)
        prompt = "\n".join(
            filter(None, [*(_get_text(each, "content") for each in fragments), _get_text(row, "prompt")])
        )
        messages: list[SourceMessage] = []
        for position, each in enumerate(self._fetch_rows("tool_results", "response_id = ?", response, order="id")):
            files, notes = self._read_attachments(
                fetch_links("tool_results_attachments", "attachment", "tool_result_id", each["id"])
            )
            messages.append(
                ToolResult(
                    _get_text(each, "tool_call_id") or f"call_{position}",
                    _get_text(each, "name"),
                    "\n\n".join([_get_text(each, "output"), *notes]),
                    failed=bool(_get_text(each, "exception")),
                    attachments=files,
                )
            )
        files, notes = self._read_attachments(fetch_links("prompt_attachments", "attachment", "response_id", response))
        if prompt or files or notes:
            messages.append(UserMessage("\n\n".join(filter(None, [prompt, *notes])), files))
        calls = self._fetch_rows("tool_calls", "response_id = ?", response, order="id")
        answer = AssistantMessage(_get_text(row, "response"), _make_calls(calls), _get_text(row, "reasoning"))
        if any(answer):
            messages.append(answer)
        system = "\n\n".join(
            filter(None, [*(_get_text(each, "content") for each in systems), _get_text(row, "system")])
        )
        return system, self._make_turn(row, messages)

    # Both

    def _make_turn(self, row: sqlite3.Row, messages: Sequence[SourceMessage]) -> Turn:
        provider, model = self._models.resolve(_get_text(row, "model"))
        details = self._parse_json(_get(row, "token_details"))
        usage = Usage(
            input_tokens=_get_count(row, "input_tokens"),
            output_tokens=_get_count(row, "output_tokens"),
            cached_tokens=_find_count(details, "cached_tokens"),
            reasoning_tokens=_find_count(details, "reasoning_tokens"),
        )
        seconds = (_get_count(row, "duration_ms") or 0) / 1000
        return Turn(messages, _parse_time(row["datetime_utc"]), provider, model, usage, seconds)

    def _parse_json(self, text: Any) -> dict[str, Any]:
        if not text:
            return {}
        try:
            value = json.loads(text)
        except (ValueError, TypeError, RecursionError):
            value = None
        if not isinstance(value, dict):
            self._notes.count(*DAMAGED_PARTS)
            return {}
        return value

    def _read_attachments(self, rows: Iterable[sqlite3.Row]) -> tuple[tuple[Attachment, ...], list[str]]:
        """Return the attached files, and a text for each that is not available."""
        files, texts = [], []
        for row in rows:
            path, url = _get_text(row, "path"), _get_text(row, "url")
            data = row["content"] if isinstance(row["content"], bytes) else _read_attached_file(path, row["id"])
            if data is not None:
                media_type = _get_text(row, "type") or detect_media_type(data) or "application/octet-stream"
                suffix = SUFFIXES.get(media_type) or media_type.rpartition("/")[2] or "bin"
                files.append(Attachment(Path(path).name or f"attachment.{suffix}", media_type, data))
            elif url:
                self._notes.count("attachment", "of which llm saved only the URL")
                texts.append(f"[attachment: {url}]")
            else:
                self._notes.count("attachment", "whose file is missing or has changed since")
                texts.append(f"[attachment that is not available: {path}]")
        return tuple(files), texts


def _read_attached_file(path: str, content_hash: Any) -> bytes | None:
    """Return the content of a file; None if it is not available, or no longer the content that was sent."""
    file = Path(path)
    try:
        if not path or not file.is_file() or file.stat().st_size > MAX_TOTAL_BYTES:
            return None
        data = file.read_bytes()
    except (OSError, ValueError):
        return None
    return data if hashlib.sha256(data).hexdigest() == content_hash else None


def _make_calls(rows: Iterable[Any]) -> tuple[ToolCall, ...]:
    return tuple(
        make_tool_call(
            _get_text(row, "tool_call_id") or f"call_{position}", _get_text(row, "name"), _get(row, "arguments")
        )
        for position, row in enumerate(rows)
    )


def _read_server_calls(parts: Iterable[dict[str, Any]]) -> Iterator[ServerToolCall]:
    """Yield the calls that the service ran itself, with their results."""
    parts = [part for part in parts if part.get("server_executed")]
    results = {part.get("tool_call_id"): part for part in parts if part["type"] == "tool_result"}
    for part in parts:
        if part["type"] == "tool_call":
            call = make_tool_call("", _get_text(part, "name"), part.get("arguments"))
            result = results.get(part.get("tool_call_id"), NO_EXTRAS)
            yield ServerToolCall(call.name, call.arguments, _get_text(result, "output"), bool(result.get("exception")))


def _get(row: sqlite3.Row | dict[str, Any], name: str) -> Any:
    """Return a value; None if there is no such column or key, as in files of other versions."""
    return row[name] if name in row.keys() else None  # noqa: SIM118 - `in` searches the values of a row


def _get_text(row: sqlite3.Row | dict[str, Any], name: str) -> str:
    value = _get(row, name)
    return value if isinstance(value, str) else "" if value is None or isinstance(value, bytes) else json.dumps(value)


def _get_count(row: sqlite3.Row, name: str) -> int | None:
    value = _get(row, name)
    return value if isinstance(value, int) and value >= 0 else None


def _find_count(details: dict[str, Any], name: str) -> int | None:
    """Find a number of tokens in the details, whose tables differ by service."""
    for table in (details, *(each for each in details.values() if isinstance(each, dict))):
        value = table.get(name)
        if isinstance(value, int) and value >= 0:
            return value
    return None


def _parse_time(text: Any) -> float:
    """Return the seconds since 1970 of a time in UTC; 0.0 if it is damaged."""
    try:
        time = datetime.fromisoformat(text)
        seconds = time.replace(tzinfo=time.tzinfo or UTC).timestamp()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return max(seconds, 0.0)
