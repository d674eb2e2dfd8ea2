"""The encodings of text: UTF-8, UTF-16 and UTF-32, and older ones, which are recognized by the letters they produce.

charset-normalizer, which comes with requests, is not used: it recognizes few short texts (a German word in windows-1252
becomes EBCDIC, two Russian words become Shift_JIS), and does not say when it guesses.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from itertools import islice

from ask.text import DecodedText

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE_BYTES = 20_000
_SAMPLE_LINES = 100
"""How many lines that are not ASCII are compared with the letters of languages."""
_MIN_BYTES = 3
"""How many bytes that are not ASCII a text needs to be anything but windows-1252."""
_MIN_UTF8_SHARE = 0.75
"""Share of valid characters among those that are not ASCII, above which a text is damaged UTF-8."""
_MIN_SCORE = 0.4
_MAX_CONTROL_SHARE = 0.02
_CONTROLS = r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f\ufffe\uffff]"
_PAIRED_LETTERS = re.compile("[\u2020-\ufffd]")
"""What two bytes of ASCII or UTF-8 text are as one character of UTF-16, mostly Chinese."""

_WESTERN = frozenset("äöüßéèêëàâçñóíúáåøæîïôûùòìãõœªº")
_CENTRAL_EUROPEAN = frozenset("áéíóúýčďěňřšťůžąćęłńśźżäöüőűăâîşţđß")
_KANA = frozenset(map(chr, range(0x3041, 0x30FF)))
_JAPANESE = _KANA | frozenset("日一国人年大本中出時行見月分後前生間上東今金入学高来気小名語電文字会社")
_SIMPLIFIED_CHINESE = frozenset(
    "的一是不了在人有我他这中大来上个国到说们为子和你地出道也时年得就那要下以生会自着"
    "去之过家学可你好用文件字本数据错误请"
)
_TRADITIONAL_CHINESE = frozenset(
    "的一是不了在人有我他這中大來上個國到說們為子和你地出道也時年得就那要下以生會自著"
    "去之過家學可你好用文件字本資料錯誤請檔案"
)
_KOREAN = frozenset(
    "이다는의에하가을고로지은사를한기도리어자대인일시그있나정스아서해수전들부상과제보주만안녕세요니었했습않없것할때"
)
_CANDIDATES = (
    ("cp1252", _WESTERN),
    ("iso8859-15", _WESTERN),
    ("cp1254", frozenset("çğıiöşüâîû")),
    ("cp1250", _CENTRAL_EUROPEAN),
    ("iso8859-2", _CENTRAL_EUROPEAN),
    ("cp1251", frozenset("оеаинтсрвлкмдпуяызьйії")),
    ("koi8-r", frozenset("оеаинтсрвлкмдпуяызьй")),
    ("cp866", frozenset("оеаинтсрвлкмдпуяызьй")),
    ("cp1253", frozenset("αεηιοτσνςρκπλμυάέίόύήώδγθ")),
    ("cp1255", frozenset("יוהלארתבמםשנעדקחןפכ")),
    ("cp1256", frozenset("اليمونرتبعدسفهكقحةأجشى")),
    ("cp874", frozenset("านรอกเงมยลวดทสตะปบคหแจพชขไใโ่้ีัิืุู็์ำ")),
    ("mac-roman", _WESTERN),
    ("cp850", _WESTERN),
    ("cp932", _JAPANESE),
    ("gb18030", _SIMPLIFIED_CHINESE),
    ("big5", _TRADITIONAL_CHINESE),
    ("cp949", _KOREAN),
    ("euc-jp", _JAPANESE),
)
"""The older encodings, each with frequent letters of its languages. If several fit equally well, the first is used."""
_COMMON_LEADS = {"cp932": (0x88, 0x97), "euc-jp": (0xB0, 0xCF), "gb18030": (0xB0, 0xD7), "big5": (0xA4, 0xC6)}
"""The lead bytes of the more common characters, which the standards put first."""
_PUNCTUATION = frozenset("“”„‘’‚‹›«»–—…€°§·•©®™£¿¡½²\xa0№、。，！？：；「」『』（）《》【】・ー％～")
_WORD_PATTERN = re.compile(
    r"[\u3005\u3040-\u30ff\u3400-\u9fff\uac00-\ud7ff]+|[\u0e00-\u0e7f]+|[^\W\d_\u0e00-\uffff]+|[^\x00-\x7f]"
)
"""Chinese, Japanese or Korean letters, Thai, other letters, or one character that is neither a letter nor ASCII."""
_MISPLACED_THAI = re.compile(r"(?<![ก-ฮัิีึืฺุู็่้๊๋์ํ])[ะาำัิีึืฺุู็่้๊๋์ํ]|[เแโใไ](?![ก-ฮ])")
"""A vowel or tone mark without a consonant before it, or a leading vowel without one after it."""


def decode_bytes(data: bytes) -> DecodedText | None:
    """Decode text in any known encoding; return None for binary data."""
    mark, encoding = next((each for each in _BYTE_ORDER_MARKS if data.startswith(each[0])), (b"", ""))
    data = data[len(mark) :]
    if not encoding and b"\0" in data:
        encoding = _detect_wide_encoding(data)
        if not encoding:
            return None
    if not encoding or encoding == "utf-8":
        if mark and b"\0" in data:
            return None
        try:
            return DecodedText(data.decode(), "utf-8", mark)
        except UnicodeDecodeError:
            encoding = _detect_older_encoding(data)
    if not encoding:
        return None
    text = data.decode(encoding, "backslashreplace")
    invalid_count = 0
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        # Some characters may be escaped because of a byte before them.
        invalid_count = data.decode(encoding, "replace").count("\ufffd")
    return DecodedText(text, encoding, mark, invalid_count)


def _detect_wide_encoding(data: bytes) -> str:
    """Return the encoding of UTF-16 or UTF-32 without a byte order mark; "" for binary data."""
    for encoding, width in (("utf-32-le", 4), ("utf-32-be", 4), ("utf-16-le", 2), ("utf-16-be", 2)):
        if len(data) % width:
            continue
        sample = data[:_SAMPLE_BYTES]
        try:
            text = sample.decode(encoding)
        except UnicodeDecodeError as error:
            if error.end < len(sample):  # otherwise, only the last character of the sample is incomplete
                continue
            text = sample[: error.start].decode(encoding)
        # ASCII characters, if only spaces and newlines, occur in every text, and any bytes are characters of UTF-16.
        # Text of any script has some spaces, digits or line ends; other data decodes to hardly any ASCII characters.
        ascii_count = len(re.findall(r"[\t\n\r -~]", text))
        if len(text.strip()) > 1 and ascii_count * 20 >= len(text) and not re.search(_CONTROLS, text):
            has_single_bytes = len(_PAIRED_LETTERS.findall(text)) > ascii_count and _is_separated_text(sample)
            return "" if has_single_bytes else encoding
    return ""


def _is_separated_text(data: bytes) -> bool:
    """Check for UTF-8 in which NULs separate or end texts, as from `find -print0` and in `/proc/*/environ`."""
    text = data.replace(b"\0", b"").decode("utf-8", "replace")
    return not re.search(_CONTROLS, text) and "\ufffd" not in text.rstrip("\ufffd")


def _detect_older_encoding(data: bytes) -> str:
    """Return the encoding of text that is not valid UTF-8; "" for binary data."""
    replaced = data.decode("utf-8", "replace")
    invalid_count = replaced.count("\ufffd")
    valid_count = len(replaced) - len(replaced.encode("ascii", "ignore")) - invalid_count
    is_cut_off = valid_count > 0 and invalid_count == 1 and replaced.endswith("\ufffd")
    if is_cut_off or valid_count >= _MIN_UTF8_SHARE * (valid_count + invalid_count):
        return "utf-8"
    # Only the surroundings of such characters: one long line should not be the entire sample.
    lines = islice(re.finditer(rb"[^\n]{0,200}[\x80-\xff][^\n]{0,200}", data), _SAMPLE_LINES)
    sample = b"\n".join(line[0] for line in lines)
    has_few = len(re.findall(rb"[\x80-\xff]", sample)) < _MIN_BYTES
    best_score, best_encoding = _MIN_SCORE, ""
    for encoding, frequent in _CANDIDATES[:1] if has_few else _CANDIDATES:
        score = _score(sample.decode(encoding, "replace"), encoding, frequent)
        if score > best_score:
            best_score, best_encoding = score, encoding
    if best_encoding:
        return best_encoding
    control_count = len(re.findall(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]", data))
    return "utf-8" if control_count <= _MAX_CONTROL_SHARE * len(data) else ""


def _score(text: str, encoding: str, frequent: frozenset[str]) -> float:
    """Rate how plausible the characters are that are not ASCII, on average."""
    scores = list(_score_characters(text, encoding, frequent))
    return sum(scores) / len(scores) if scores else 0.0


def _score_characters(text: str, encoding: str, frequent: frozenset[str]) -> Iterator[float]:
    for match in _WORD_PATTERN.finditer(text):
        word = match[0]
        if word.isascii():
            continue
        neighbors = text[match.start() - 1 : match.start()] + text[match.end() : match.end() + 1]
        if word[0] >= "\u3005" and word[0].isalpha():
            for char in word:
                # One character among small letters is a letter of an alphabet and the one after it.
                is_part = len(word) == 1 and any("a" <= each <= "z" for each in neighbors)
                yield -1 if is_part else _score_cjk(char, encoding, frequent)
        elif "\u0e00" <= word[0] <= "\u0e7f":
            yield from (1 if char in frequent else -0.3 for char in word)
            yield from [-2] * len(_MISPLACED_THAI.findall(word))
        elif word[0].isalpha():
            yield from _score_word(word, frequent)
        elif word == "\ufffd":  # not valid in this encoding
            yield -3
        elif word in _PUNCTUATION:
            # A quotation mark in the middle of a word is a letter of another encoding, an apostrophe is not.
            is_inside = len(neighbors) == 2 and neighbors.isalpha() and word not in "’·"
            is_typographic = word in "“”‘’–—…€" or word >= "\u3000"
            yield -1 if is_inside else 1 if is_typographic else 0.5
        else:
            yield -2 if re.match(_CONTROLS, word) else -0.5


def _score_cjk(char: str, encoding: str, frequent: frozenset[str]) -> float:
    if char in frequent:
        return 1.5
    if encoding == "cp949":  # the first bytes of the 2,350 common syllables of KS X 1001; others are rare
        return 0.5 if "\uac00" <= char <= "\ud7a3" and 0xB0 <= char.encode(encoding)[0] <= 0xC8 else -0.5
    if encoding not in _COMMON_LEADS or char in _KANA:
        return -0.5
    first, last = _COMMON_LEADS[encoding]
    return 0.5 if first <= char.encode(encoding)[0] <= last else -0.3


def _score_word(word: str, frequent: frozenset[str]) -> Iterator[float]:
    others = [char for char in word if char > "\x7f"]
    is_latin = others[0] < "\u0250"  # the first character after the Latin letters of languages
    is_mixed = any((char >= "\u0250") == is_latin for char in word)
    is_uncased = word == word.lower() or word[1:] == word[1:].lower()
    is_accented_only = is_latin and len(others) == len(word)
    if is_mixed or not (is_uncased or word.isupper()):
        best_score = -1.0
    elif is_accented_only and len(word) > 1:  # possible in Turkish: ışığı
        best_score = 0.0 if word.islower() else -1.0
    elif len(word) == 1:
        best_score = 0.5
    else:
        best_score = 0.8 if word.isupper() else 1.0
    for char in others:
        yield best_score if char.lower() in frequent else min(best_score, 0.2)
