"""The encodings of rows: which are recognized, and which the user has to name."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.errors import UsageError
from ask.map.input_rows import Input, InputFormat, detect_encodings, read_rows
from ask.map.input_streams import transcode


def read(folder: Path, content: bytes, input_format: InputFormat = "lines", encoding: str = "") -> list[Any]:
    """Return the columns of each row, or its error."""
    file = folder / "input"
    file.write_bytes(content)
    return [row.error or row.columns for row in read_rows([Input(str(file), input_format, encoding)])]


@pytest.mark.parametrize(
    ("text", "line", "encoding"),
    [
        ("name\nMüller\n", 2, "cp1252"),
        ("name\n" + "plain\n" * 50_000 + "Müller\n", 50_002, "cp1252"),
        ("name;price\nCafé “Sol”;5 €\n", 2, "cp1252"),
        ("Größe\nMaß\n", 1, "cp1252"),
        ("Привет, мир\nдоброе утро\n", 1, "cp1251"),
        ("Zażółć gęślą jaźń\nžluťoučký kůň\n", 1, "cp1250"),
        ("価格は100円です\n品切れになりました\n", 1, "cp932"),
    ],
)
@pytest.mark.parametrize("input_format", ["lines", "csv", "jsonl", "json"])
def test_another_encoding_is_an_error_that_names_it(
    tmp_path: Path, text: str, line: int, encoding: str, input_format: InputFormat
) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text.encode(encoding), input_format)
    assert f"line {line})" in caught.value.message
    assert caught.value.hint.endswith(f"--encoding {encoding}")


@pytest.mark.parametrize("encoding", ["cp1252", "cp1251", "utf-16", "utf-16-le", "cp932", "utf-7", "cp037"])
def test_the_named_encoding_is_used(tmp_path: Path, encoding: str) -> None:
    text = {"cp1251": "Привет", "cp932": "価格"}.get(encoding, "Größe")
    assert read(tmp_path, f"a,b\n{text},2\n".encode(encoding), "csv", encoding) == [{"a": text, "b": "2"}]
    assert read(tmp_path, f"{text}\0two\n".encode(encoding), "nul", encoding) == [{"line": text}, {"line": "two\n"}]


@pytest.mark.parametrize("actual", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_overrides_the_named_encoding(tmp_path: Path, actual: str) -> None:
    assert read(tmp_path, "Größe\n".encode(actual), encoding="cp1252") == [{"line": "Größe"}]


@pytest.mark.parametrize(
    ("valid", "invalid", "is_refused"),
    [(20, 1, False), (20, 20, False), (20, 21, True), (0, 1, True)],
)
def test_most_lines_decide_whether_a_file_is_utf8(tmp_path: Path, valid: int, invalid: int, is_refused: bool) -> None:
    content = b"plain\n" * 100 + "Müller\n".encode() * valid + "Müller\n".encode("cp1252") * invalid
    if is_refused:
        with pytest.raises(UsageError):
            read(tmp_path, content)
    else:
        assert read(tmp_path, content).count("not UTF-8") == invalid
    assert read(tmp_path, content, encoding="utf-8").count("not UTF-8") == invalid


@pytest.mark.parametrize(("encoding", "text"), [("cp852", "Łódź"), ("iso8859-5", "Привет")])
def test_an_encoding_that_is_not_recognized_is_an_error(tmp_path: Path, encoding: str, text: str) -> None:
    content = (f"{text}\n" * 10).encode(encoding)
    with pytest.raises(UsageError, match="not UTF-8") as refused:
        read(tmp_path, content)
    assert "--encoding" in refused.value.hint
    assert read(tmp_path, content, encoding=encoding) == [{"line": text}] * 10


def test_an_odd_byte_is_no_other_encoding(tmp_path: Path) -> None:
    assert read(tmp_path, b"one\n\xff\ntwo\n") == [{"line": "one"}, "not UTF-8", {"line": "two"}]


def test_long_lines_are_cut_without_being_taken_for_another_encoding(tmp_path: Path) -> None:
    content = ("é" * 1_000_000).encode() + b"\xff\nshort\n"
    assert read(tmp_path, b"x" + content) == ["not UTF-8", {"line": "short"}]


def test_bytes_that_are_not_in_the_named_encoding_cost_one_row(tmp_path: Path) -> None:
    assert read(tmp_path, b"one\nt\x81wo\n", encoding="cp1252") == [{"line": "one"}, "not windows-1252"]
    assert read(tmp_path, "one\ntwo\n".encode("utf-16") + b"\0\xd8\n\0") == [
        {"line": "one"},
        {"line": "two"},
        "not UTF-16",
    ]


def test_encodings_are_detected_before_rows_are_read(tmp_path: Path) -> None:
    (tmp_path / "first").write_bytes("Größe\n".encode("utf-16"))
    (tmp_path / "second").write_bytes("Größe\n".encode("cp1252"))
    first, second = (Input(str(tmp_path / name), "csv") for name in ("first", "second"))
    assert detect_encodings([first])[0].encoding == "utf-16-le"
    with pytest.raises(UsageError, match="second"):
        detect_encodings([first, second])


ENCODINGS = (
    *("ascii", "cp1252", "cp932", "gb18030", "big5", "euc_jp", "euc_kr", "iso2022_jp", "hz", "cp037"),
    *("utf-7", "utf-16-le", "utf-32-be"),
)
MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)


@given(st.sampled_from(ENCODINGS), st.binary(max_size=60).filter(lambda content: not content.startswith(MARKS)))
def test_any_bytes_are_read_in_any_encoding(
    tmp_path_factory: pytest.TempPathFactory, encoding: str, content: bytes
) -> None:
    file = tmp_path_factory.mktemp("bytes") / "input"
    file.write_bytes(content)
    with file.open("rb") as stream:
        text = transcode(stream, encoding).read().decode("utf-8", "surrogateescape")
    try:
        assert text == content.decode(encoding)
    except UnicodeDecodeError:
        assert "\udcff" in text
