"""Text: made safe for storage and for terminals, blocks for files and piped text in a prompt, and similar words."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Sequence

from ask.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

# Patterns that not every run needs are strings: `re` compiles them when they are first used.
CONTROL_CHARACTERS = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
"""Characters that can move, hide or reverse what a terminal shows."""
LONG_GAP = r" {20,}"
EMPTY_LINES = r"\n(?: *\n){4,}"
INVISIBLE_CHARACTERS = (
    r"[\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    r"\U000e0000-\U000e007f]"
)
ENCODING_TITLES = {"cp874": "windows-874", "cp932": "Shift_JIS", "cp949": "EUC-KR", "mac-roman": "Mac Roman"}
OPENING_TAG_PATTERN = r'(?:\A|\n\n)<(?P<mark>(?:file|stdin)(?:-\d+)?)(?: name=(?P<name>"[^\n]*"))?>\n'
"""The opening tag of a file or of piped text in a prompt, as `ask.inputs` writes it."""
MAX_WORD_LENGTH = 300
"""Words with more characters are not compared."""
SIMILAR_CUTOFF, LIKELY_CUTOFF = 0.6, 0.75
"""The similarity from which a word is listed, and from which it is suggested as the intended one."""
MIN_PREFIX_LENGTH = 3
_MAX_COMPARED = 20
"""How many words are compared by `SequenceMatcher`, whose cost is up to cubic in their length."""


def repair_surrogates(text: str) -> str:
    """Join split surrogate pairs, and replace unpaired surrogates by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class SurrogateJoiner:
    """Joins surrogate pairs that are split between two chunks of a stream."""

    def __init__(self) -> None:
        self._high_surrogate = ""

    def feed(self, text: str) -> str:
        """Return the chunk, holding back a high surrogate at its end."""
        text, self._high_surrogate = self._high_surrogate + text, ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._high_surrogate = text[:-1], text[-1:]
        return repair_surrogates(text)

    def finish(self) -> str:
        """Return the replacement for a high surrogate that was held back."""
        return repair_surrogates(self._high_surrogate)


def join_names(names: Sequence[str], limit: int) -> str:
    """Join the first names, up to a limit, and say how many more there are."""
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if names[limit:] else "")


def is_blank(text: str) -> bool:
    """Check whether a text has only white space and invisible characters."""
    return not (text if text.isascii() else re.sub(INVISIBLE_CHARACTERS, "", text)).strip()


def escape_control_characters(text: str) -> str:
    """Escape control characters except newline and tab, and drop carriage returns."""
    if text.replace("\n", "").replace("\t", "").isprintable():  # a fast check that is usually enough
        return text
    return re.sub(CONTROL_CHARACTERS, _escape_match, text.replace("\r", ""))


def format_one_line(text: str, limit: int = 0) -> str:
    """Format text as one line for a terminal, with invisible characters escaped.

    It is cut to `limit` characters unless that is 0.
    """
    line = escape_control_characters(" ".join(text.split()))
    if not line.isascii():
        line = re.sub(INVISIBLE_CHARACTERS, _escape_match, line)
    return line[: limit - 1] + "…" if 0 < limit < len(line) else line


def escape_non_ascii(text: str) -> str:
    """Convert text to printable ASCII and newlines, so that nothing can be disguised.

    Other characters become escapes; wide and tall gaps are replaced by their size.
    """
    escaped = re.sub(r"[^ -~\n]", _escape_match, text)
    escaped = re.sub(EMPTY_LINES, lambda match: f"\n[{match[0].count(chr(10)) - 1} empty lines]\n", escaped)
    return re.sub(LONG_GAP, lambda match: f"[{len(match[0])} spaces]", escaped)


def _escape_match(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def mask_password(url: str) -> str:
    """Replace the credentials in a URL, which may be malformed, with asterisks."""
    return re.sub(r"^([\w+.-]*://)?.*@", r"\1***@", url, flags=re.DOTALL)


class DecodedText(NamedTuple):
    """A text, and how it is encoded.

    Attributes:
        text: the text without its byte order mark; bytes that are not characters are escapes, as in \\xe9.
        encoding: the Python name of the encoding.
        byte_order_mark: the byte order mark; b"" if there is none.
        invalid_count: how many bytes are not characters.
    """

    text: str
    encoding: str = "utf-8"
    byte_order_mark: bytes = b""
    invalid_count: int = 0

    @property
    def title(self) -> str:
        """The common name of the encoding."""
        name = self.encoding.removesuffix("-le").removesuffix("-be")
        return ENCODING_TITLES.get(name) or (f"windows-{name[2:]}" if name.startswith("cp125") else name.upper())

    @property
    def note(self) -> str:
        """What the user should know about the encoding, to follow the name of the text; "" for nothing."""
        parts = [] if self.encoding.startswith("utf-") else [f"is not UTF-8 and was read as {self.title}"]
        if self.invalid_count:
            count = "1 byte that is" if self.invalid_count == 1 else f"{self.invalid_count:,} bytes that are"
            parts.append(f"contains {count} not {self.title}, sent as escapes")
        return ", and ".join(parts)

    def encode(self, text: str) -> bytes:
        """Encode another text as this one.

        Raises:
            UnicodeEncodeError: the encoding lacks a character.
        """
        return self.byte_order_mark + text.encode(self.encoding)


def decode_argument(argument: str) -> str:
    """Decode a command line argument as UTF-8, whatever the locale. Invalid bytes become escapes."""
    return os.fsencode(argument).decode("utf-8", "backslashreplace")


class PromptPart(NamedTuple):
    """A part of a prompt.

    The title of a file or of piped text is its name; the title of the user's words is "".
    """

    title: str
    text: str


def split_prompt(prompt: str) -> list[PromptPart]:
    """Split a prompt into its parts, in order."""
    parts, position, opening_tag = [], 0, re.compile(OPENING_TAG_PATTERN)
    while opening := opening_tag.search(prompt, position):
        closing = f"\n</{opening['mark']}>"
        # An empty block has only one newline between its tags.
        end = prompt.find(closing, opening.end() - 1)
        after = end + len(closing)
        if end < 0 or prompt[after : after + 2] not in ("", "\n\n"):
            break
        parts.append(PromptPart("", prompt[position : opening.start()]))
        parts.append(PromptPart(_format_title(opening["name"]), prompt[opening.end() : end]))
        position = after
    parts.append(PromptPart("", prompt[position:]))
    return [part for part in parts if part.title or part.text.strip("\n")]


def _format_title(name: str | None) -> str:
    if name is None:
        return "stdin"
    try:
        return format_one_line(repair_surrogates(json.loads(name))) or "file"
    except ValueError:
        return format_one_line(name)


def format_blocks(prompt_text: str, files: Sequence[tuple[str, str]], stdin_text: str) -> str:
    """Join the prompt with the files and piped text, which become tagged blocks."""
    blocks = [format_block("file", text, f" name={json.dumps(name, ensure_ascii=False)}") for name, text in files]
    if stdin_text.strip():
        blocks.append(format_block("stdin", stdin_text, ""))
    return "\n\n".join(filter(None, (prompt_text, *blocks)))


def format_block(tag: str, text: str, attributes: str) -> str:
    """Enclose text in tags that do not occur in it, so that it cannot fake its end."""
    name, number = tag, 1
    while f"</{name}>" in attributes + text:
        number += 1
        name = f"{tag}-{number}"
    return f"<{name}{attributes}>\n{text.rstrip(chr(10))}\n</{name}>"


def decode_toml(data: bytes) -> str:
    """Decode a file in UTF-8, or in UTF-16 with a byte order mark, as PowerShell and old versions of Notepad write it.

    Raises:
        UnicodeDecodeError: it is neither.
    """
    is_utf16 = data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) and len(data) > len(BOM_UTF16_LE)
    return data.decode("utf-16" if is_utf16 else "utf-8-sig")


def suggest(word: str, choices: Iterable[str]) -> str:
    """Return the known word that was probably meant; "" for none.

    It may be misspelled or abbreviated to its beginning.
    """
    choices = list(choices)
    completions = (name for name in choices if len(word) >= MIN_PREFIX_LENGTH and name.startswith(word))
    return find_misspelled(word, choices) or next(completions, "")


def format_unknown_key(key: str, known_keys: Iterable[str]) -> str:
    """Format a warning about an unknown key, suggesting the most similar known one."""
    suggestion = suggest(key, known_keys)
    return f"unknown key {' '.join(key.split())}" + (f" (did you mean {suggestion}?)" if suggestion else "")


def format_suggestion(word: str, choices: Iterable[str], otherwise: str, prefix: str = "") -> str:
    """Return a hint for an unknown word: "did you mean PREFIX...?", or `otherwise`."""
    suggestion = suggest(word, choices)
    return f"did you mean {prefix}{suggestion}?" if suggestion else otherwise


def find_misspelled(word: str, choices: Iterable[str], cutoff: float = LIKELY_CUTOFF) -> str:
    """Return the known word that is probably misspelled; "" for none.

    One with the same letters is preferred to the most similar one above the cutoff.
    """
    choices = list(choices)
    anagrams = (name for name in choices if sorted(name) == sorted(word))
    return next(anagrams, "") or next(iter(find_similar(word, choices, 1, cutoff)), "")


def find_similar(word: str, choices: Iterable[str], count: int, cutoff: float = SIMILAR_CUTOFF) -> list[str]:
    """Return up to `count` of the choices that are most like the word, the best first."""
    if len(word) > MAX_WORD_LENGTH:
        return []
    from difflib import SequenceMatcher, get_close_matches
    from heapq import nlargest

    matcher = SequenceMatcher(b=word)

    def measure_similarity(choice: str) -> float:
        matcher.set_seq1(choice)
        return matcher.quick_ratio()

    comparable = dict.fromkeys(choice for choice in choices if len(choice) <= MAX_WORD_LENGTH)
    return get_close_matches(word, nlargest(_MAX_COMPARED, comparable, measure_similarity), count, cutoff)


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _parse_finite_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise OverflowError(f"{text} is too large: the limit is {sys.float_info.max:.1e}")
    return number


STRICT_DECODER = json.JSONDecoder(parse_constant=_reject_constant, parse_float=_parse_finite_float)
"""Decodes JSON without Python's extensions NaN and Infinity."""
JSON_ERRORS = (ValueError, RecursionError, OverflowError)
"""What `STRICT_DECODER` raises; OverflowError for a number that is too large to be sent."""


def format_paths(paths: Sequence[Path], folder: Path, limit: int = 20) -> str:
    """Format the first paths, relative to a folder, on one line, and the number of the others."""
    names = [format_one_line(decode_argument(os.path.relpath(path, folder))) for path in paths[:limit]]
    return ", ".join([*names, *([f"and {len(paths) - limit:,} more"] if len(paths) > limit else [])])
