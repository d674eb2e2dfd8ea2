"""Recognizing the encoding of texts."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.tools.text_encoding import decode_bytes

TEXTS = {
    "latin-1": [
        *("Größe", "café", "naïve", "räksmörgås", "Blåbærgrød", "CAFÉ MÜLLER", "20 °C", "£5", "© 2020"),
        "El niño comió mañana en España. ¿Qué?",
    ],
    "cp1252": ["“quoted” — it’s", "Preis: 5 € für Käse", "L’hôtel, où il a mangé"],
    "iso8859-15": ["Preis: 5 € für Käse"],
    "mac-roman": ["Käse Grüße Größe", "château élève garçon"],
    "cp850": ["Käse Grüße Größe"],
    "cp1250": ["Zażółć gęślą jaźń", "Příliš žluťoučký kůň"],
    "iso8859-2": ["Zażółć gęślą jaźń"],
    "cp1251": ["Привет, мир", "привет", "ПРИВЕТ", "Ошибка: файл не найден (file not found)"],
    "koi8-r": ["Привет, мир", "привет"],
    "cp866": ["Ошибка: файл не найден"],
    "cp932": ["日本語", "東京", "カタカナ", "名前,住所\n山田太郎,東京都", "ファイルが見つかりません: foo.txt"],
    "euc-jp": ["日本語", "こんにちは世界。"],
    "gb18030": ["中文", "你好，世界", "姓名,地址\n张伟,北京市", "使用Python编写"],
    "big5": ["姓名,地址\n王小明,台北市", "錯誤：找不到檔案"],
    "cp949": ["한글", "안녕하세요 세계", "이름,주소\n김철수,서울"],
    "cp1253": ["Καλημέρα κόσμε"],
    "cp1254": ["Şöyle güneşli bir gün ışığı"],
    "cp1255": ["שלום עולם"],
    "cp1256": ["مرحبا بالعالم"],
    "cp874": ["ไฟล์ไม่พบ"],
    "utf-16-le": ["Hello\n", "日本語のテキスト\n"],
    "utf-16-be": ["Hello\n"],
    "utf-32-le": ["Hello"],
    "utf-32-be": ["Hello"],
    "utf-16": ["日本語 Привет"],
    "utf-32": ["日本語 Привет"],
}


@pytest.mark.parametrize("before", ["", "some English text\n" * 500], ids=["alone", "after ASCII"])
@pytest.mark.parametrize(("encoding", "text"), [(name, text) for name, texts in TEXTS.items() for text in texts])
def test_encodings_are_recognized(encoding: str, text: str, before: str) -> None:
    data = (before + text).encode(encoding)
    decoded = decode_bytes(data)
    assert decoded is not None
    assert decoded.text == before + text
    assert decoded.encode(decoded.text) == data
    assert decoded.invalid_count == 0


def test_damaged_texts_keep_their_encoding() -> None:
    for encoding, text in (("utf-8", "Größe"), ("gb18030", "你好，世界")):
        decoded = decode_bytes((text + "\n").encode(encoding) * 1000 + b"\xff\n")
        assert decoded is not None
        assert (decoded.encoding, decoded.invalid_count) == (encoding, 1)
        assert decoded.text.endswith("\\xff\n")


def test_binary_data_is_no_text() -> None:
    assert not any(decode_bytes(os.urandom(4000)) for _ in range(20))
    assert not decode_bytes(bytes(range(1, 256)))


@pytest.mark.parametrize(
    "data",
    [
        b"./a.txt\0./b.txt\0./longer name.txt\0",
        b"HOME=/root\0PATH=/usr/bin:/bin\0",
        "./größe.txt\0./straße\0.\0".encode(),
        b"def f():\n    return '\0'\n" * 3,
    ],
)
def test_text_with_nuls_is_not_utf_16(data: bytes) -> None:
    assert len(data) % 2 == 0
    assert not decode_bytes(data)


@given(st.binary())
def test_any_bytes_are_decoded_to_valid_text_or_refused(data: bytes) -> None:
    decoded = decode_bytes(data)
    if decoded:
        decoded.text.encode()
        assert decoded.title


@given(st.text())
def test_utf_8_stays_utf_8(text: str) -> None:
    if "\0" not in text:
        decoded = decode_bytes(text.encode())
        assert decoded
        assert decoded.text == text.removeprefix("\ufeff")
        assert decoded.encoding == "utf-8"


def test_a_text_that_was_cut_off_in_a_character_is_utf_8() -> None:
    decoded = decode_bytes("hi 😀😀".encode()[:-1])
    assert decoded
    assert (decoded.encoding, decoded.text[:4], decoded.invalid_count) == ("utf-8", "hi 😀", 1)
