"""What the demo understands: plain words to tool calls, piped text to a report, tool results to sentences.

Pure functions from text to text. Which of them answers a request, and in what wire, is `demo`'s to say.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any

FLAGS = re.IGNORECASE | re.DOTALL
MOST_WORDS = 2_000
"""Characters of a question that are matched against the rules; they are made for a sentence or two."""
SHOWN_LINES = 40
SHOWN_CHARACTERS = 4_000
"""How much of a text an answer repeats."""

QUOTED = r"""(?:"[^"]*"|`[^`]*`|(?<!\w)'[^']*'(?!\w))"""
WITH = r"(?:with|containing|saying|that (?:says|contains))(?: the (?:words?|line)|(?: the)? (?:text|contents?))?:?"
FILE = rf"(?:(?:a|an|the|new|text) )*(?P<file>file (?:(?:called|named) )?(?:{QUOTED}|\S+)|{QUOTED}|\S*[./]\w\S*)"
"""A file to write to: quoted, called a file, or with a dot or a slash, so that no other noun is taken for one."""

FILES = r"(?:files|folders|directories|entries)(?: (?:and|or) (?:files|folders|directories))?"
SYSTEM = r"(?:os|operating system)"
TIME = r"(?:the )?(?:current )?(?:date|time|day)"
FOLDER_WORD = r"(?:folder|directory|dir)"
TAG = r"(?:stdin|file)(?:[-_.:]\w+|\d\w*)?"
BLOCK = re.compile(
    rf"<(?P<tag>{TAG})(?:\s(?P<about>.{{0,1000}}?)>(?=\n)|>)\n?(?P<text>.*?)(?:</(?P=tag)>\s*(?=<{TAG}|\Z)|\Z)",
    re.DOTALL,
)
PRONOUNS = {"it", "this", "that", "them", "these", "those", "me", "everything", "all", "input", "stdin"}
POLITE = re.compile(r"\A\s*(?:(?:please|now|first|can\s+you|could\s+you|would\s+you)[,\s]+)*", FLAGS)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call to make."""

    tool: str
    arguments: dict[str, Any]


Action = Callable[[re.Match[str]], list[Call]]
"""What a rule does with its match; [] where it does not apply after all."""


@dataclass(frozen=True, slots=True)
class Block:
    """Text that came with the question: piped in (`name` is "stdin"), or from a file."""

    name: str
    text: str


def read_question(text: str) -> tuple[str, list[Block]]:
    """The user's own words, and the blocks of piped input and files that stand with them.

    Everything from the first opening tag to the last closing one is data, so that a closing tag inside the
    data cannot turn what follows it into words.
    """
    opening = re.search(rf"<{TAG}[\s>]", text)
    if not opening:
        return text.strip(), []
    start = opening.start()
    end = max((match.end() for match in re.finditer(rf"</{TAG}>", text) if match.start() > start), default=len(text))
    blocks = BLOCK.finditer(text[start:end])
    return f"{text[:start]} {text[end:]}".strip(), [Block(block_name(b["about"] or ""), b["text"]) for b in blocks]


def block_name(attributes: str) -> str:
    """The name in a tag's attributes, or "stdin"."""
    name = re.search(r'name="(.*)"', attributes, re.DOTALL)
    return name[1] if name else "stdin"


# Words to calls


def plan(words: str) -> list[list[Call]]:
    """The rounds of calls that do what the words ask; [] where they ask for nothing that is understood.

    "then" parts one round from the next, where the demo understands both sides of it.
    """
    if len(words) > MOST_WORDS:
        return []
    for steps in (split(r",?\s+(?:and\s+)?then\s+", words), [words]):
        rounds = [calls_for(step) for step in steps]
        if all(rounds):
            return rounds
    return []


def calls_for(step: str) -> list[Call]:
    """The calls of one round, by the first rule that fits; [] where none does."""
    step = POLITE.sub("", step).strip()
    tries = (make(match) for pattern, make in RULES if (match := pattern.fullmatch(step)))
    return next(filter(None, tries), [])


def list_place(match: re.Match[str]) -> list[Call]:
    """List the one directory that is named, this one where none is."""
    return listing(trim(match["place"] or "here"))


def listing(phrase: str) -> list[Call]:
    """The call that lists the directory of that phrase."""
    place = folder_name(phrase)
    return [Call("list_dir", {"dirpath": place})] if place else []


def look_into(match: re.Match[str]) -> list[Call]:
    """Read each file that is named, or list the directory."""
    subject = trim(match["subject"])
    if is_folder(subject):
        return listing(subject)
    names = [file_name(part) for part in split(r"\s*,\s*(?:and\s+)?|\s+and\s+", subject)]
    return [Call("read_file", {"filepath": name}) for name in names] if all(names) else []


def write(match: re.Match[str]) -> list[Call]:
    """Write the text that is given; a pronoun stands for a text that the demo does not have."""
    name, text = file_name(match["file"]), unquote(match["text"])
    if not name or trim(match["text"]).lower() in PRONOUNS:
        return []
    return [Call("write_file", {"filepath": name, "content": text})]


def edit(match: re.Match[str]) -> list[Call]:
    """Replace one text by another."""
    name, old, new = file_name(match["file"]), unquote(match["old"]), unquote(match["new"])
    return [Call("edit_file", {"filepath": name, "old_text": old, "new_text": new})] if name and old else []


def run(match: re.Match[str]) -> list[Call]:
    """Run the command that is given."""
    command = unquote(match["command"]).strip()
    return [Call("bash", {"command": command})] if command else []


def always(command: str) -> Action:
    """A rule's action: run this command."""
    return lambda _: [Call("bash", {"command": command})]


def rule(pattern: str) -> re.Pattern[str]:
    """A rule's pattern, in which a blank stands for any white space."""
    return re.compile(pattern.replace(" ", r"\s+"), FLAGS)


RULES: list[tuple[re.Pattern[str], Action]] = [
    (rule(rf"(?:write|create|save|make) {FILE} {WITH} (?P<text>.+)"), write),
    (rule(rf"(?:write|save|put) (?P<text>{QUOTED}|.+) (?:to|into|in) {FILE}[.?!]*"), write),
    (rule(rf"replace (?P<old>{QUOTED}|.+?) (?:with|by) (?P<new>{QUOTED}|.+) in {FILE}[.?!]*"), edit),
    # A command in backquotes needs "run", or to be all that was said: a question about one must not run it.
    (rule(r"(?P<command>`[^`]+`)[.?!]*"), run),
    (rule(r"(?:run|execute) (?:the command )?(?P<command>`[^`]+`)[^`]*"), run),
    (rule(r"(?:run|execute) (?:the command )?(?P<command>(?!(?:the|a|an|my|this|it|all)\b|`).+)"), run),
    (rule(rf"(?:which|what) {SYSTEM} (?:is (?:this|it)|(?:am|do|are) (?:i|we|you))\b.*"), always("uname -a")),
    (rule(rf"what(?:'s| is) (?:my|the|this) {SYSTEM}\W*"), always("uname -a")),
    (rule(rf"what(?:'s| is)? {TIME}(?: (?:and|or) {TIME})?(?: (?:is|it|now|today|right))*\W*"), always("date")),
    (rule(r"ls(?: -\w+)*(?: (?P<place>.+))?"), list_place),
    (
        rule(rf"(?:list|show)(?: me)?(?: all)?(?: the| my)? {FILES}(?: (?:(?:in|of|under) )?(?P<place>.+))?\W*"),
        list_place,
    ),
    (rule(rf"(?:which|what) {FILES} (?:are|do (?:i|we) have)(?: there)?(?: in)?(?: (?P<place>.+))?\W*"), list_place),
    (rule(r"what(?:'s| is) (?P<place>here)\W*"), list_place),
    (rule(r"list (?:the contents? of )?(?P<place>.+)"), list_place),
    (rule(r"what(?:'s| is| are) (?:in(?:side)?|the contents? of) (?P<subject>.+)"), look_into),
    (rule(r"(?:read|cat|show(?: me)?|print|summari[sz]e) (?:the contents? of )?(?P<subject>.+)"), look_into),
]
"""Tried in this order, on one step each; the first that gives calls counts."""


# Names and quotes


def split(separator: str, text: str) -> list[str]:
    """The pieces of a text between separators, with what stands in quotes left whole."""
    pieces, start = [], 0
    for match in re.finditer(rf"{QUOTED}|(?P<separator>{separator})", text, FLAGS):
        if match["separator"]:
            pieces.append(text[start : match.start()])
            start = match.end()
    return [*pieces, text[start:]]


def trim(text: str) -> str:
    """The text without what ends a sentence: a "please", punctuation. The dots of "." and ".." are none."""
    text = re.sub(r"(?:^|,?\s+)please\W*$", "", text.strip(), flags=FLAGS)
    return re.sub(r"(?<=[\w\"'`)\]])[.?!,;:]+$|[?!]+$", "", text)


def unquote(text: str) -> str:
    """The text inside quotes, where all of it is quoted; else the text as it is."""
    return trim(text)[1:-1] if re.fullmatch(QUOTED, trim(text), FLAGS) else text


def is_folder(phrase: str) -> bool:
    """Whether a phrase speaks of a directory."""
    return bool(re.fullmatch(rf"here|\.\.?|.*/\.{{0,2}}|(?:.*\s)?{FOLDER_WORD}(?:\s.*)?", phrase, FLAGS))


def folder_name(phrase: str) -> str:
    """The directory that a phrase names, "." for this one; "" where it names none."""
    name = re.sub(r"^(?:(?:the|this|my|current|working)\s+)+", "", phrase, flags=FLAGS)
    name = re.sub(rf"^{FOLDER_WORD}(?:\s+|$)|\s+{FOLDER_WORD}$", "", name, flags=FLAGS)
    return "." if name.lower() in ("", "here", "there") else one_name(name)


def file_name(phrase: str) -> str:
    """The file that a phrase names; "" where it names none."""
    name = re.sub(r"^(?:the\s+|my\s+)?(?:files?\s+)?(?:(?:called|named)\s+)?", "", trim(phrase), flags=FLAGS)
    return one_name(re.sub(r"\s+file$", "", name, flags=FLAGS))


def one_name(phrase: str) -> str:
    """The phrase without quotes, if it can be a name: quoted, or a single word that is no pronoun."""
    name = unquote(phrase)
    return name if name != phrase or (not re.search(r"\s", name) and name.lower() not in PRONOUNS) else ""


# Answers

REAL_MODEL = "For a real model, set OPENROUTER_API_KEY (keys: https://openrouter.ai/keys) and use `-p openrouter`."
INTRODUCTION = f"""\
I am the embedded demo of `ask`: a few rules that understand plain words. There is no account, no network and no \
language model behind me. Try:

```
ask -p demo "which files are here?"
ask -p demo "write notes.txt with Hello, then read notes.txt"
ask -p demo "run uname -a"
make 2>&1 | ask -p demo "what broke?"
```

{REAL_MODEL}"""
NO_ANSWER = f"""\
I am the embedded demo of `ask`, a few rules and not a language model, so I cannot answer that. I can list a folder \
("which files are here?"), read and write files ("read notes.txt"), and run a command ("run date").

{REAL_MODEL}"""
GREETING = re.compile(
    r"(?:(?:hello|hi|hey|help)\b.{0,40}|(?:who|what)\s+are\s+you\b.{0,40}|what\s+can\s+you\s+do\W*)", FLAGS
)
TROUBLE = re.compile(r"error|fail|exception", re.IGNORECASE)
ASKS_FOR_TROUBLE = re.compile(r"broke|broken|wrong|error|fail|exception|problem|happened|why", re.IGNORECASE)
ENTRY = re.compile(r"(?P<kind>file|dir|link|other) (?:(?<=file )(?P<size>\d{1,18}) )?(?P<name>.+)")
"""A line of list_dir's result."""
KINDS = {
    "dir": ("directory", "directories"),
    "file": ("file", "files"),
    "link": ("link", "links"),
    "other": ("other", "other"),
}
READ_IN_PART = re.compile(r"(?P<part>.*\n)\[(?P<note>lines? [\d,]+[^\n]* of [^\n]*)\]", re.DOTALL)
"""A result of read_file that is not all of the file."""
EMPTY_FILE = "[the file is empty]"


def small_talk(words: str) -> str:
    """The answer to a question that no tool and no input belongs to; repeats nothing of it."""
    return INTRODUCTION if len(words) < MOST_WORDS and GREETING.fullmatch(words) else NO_ANSWER


def about_input(words: str, blocks: Sequence[Block]) -> str:
    """What can be counted and found in piped text and files."""
    search = bool(ASKS_FOR_TROUBLE.search(words))
    reports = [report(block, search) for block in blocks]
    return "\n\n".join(["I am the embedded demo, not a language model: I count and search.", *reports])


def report(block: Block, search: bool) -> str:
    """The size of a block, and its first line of trouble where asked to search; else its first line."""
    if not block.text.strip():
        return f"{code(block.name)} is empty."
    size = f"{code(block.name)} has {size_of(block.text)}."
    lines = lines_of(block.text)
    if not search:
        return f"{size} It begins:\n\n{fenced(lines[0])}"
    found = next((number for number, line in enumerate(lines) if TROUBLE.search(line)), None)
    if found is None:
        return f"{size} No line speaks of an error, a failure or an exception."
    return f"{size} The first trouble is in line {found + 1}:\n\n{fenced(lines[found])}"


def cannot_call(calls: Sequence[Call], offered: Set[str], tool_choice: str) -> str:
    """Why a request does not allow these calls, and what they would have been; "" where it does."""
    missing = [call.tool for call in calls if call.tool not in offered]
    if not offered:
        reason = "this request offers no tools"
    elif tool_choice == "none":
        reason = "this request allows no further calls"
    elif missing:
        reason = f"{code(missing[0])} is not among the tools offered"
    else:
        return ""
    return f"I would have called {' and '.join(spell(call) for call in calls)}, but {reason}."


def is_error(result: str) -> bool:
    """Whether a result tells that its call could not be carried out, and is no file that begins like that."""
    return result.startswith("Error:") and not result.endswith("\n")


def describe(call: Call, result: str) -> str:
    """What came of a call, for the user."""
    if is_error(result):
        return f"{spell(call)} did not work: {result.removeprefix('Error:').strip()}."
    if call.tool == "list_dir":
        return describe_listing(str(call.arguments.get("dirpath")), result)
    if call.tool == "read_file":
        return describe_content(code(str(call.arguments.get("filepath"))), result)
    if call.tool == "bash":
        ending, _, output = result.partition("\n")
        printed = fenced(output.removeprefix("stdout:\n")) if output else "It printed nothing."
        return f"I ran {code(str(call.arguments.get('command')))} ({ending}).\n\n{printed}"
    return f"Done: {result}."


def describe_listing(place: str, result: str) -> str:
    """How many entries a directory has, and which; the result itself where it is no list."""
    lines = result.split("\n")
    entries = [entry for entry in map(ENTRY.fullmatch, lines) if entry]
    if not entries:
        return f"{result}." if len(lines) == 1 else fenced(result)
    kinds = Counter(entry["kind"] for entry in entries)
    summary = ", ".join(counted(kinds[kind], *KINDS[kind]) for kind in KINDS if kinds[kind])
    shown = [f"- {code(entry['name'])} ({kind_of(entry)})" for entry in entries[:SHOWN_LINES]]
    more = [f"- and {len(entries) - SHOWN_LINES} more"] if len(entries) > SHOWN_LINES else []
    notes = [f"- {line}" for line in lines if not ENTRY.fullmatch(line)]
    return "\n".join(
        [f"{code(place)} has {counted(len(entries), 'entry', 'entries')}: {summary}.", "", *shown, *more, *notes]
    )


def kind_of(entry: re.Match[str]) -> str:
    """What an entry is, with a file's size."""
    return counted(int(entry["size"]), "byte", "bytes") if entry["size"] else KINDS[entry["kind"]][0]


def describe_content(name: str, result: str) -> str:
    """The size of a file, and how it begins."""
    if result == EMPTY_FILE:
        return f"{name} is empty."
    part = READ_IN_PART.fullmatch(result)
    if part:
        return f"What was read of {name} ({part['note']}) has {size_of(part['part'])}:\n\n{fenced(part['part'])}"
    return f"{name} has {size_of(result)}:\n\n{fenced(result)}"


def size_of(text: str) -> str:
    """The size of a text in words: lines, words, bytes."""
    lines = counted(len(lines_of(text)), "line", "lines")
    words = counted(len(text.split()), "word", "words")
    return f"{lines}, {words} and {counted(len(text.encode('utf-8', 'surrogatepass')), 'byte', 'bytes')}"


def lines_of(text: str) -> list[str]:
    """The lines of a text as grep counts them: only a newline ends one."""
    return text.removesuffix("\n").split("\n") if text else []


def counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def spell(call: Call) -> str:
    """The call in words: the tool and its arguments."""
    return f"{code(call.tool)} with {code(json.dumps(call.arguments, ensure_ascii=False))}"


def code(text: str) -> str:
    """The text as Markdown code in a line."""
    ticks = fence(text, 1)
    return f"{ticks} {text} {ticks}" if "`" in text else f"{ticks}{text}{ticks}"


def fenced(text: str) -> str:
    """The start of the text as a block of Markdown code, and a word about the rest."""
    whole = text.removesuffix("\n")
    shown = "\n".join(lines_of(whole)[:SHOWN_LINES])[:SHOWN_CHARACTERS]
    cut = "" if shown == whole else "\n\n(This is the beginning.)"
    ticks = fence(shown, 3)
    return f"{ticks}\n{shown}\n{ticks}{cut}"


def fence(text: str, least: int) -> str:
    """More backquotes than the text has in a row."""
    return "`" * max(least, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
