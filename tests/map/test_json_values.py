"""Reading JSON arrays and values as a stream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from io import BufferedReader
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.errors import FileError, UsageError
from ask.map.input_rows import Input, InputFormat, Row, read_rows
from ask.map.input_streams import ChunkStream
from ask.map.json_values import MAX_VALUE_CHARACTERS, JsonValue, parse_first_members, read_json_values


def read(folder: Path, content: str | bytes, input_format: InputFormat = "json") -> list[Row]:
    file = folder / "input"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read_rows([Input(str(file), input_format)]))


def summarize(rows: list[Row]) -> list[Any]:
    """Return the place of each row, and its error or columns."""
    return [(row.location.partition("input:")[2], row.error or row.columns) for row in rows]


def read_chunks(chunks: list[bytes]) -> list[JsonValue]:
    return list(read_json_values("input", BufferedReader(ChunkStream(iter(chunks)))))


A, B = {"a": 1}, {"b": "ü"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('[{"a": 1}, {"b": "ü"}]', [("1", A), ("1:12", B)]),
        ('[\n  {"a": 1},\n  {"b": "ü"}\n]\n', [("2", A), ("3", B)]),
        ('\ufeff[\r\n{\r\n"a":1\r\n},\r\n{"b": "ü"}]', [("2", A), ("5", B)]),
        ('{\n  "a": 1\n}\n{\n  "b": "ü"\n}\n', [("1", A), ("4", B)]),
        ('{"a": 1}{"b": "ü"}', [("1", A), ("1:9", B)]),
        ('[{"a": 1}]\n[{"b": "ü"}]\n', [("1", A), ("2", B)]),
        ("[]", []),
        (" \n", []),
        ('{"a": 1}', [("1", A)]),
        ('[{"a": NaN}, {"a": 1e999}]', [("1", {"a": None}), ("1:14", {"a": "1e999"})]),
    ],
)
def test_arrays_and_values_are_rows(tmp_path: Path, content: str, expected: list[Any]) -> None:
    assert summarize(read(tmp_path, content)) == expected


OBJECT, INVALID = "not a JSON object", "not JSON"


@pytest.mark.parametrize(
    ("content", "errors"),
    [
        ('[{"a": 1}, 2, "x", null, [3], {"b": "ü"}]', [OBJECT] * 4),
        ('[{"a": 1}, {"x" 1}, {"b": "ü"}]', [INVALID]),
        ('[{"a": 1},\n{"x": nope, "y": {"z": [1, 2]}},\n{"b": "ü"}]', [INVALID]),
        ('[\n  {"a": 1},\n  {"x": "open},\n  {"b": "ü"}\n]', [INVALID]),
        ('[\n  {"a": 1},\n  {"x": [1, 2},\n  {"b": "ü"}\n]', [INVALID]),
        ('[\n  {"a": 1},\n  {\n    "x": {"y": 1,\n  {\n    "b": "ü"\n  }\n]', [INVALID]),
        ('[{"a": 1}, nope, {"b": "ü"}]', [INVALID]),
        ('{"a": 1}\nnot JSON, really\n{"b": "ü"}', [INVALID]),
        (b'[{"a": 1}, {"x": "\xff"}, {"b": "\xc3\xbc"}]', ["not UTF-8"]),
        ('[{"a": 1},\n{"x": "\0"}, {"b": "ü"}]', ["contains a NUL character"]),
        (f'[{{"a": 1}}, {{"x": {"9" * 5000}}}, {{"b": "ü"}}]', [INVALID]),
        (f'[{{"a": 1}}, {"[" * 100_000}{"]" * 100_000}, {{"b": "ü"}}]', [INVALID]),
    ],
)
def test_an_invalid_element_costs_only_itself(tmp_path: Path, content: str | bytes, errors: list[str]) -> None:
    first, *invalid, last = read(tmp_path, content)
    assert (first.columns, last.columns, first.error, last.error) == (A, B, "", "")
    assert [row.error for row in invalid] == errors


@pytest.mark.parametrize("content", ['[{"a": 1}', '[{"a": 1},\n', '[{"a": 1}, {"b"', '[\n  {"a": 1},\n  {"b": "'])
def test_an_array_without_an_end_has_a_row_that_fails(tmp_path: Path, content: str) -> None:
    rows = read(tmp_path, content)
    assert rows[0].columns == A
    assert rows[-1].error


def test_a_last_element_that_is_broken_leaves_the_end_of_the_array(tmp_path: Path) -> None:
    assert [row.error for row in read(tmp_path, '[\n  {"a": 1},\n  {"x": [1, 2\n]\n')] == ["", INVALID]


def test_an_object_that_contains_the_rows_is_an_error_that_names_them(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'data'") as caught:
        read(tmp_path, '{"data": [{"a": 1}, {"a": 2}]}')
    assert "jq '.[]'" in caught.value.hint
    for content in ('{"tags": ["x"]}', '{"id": 1, "parts": [{"a": 1}]}', '[{"data": [{"a": 1}]}]', '{"data": []}'):
        assert len(read(tmp_path, content)) == 1
    assert len(read(tmp_path, '{"data": [{"a": 1}]}\n{"data": [{"a": 2}]}')) == 2


@pytest.mark.parametrize(
    "content", ['[{"a": 1},\n{"b": "ü"}]', '\n [\n {"a": 1}, {"b": "ü"}\n]', '[{"a": 1}]\n[{"b": "ü"}]']
)
def test_an_array_in_a_file_of_json_lines_is_read(tmp_path: Path, content: str) -> None:
    assert [row.columns for row in read(tmp_path, content, "jsonl")] == [A, B]


@pytest.mark.parametrize("content", ['\x1e{"a": 1}\n\x1e{"b": "ü"}\n', '\x1e{\n  "a": 1\n}\n\x1e{\n  "b": "ü"\n}\n'])
@pytest.mark.parametrize("input_format", ["json", "jsonl"])
def test_a_json_text_sequence_is_read(tmp_path: Path, content: str, input_format: InputFormat) -> None:
    """https://github.com/jqlang/jq/issues/3156"""
    assert [row.columns for row in read(tmp_path, content, input_format)] == [A, B]


@pytest.mark.parametrize("content", ['{\n "a": 1\n}\n{\n "b": "ü"\n}\n', '\ufeff{ \r\n"a": 1}\r\n\r\n{"b": "ü"}'])
def test_objects_of_several_lines_in_a_file_of_json_lines_are_read(tmp_path: Path, content: str) -> None:
    assert [row.columns for row in read(tmp_path, content, "jsonl")] == [A, B]


def test_a_line_with_another_array_is_an_invalid_row(tmp_path: Path) -> None:
    assert [row.error for row in read(tmp_path, '[1]\n{"a": 1}\n', "jsonl")] == [OBJECT, ""]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(st.dictionaries(st.text(), JSON, max_size=4), max_size=6),
    st.sampled_from([None, 0, 2]),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(1, 40), min_size=1),
)
def test_values_are_read_from_chunks_of_any_size(
    values: list[dict[str, Any]], indent: int | None, is_array: bool, is_ascii: bool, sizes: list[int]
) -> None:
    if is_array:
        text = json.dumps(values, indent=indent, ensure_ascii=is_ascii)
    else:
        text = "\n".join(json.dumps(value, indent=indent, ensure_ascii=is_ascii) for value in values)
    data, chunks = text.encode(), list[bytes]()
    while data:
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(data[:size])
        data = data[size:]
    assert [each.value for each in read_chunks(chunks)] == values


@given(st.text(st.sampled_from('[]{}",:1an \n\\')), st.integers(1, 9))
def test_any_text_is_read_to_the_end(text: str, size: int) -> None:
    data = text.encode()
    whole = read_chunks([data])
    assert read_chunks([data[start : start + size] for start in range(0, len(data), size)]) == whole
    assert all(each.error or each.value is None or not isinstance(each.value, JsonValue) for each in whole)


def test_a_row_is_read_as_soon_as_it_has_arrived() -> None:
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as stream, open(write_end, "wb", buffering=0) as pipe:
        values = read_json_values("pipe", stream)
        pipe.write(b'[{"a": 1}')
        assert next(values).value == A
        pipe.write(b', {"b": ')
        threading.Timer(0.05, pipe.write, ['"ü"}'.encode()]).start()
        assert next(values).value == B


@pytest.mark.slow
def test_a_value_that_is_too_long_is_an_error() -> None:
    part = b"x" * (1 << 22)
    chunks = [b'[{"a": 1}, {"b": "', *[part] * (2 * MAX_VALUE_CHARACTERS // len(part) + 1)]
    with pytest.raises(FileError, match=r"^input:1:12: "):
        read_chunks(chunks)


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(10, 99) | st.text(st.sampled_from('x",:{}[]\\ 1'))),
    st.integers(1, 50),
    st.sampled_from('",:{}[]\\ 0'),
)
def test_no_column_of_a_damaged_object_has_a_wrong_value(columns: dict[str, Any], place: int, added: str) -> None:
    text = json.dumps(columns)
    damaged = text[:place] + added + text[place:]
    try:
        json.loads(damaged)
    except ValueError:
        assert all(columns.get(name, value) == value for name, value in parse_first_members(damaged).items())


@pytest.mark.slow
def test_a_large_array_is_not_in_memory(tmp_path: Path) -> None:
    code = """
import resource, sys
from ask.map.input_rows import Input, read_rows
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = sum(1 for _ in read_rows([Input(sys.argv[1], "json")]))
print(count, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    element = json.dumps({"id": 1, "text": "word " * 200}).encode()
    for separator in (b",", b",\n"):
        with (tmp_path / "large.json").open("wb") as stream:
            stream.write(b"[" + element)
            for _ in range(300):
                stream.write((separator + element) * 1000)
            stream.write(b"]")
        result = subprocess.run([sys.executable, "-c", code, tmp_path / "large.json"], capture_output=True, check=True)
        count, grown_mib = map(int, result.stdout.split())
        assert count == 300_001
        assert grown_mib < 20
