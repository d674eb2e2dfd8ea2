"""Text: made safe for storage and terminals, wrapped, in blocks for prompts, ages, and similar words."""

from __future__ import annotations

import json
import os
import re
import sys
from binascii import crc32
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, pairwise

from ask.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

# Patterns that not every run needs are strings: `re` compiles them when they are first used.
CONTROL_CHARACTERS = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
"""Characters that can move, hide or reverse what a terminal shows."""
LONG_GAP = r" {20,}"
EMPTY_LINES = r"\n(?: *\n){4,}"
JOINED_CHARACTERS = r"[\u0620-\u0dff\u1780-\u17b3\u2190-\u2bff\ufe0f\U0001f000-\U0001faff]"
"""Arabic, Indic and Khmer letters, and emoji: joiners between two of them change how these are shown."""
INVISIBLE_CHARACTERS = (
    r"[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0e\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    r"|(?<![#*0-9\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff])\ufe0f"
    rf"|(?<!{JOINED_CHARACTERS})[\u200c\u200d]|[\u200c\u200d](?!{JOINED_CHARACTERS})"
)
"""Characters that are not shown. U+FE0F is one unless it follows a symbol that it turns into an emoji."""
ENCODING_TITLES = {"cp874": "windows-874", "cp932": "Shift_JIS", "cp949": "EUC-KR", "mac-roman": "Mac Roman"}
OPENING_TAG_PATTERN = r'(?:\A|\n\n)<(?P<mark>(?:file|stdin)(?:-\d+)?)(?: name=(?P<name>"[^\n]*"))?>\n'
"""The opening tag of a file or of piped text in a prompt, as `ask.inputs` writes it."""
WORD_PATTERN = r"\S+\s*|\s+"
WIDENING_CHARACTERS = "\ufe0f\u200d"
"""Characters that some terminals combine with their neighbors into one wider symbol."""
MAX_WORD_CHARACTERS = 300
"""Words with more characters are not compared."""
SIMILAR_CUTOFF, LIKELY_CUTOFF = 0.6, 0.75
"""The similarity from which a word is listed, and from which it is suggested as the intended one."""
MIN_PREFIX_CHARACTERS = 3
MAX_LISTED_NAMES = 30
"""How many columns or tables an error lists: a table may have thousands."""
_AGE_UNITS = ((365 * 86_400, "y"), (30 * 86_400, "mo"), (7 * 86_400, "w"), (86_400, "d"), (3_600, "h"), (60, "min"))
"""Length in seconds and symbol of each unit, longest first."""
_MAX_COMPARED = 20
"""How many words are compared by `SequenceMatcher`, whose cost is up to cubic in their length."""
_MAX_JSON_DEPTH = 1_000
"""Values that are nested deeper are not checked: they may contain themselves, which json refuses to encode."""


def repair_surrogates(text: str) -> str:
    """Join split surrogate pairs, and replace unpaired surrogates by U+FFFD."""
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def repair_json_surrogates(value: Any) -> Any:
    """Return a JSON value without lone surrogates, which services reject: the same value if it has none."""
    return _copy_without_surrogates(value) if _has_lone_surrogates(value) else value


def _has_lone_surrogates(value: Any) -> bool:
    """Check the texts and keys of a JSON value, without recursion and copies: every request waits for this."""
    texts: set[Any] = set()
    values, depth = [value], 0
    while values and depth < _MAX_JSON_DEPTH:
        depth += 1
        nested: list[Any] = []
        for each in values:
            if isinstance(each, str):
                if not each.isascii():
                    texts.add(each)
            elif isinstance(each, dict):
                texts.update(each)
                nested += each.values()
            elif isinstance(each, (list, tuple)):
                nested += each
        values = nested
    return any(text != _copy_without_surrogates(text) for text in texts)


def _copy_without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return repair_surrogates(value)
    # map(): before Python 3.12, a comprehension is a second frame at each level, up to the recursion limit.
    if isinstance(value, dict):
        return dict(
            zip(map(_copy_without_surrogates, value), map(_copy_without_surrogates, value.values()), strict=True)
        )
    return [*map(_copy_without_surrogates, value)] if isinstance(value, list | tuple) else value


def format_checksum(text: str) -> str:
    """Return a checksum of a text in eight digits, for a name that must not contain the text, or not all of it."""
    return f"{crc32(text.encode('utf-8', 'replace')):08x}"


def join_names(names: Sequence[str], limit: int = MAX_LISTED_NAMES) -> str:
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


def escape_invisible_characters(text: str) -> str:
    """Escape characters that take no space, which can make two texts look the same."""
    return text if text.isascii() else re.sub(INVISIBLE_CHARACTERS, _escape_match, text)


def format_one_line(text: str, limit: int = 0) -> str:
    """Format text as one line for a terminal, with invisible characters escaped.

    It is cut to `limit` characters unless that is 0.
    """
    line = " ".join(text.split())
    if not (line.isascii() and line.isprintable()):
        line = escape_invisible_characters(escape_control_characters(line))
    return line[: limit - 1] + "…" if 0 < limit < len(line) else line


def format_size(size: int) -> str:
    """Format a number of bytes: "812 bytes", "5.3 KB", "557 KB", "1.2 GB"."""
    for unit, suffix in ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "KB")):
        if size >= unit * 0.9995:
            return f"{size / unit:.0f} {suffix}" if size >= unit * 9.95 else f"{size / unit:.1f} {suffix}"
    return "1 byte" if size == 1 else f"{size} bytes"


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


def measure_width(text: str) -> int:
    """Return the largest number of columns that a text takes in any terminal."""
    return len(text) if text.isascii() else sum(map(measure_character, text))


def measure_character(character: str) -> int:
    """Return the largest number of columns that a character takes: 0, 1 or 2."""
    if character.isascii() or character in WIDENING_CHARACTERS:
        return 1
    import unicodedata

    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def wrap_text(text: str, width: int, *, divide_words: bool = True) -> list[str]:
    """Wrap text at newlines and between words, by its width on a terminal.

    A word that is wider than a row is divided, or with `divide_words=False` left to the terminal, so that it can be
    copied.
    """
    rows = []
    for line in text.expandtabs().split("\n"):
        breaks = [] if measure_width(line) <= width else find_breaks(line, width, divide_words=divide_words)
        rows += [line[start:end].rstrip() for start, end in pairwise((0, *breaks, len(line)))]
    return rows


def find_breaks(text: str, width: int, *, divide_words: bool = True) -> Iterator[int]:
    """Yield where to divide a line so that each part fits; see `wrap_text`."""
    used_width = 0
    for match in re.finditer(WORD_PATTERN, text):
        word_width = measure_width(match[0].rstrip())
        if used_width and used_width + word_width > width:
            yield match.start()
            used_width = 0
        if word_width > width and divide_words:
            start = match.start()
            for offset in find_forced_breaks(match[0].rstrip(), width):
                start = match.start() + offset
                yield start
            used_width = measure_width(text[start : match.end()])
        else:
            used_width += measure_width(match[0])


def find_forced_breaks(text: str, width: int) -> Iterator[int]:
    """Yield where to divide a text at any character so that each part fits."""
    used_width = 0
    for offset, character in enumerate(text):
        used_width += measure_character(character)
        if used_width > width:
            yield offset
            used_width = measure_character(character)


HIDDEN_PARAMETER_PATTERN = r"(?i)([?&][^=&#]*(?:key|token|secret|password|sig|code)[^=&#]*=)[^&#]+"


def mask_password(url: str) -> str:
    """Replace the credentials in a URL, which may be malformed, with asterisks, also those in its query."""
    url = re.sub(r"^([\w+.-]*://)?.*@", r"\1***@", url, flags=re.DOTALL)
    return re.sub(HIDDEN_PARAMETER_PATTERN, r"\1***", url)


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
    """Decode a command line argument as UTF-8, whatever the locale. Invalid bytes become escapes.

    Surrogates that stand for no byte, as in a damaged file of paths, are replaced.
    """
    try:
        return os.fsencode(argument).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        return repair_surrogates(argument)


class PromptPart(NamedTuple):
    """A part of a prompt.

    The title of a file or of piped text is its name; the title of the user's words is "".
    """

    title: str
    text: str

    source: str = ""
    """The part with its tags, as it is in the prompt."""


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
        words = prompt[position : opening.start()]
        title, source = _format_title(opening["name"]), prompt[opening.start() : after]
        parts += [PromptPart("", words, words), PromptPart(title, prompt[opening.end() : end], source)]
        position = after
    parts.append(PromptPart("", prompt[position:], prompt[position:]))
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
    # A model takes variants such as </FILE > and </file name="x"> for its end, too.
    ends = re.findall(rf"<\s*/\s*{tag}(?:-([0-9]{{1,9}}))?(?![\w-])", attributes + text, re.IGNORECASE)
    numbers = {int(number or 1) for number in ends}
    number = next(number for number in count(1) if number not in numbers)
    name = tag if number == 1 else f"{tag}-{number}"
    return f"<{name}{attributes}>\n{text.rstrip(chr(10))}\n</{name}>"


def describe_parse_error(error: Exception) -> str:
    """Return why a text cannot be parsed. What Python says about its limits is meant for programmers."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    is_long = "integer string conversion" in str(error)
    return f"an integer has more than {sys.get_int_max_str_digits():,} digits" if is_long else str(error)


def format_age(unix_time: float, now: float) -> str:
    """Format the time since then in the largest unit that fits: "3 min", "2 d"."""
    age = now - unix_time
    for seconds, symbol in _AGE_UNITS:
        if age >= seconds:
            return f"{age // seconds:.0f} {symbol}"
    return "now"


def format_duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours; "over a year" for any longer one, which a server may report."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds > _AGE_UNITS[0][0]:
        return "over a year"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def suggest(word: str, choices: Iterable[str]) -> str:
    """Return the known word that was probably meant; "" for none.

    It may be misspelled or abbreviated to its beginning.
    """
    choices = list(choices)
    completions = (name for name in choices if len(word) >= MIN_PREFIX_CHARACTERS and name.startswith(word))
    return find_misspelled(word, choices) or next(completions, "")


def find_meant_key(key: str, known_keys: Iterable[str]) -> str:
    """Find the known key that ends with an unknown one, or the most similar one; return "" for none."""
    known_keys = list(known_keys)
    return next((name for name in known_keys if name.endswith(f".{key}")), "") or suggest(key, known_keys)


def format_unknown_key(key: str, known_keys: Iterable[str]) -> str:
    """Format a warning about an unknown key, suggesting the one that is probably meant."""
    suggestion = find_meant_key(key, known_keys)
    return f"unknown key {' '.join(key.split())}" + (f" (did you mean {suggestion}?)" if suggestion else "")


def format_suggestion(word: str, choices: Iterable[str], otherwise: str, prefix: str = "") -> str:
    """Return a hint for an unknown word: "did you mean PREFIX...?", or `otherwise`."""
    suggestion = suggest(word, choices)
    return f"did you mean {prefix}{suggestion}?" if suggestion else otherwise


def find_misspelled(word: str, choices: Iterable[str], cutoff: float = LIKELY_CUTOFF) -> str:
    """Return the known word that is probably misspelled; "" for none.

    One with the same letters, in any case, is preferred to the most similar one above the cutoff.
    """
    choices = list(choices)
    anagrams = (name for name in choices if sorted(name.lower()) == sorted(word.lower()))
    return next(anagrams, "") or next(iter(find_similar(word, choices, 1, cutoff)), "")


def find_similar(word: str, choices: Iterable[str], count: int, cutoff: float = SIMILAR_CUTOFF) -> list[str]:
    """Return up to `count` of the choices that are most like the word, the best first."""
    if len(word) > MAX_WORD_CHARACTERS:
        return []
    from difflib import SequenceMatcher, get_close_matches
    from heapq import nlargest

    matcher = SequenceMatcher(b=word)

    def measure_similarity(choice: str) -> float:
        matcher.set_seq1(choice)
        return matcher.quick_ratio()

    comparable = dict.fromkeys(choice for choice in choices if len(choice) <= MAX_WORD_CHARACTERS)
    return get_close_matches(word, nlargest(_MAX_COMPARED, comparable, measure_similarity), count, cutoff)


def fence_code(text: str) -> str:
    """Put a text in a Markdown code block whose fence is longer than any in the text."""
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}\n{text}\n{fence}"


def format_paths(paths: Sequence[Path], folder: Path, limit: int = 20) -> str:
    """Format the first paths, relative to a folder, on one line, and the number of the others."""
    names = [format_one_line(decode_argument(os.path.relpath(path, folder))) for path in paths[:limit]]
    return ", ".join([*names, *([f"and {len(paths) - limit:,} more"] if len(paths) > limit else [])])
