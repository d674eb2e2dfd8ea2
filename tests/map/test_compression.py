"""Reading compressed inputs."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ask.errors import FileError
from ask.map.input_rows import Input, InputFormat, Row, estimate_row_count, read_rows, select_inputs
from ask.map.input_streams import ZSTD_MODULE
from tests.missing_packages import make_command_without
from tests.program import Ask, Home, run

zstd: Any = import_module(ZSTD_MODULE)
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": partial(lzma.compress, preset=0),
    # As the command zstd does, which adds a checksum.
    "zst": partial(zstd.compress, options={zstd.CompressionParameter.checksum_flag: 1}),
}
suffixes = pytest.mark.parametrize("suffix", COMPRESSORS)


def read(path: Path) -> list[Row]:
    return list(read_rows(select_inputs([str(path)], None, rows_are_files=False)))


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def make_rows(count: int) -> bytes:
    numbers = random.Random(1)  # incompressible, so that half of the data has about half of the rows
    return b"".join(
        b'{"id": %d, "x": "%s"}\n' % (number, numbers.randbytes(16).hex().encode()) for number in range(count)
    )


@suffixes
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_the_suffix_before_that_of_compressed_data_decides_the_format(
    tmp_path: Path, suffix: str, encoding: str
) -> None:
    for name, content, expected in (
        ("a.jsonl", '{"q": "ü"}\n', {"q": "ü"}),
        ("a.json", '[{"q": "ü"}]', {"q": "ü"}),
        ("a.CSV", "q;b\nü;2\n", {"q": "ü", "b": "2"}),
        ("a.tsv", "q\tb\nü\t2\n", {"q": "ü", "b": "2"}),
        ("a.txt", "ü\n", {"line": "ü"}),
    ):
        data = COMPRESSORS[suffix](content.encode(encoding))
        assert [row.columns for row in read(write(tmp_path / f"{name}.{suffix}", data))] == [expected]
        assert [row.columns for row in read(write(tmp_path / name, data))] == [expected], "by the first bytes"


@suffixes
def test_several_members_are_one_input(tmp_path: Path, suffix: str) -> None:
    compress = COMPRESSORS[suffix]
    data = compress(b'{"q": 1}\n{"q"') + compress(b": 2}\n") + compress(b"") + compress(b'{"q": 3}\n')
    assert [row.columns for row in read(write(tmp_path / f"a.jsonl.{suffix}", data))] == [{"q": 1}, {"q": 2}, {"q": 3}]


def test_data_that_is_not_compressed_is_read_in_spite_of_its_name(tmp_path: Path) -> None:
    assert [row.columns for row in read(write(tmp_path / "a.jsonl.gz", b'{"q": 1}\n'))] == [{"q": 1}]
    assert [row.columns for row in read(write(tmp_path / "a.txt", b"BZh9 text\n"))] == [{"line": "BZh9 text"}]
    assert read(write(tmp_path / "empty.jsonl.gz", b"")) == []
    assert read(write(tmp_path / "empty.jsonl.bz2", bz2.compress(b""))) == []


@pytest.mark.slow
@suffixes
def test_the_rows_before_the_end_of_truncated_data_are_read(tmp_path: Path, suffix: str) -> None:
    data, rows = COMPRESSORS[suffix](make_rows(40_000)), []
    with pytest.raises(FileError, match=f"a.jsonl.{suffix} is truncated"):
        for row in read_rows([Input(str(write(tmp_path / f"a.jsonl.{suffix}", data[: len(data) // 2])), "jsonl")]):
            rows.append(row.columns["id"])  # noqa: PERF401 - kept despite the error
    assert rows == list(range(len(rows)))
    assert len(rows) > 10_000


@suffixes
def test_damaged_data_is_an_error_that_names_the_file(tmp_path: Path, suffix: str) -> None:
    data = bytearray(COMPRESSORS[suffix](make_rows(2000)))
    data[len(data) // 2 : len(data) // 2 + 50] = b"\x55" * 50
    with pytest.raises(FileError, match=f"a.jsonl.{suffix}"):
        read(write(tmp_path / f"a.jsonl.{suffix}", bytes(data)))


@pytest.mark.parametrize("file_format", ["csv", "lines", "nul", "jsonl"])
def test_a_line_that_is_much_longer_than_its_file_is_refused(tmp_path: Path, file_format: InputFormat) -> None:
    start = b'{"a": 1}\n' if file_format == "jsonl" else b"a\0" if file_format == "nul" else b"a\nb\n"
    file = write(tmp_path / "a.gz", gzip.compress(start) + gzip.compress(b"x" * 10_000_000) * 7)
    assert file.stat().st_size < 100_000
    rows = read_rows([Input(str(file), file_format)])
    assert next(rows).columns
    with pytest.raises(FileError, match="longer than"):
        list(rows)


def test_compressed_rows_are_not_counted_before(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl.gz", gzip.compress(make_rows(10)))
    assert estimate_row_count([Input(str(file), "jsonl")]) is None


@suffixes
def test_stdin_may_be_compressed(home: Home, suffix: str) -> None:
    ask = Ask({**home.env, "ASK_PROVIDER": "demo"}, home.work)
    data = COMPRESSORS[suffix](make_rows(3))
    result = ask("map", "--input-format", "jsonl", "say {{id}}", stdin=data)
    assert [json.loads(line)["id"] for line in result.text.splitlines()] == [0, 1, 2], result.stderr


def test_a_truncated_input_is_answered_as_far_as_it_goes(home: Home) -> None:
    ask = Ask({**home.env, "ASK_PROVIDER": "demo"}, home.work)
    data = gzip.compress(make_rows(60))
    (home.work / "rows.jsonl.gz").write_bytes(data[: len(data) // 2])
    result = ask("map", "say {{id}}", "rows.jsonl.gz", "-O", "out.jsonl")
    assert (result.code, "rows.jsonl.gz is truncated" in result.stderr) == (9, True)
    count = len((home.work / "out.jsonl").read_text().splitlines())
    assert 10 < count < 50
    (home.work / "rows.jsonl.gz").write_bytes(data)
    result = ask("map", "say {{id}}", "rows.jsonl.gz", "-O", "out.jsonl")
    assert (result.code, f"{count} earlier" in result.stderr) == (0, True), result.stderr
    assert len((home.work / "out.jsonl").read_text().splitlines()) == 60


def test_a_truncated_input_does_not_replace_a_complete_output(home: Home) -> None:
    ask = Ask({**home.env, "ASK_PROVIDER": "demo"}, home.work)
    data = gzip.compress(make_rows(60))
    for content, code in ((data, 0), (data[: len(data) // 2], 9)):
        (home.work / "rows.jsonl.gz").write_bytes(content)
        assert ask("map", "say {{id}}", "rows.jsonl.gz", "-O", "out.jsonl").code == code
        assert len((home.work / "out.jsonl").read_text().splitlines()) == 60


@pytest.mark.slow
@pytest.mark.skipif(ZSTD_MODULE.startswith("compression"), reason="zstd is in the standard library")
def test_zstd_without_its_package_names_the_command_that_installs_it(home: Home) -> None:
    (home.work / "rows.jsonl.zst").write_bytes(zstd.compress(make_rows(1)))
    command = [*make_command_without("backports", home), "map", "-p", "demo", "say {{id}}", "rows.jsonl.zst"]
    result = run(command, env=home.env, cwd=home.work)
    assert result.code == 3
    assert "[zstd]" in result.stderr


@pytest.mark.slow
@suffixes
def test_a_decompression_bomb_is_read_in_little_memory(tmp_path: Path, suffix: str) -> None:
    code = """
import resource, sys
from ask.map.input_rows import Input, read_rows
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = sum(1 for _ in read_rows([Input(sys.argv[1], "lines")]))
print(count, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    member = COMPRESSORS[suffix]((b"0" * 99 + b"\n") * 250_000)
    file = write(tmp_path / f"bomb.txt.{suffix}", member * 2)
    assert file.stat().st_size < 500_000
    result = subprocess.run([sys.executable, "-c", code, file], capture_output=True, check=True)
    count, grown_mib = map(int, result.stdout.split())
    assert count == 500_000
    assert grown_mib < 40
