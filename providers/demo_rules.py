"""The rules of the demo: prompts to tool calls, piped text to a report, tool results to sentences.

These are pure functions from text to text; `demo` decides which of them answers a request.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any

PATTERN_FLAGS = re.IGNORECASE | re.DOTALL
MAX_PROMPT_LENGTH = 2_000
"""Longest prompt, in characters, that is matched against the rules, which are made for a sentence or two."""
MAX_SHOWN_LINES = 40
MAX_SHOWN_CHARACTERS = 4_000
"""Limits for quoting a text in an answer."""

QUOTED_PATTERN = r"""(?:"[^"]*"|`[^`]*`|(?<!\w)'[^']*'(?!\w))"""
CONTENT_PREFIX_PATTERN = (
    r"(?:with|containing|saying|that (?:says|contains))(?: the (?:words?|line)|(?: the)? (?:text|contents?))?:?"
)
FILE_PATTERN = (
    r"(?:(?:a|an|the|new|text) )*"
    rf"(?P<file>file (?:(?:called|named) )?(?:{QUOTED_PATTERN}|\S+)|{QUOTED_PATTERN}|\S*[./]\w\S*)"
)
"""A file to write to: quoted, introduced as a file, or with a dot or slash, so that other nouns do not match."""

ENTRIES_PATTERN = r"(?:files|folders|directories|entries)(?: (?:and|or) (?:files|folders|directories))?"
SYSTEM_PATTERN = r"(?:os|operating system)"
TIME_PATTERN = r"(?:the )?(?:current )?(?:date|time|day)"
FOLDER_WORD_PATTERN = r"(?:folder|directory|dir)"
TAG_PATTERN = r"(?:stdin|file)(?:[-_.:]\w+|\d\w*)?"
INPUT_BLOCK_PATTERN = re.compile(
    rf"<(?P<tag>{TAG_PATTERN})(?:\s(?P<attributes>.{{0,1000}}?)>(?=\n)|>)\n?"
    rf"(?P<text>.*?)(?:</(?P=tag)>\s*(?=<{TAG_PATTERN}|\Z)|\Z)",
    re.DOTALL,
)
PRONOUNS = {"it", "this", "that", "them", "these", "those", "me", "everything", "all", "input", "stdin"}
POLITE_PREFIX_PATTERN = re.compile(
    r"\A\s*(?:(?:please|now|first|can\s+you|could\s+you|would\s+you)[,\s]+)*", PATTERN_FLAGS
)


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A planned tool call."""

    tool_name: str
    arguments: dict[str, Any]


RuleAction = Callable[[re.Match[str]], list[PlannedCall]]
"""Converts a rule's match to tool calls; [] if the rule does not apply after all."""


@dataclass(frozen=True, slots=True)
class InputBlock:
    """Text that accompanies the prompt: piped in (`name` is "stdin"), or from a file."""

    name: str
    text: str


def parse_prompt(text: str) -> tuple[str, list[InputBlock]]:
    """Split a message into the user's own words and the blocks of piped input and files.

    Everything from the first opening tag to the last closing tag is data, so that a closing tag inside the data cannot
    turn the text after it into instructions.
    """
    opening_tag = re.search(rf"<{TAG_PATTERN}[\s>]", text)
    if not opening_tag:
        return text.strip(), []
    start = opening_tag.start()
    end = max(
        (match.end() for match in re.finditer(rf"</{TAG_PATTERN}>", text) if match.start() > start), default=len(text)
    )
    blocks = INPUT_BLOCK_PATTERN.finditer(text[start:end])
    return f"{text[:start]} {text[end:]}".strip(), [
        InputBlock(parse_block_name(b["attributes"] or ""), b["text"]) for b in blocks
    ]


def parse_block_name(attributes: str) -> str:
    """Return the name from a tag's attributes, or "stdin"."""
    name = re.search(r'name="(.*)"', attributes, re.DOTALL)
    return name[1] if name else "stdin"


# Prompts to calls


def plan_calls(prompt: str) -> list[list[PlannedCall]]:
    """Plan the rounds of tool calls that a prompt asks for; [] if it is not understood.

    "then" separates rounds if both sides of it are understood.
    """
    if len(prompt) > MAX_PROMPT_LENGTH:
        return []
    for steps in (split_outside_quotes(r",?\s+(?:and\s+)?then\s+", prompt), [prompt]):
        rounds = [match_step(step) for step in steps]
        if all(rounds):
            return rounds
    return []


def match_step(step: str) -> list[PlannedCall]:
    """Return the calls of one round by the first rule that matches; [] if none does."""
    step = POLITE_PREFIX_PATTERN.sub("", step).strip()
    attempts = (action(match) for pattern, action in RULES if (match := pattern.fullmatch(step)))
    return next(filter(None, attempts), [])


def list_named_folder(match: re.Match[str]) -> list[PlannedCall]:
    """List the named directory, or the current one."""
    return make_list_call(trim_sentence(match["place"] or "here"))


def make_list_call(phrase: str) -> list[PlannedCall]:
    """Return the call that lists the directory a phrase names."""
    folder = parse_folder_name(phrase)
    return [PlannedCall("list_dir", {"dirpath": folder})] if folder else []


def make_read_calls(match: re.Match[str]) -> list[PlannedCall]:
    """Read each named file, or list the directory."""
    subject = trim_sentence(match["subject"])
    if is_folder_phrase(subject):
        return make_list_call(subject)
    names = [parse_file_name(part) for part in split_outside_quotes(r"\s*,\s*(?:and\s+)?|\s+and\s+", subject)]
    return [PlannedCall("read_file", {"filepath": name}) for name in names] if all(names) else []


def make_write_call(match: re.Match[str]) -> list[PlannedCall]:
    """Write the given text; a pronoun refers to a text that the demo does not have."""
    name, text = parse_file_name(match["file"]), strip_quotes(match["text"])
    if not name or trim_sentence(match["text"]).lower() in PRONOUNS:
        return []
    return [PlannedCall("write_file", {"filepath": name, "content": text})]


def make_edit_call(match: re.Match[str]) -> list[PlannedCall]:
    name, old, new = parse_file_name(match["file"]), strip_quotes(match["old"]), strip_quotes(match["new"])
    return [PlannedCall("edit_file", {"filepath": name, "old_text": old, "new_text": new})] if name and old else []


def make_bash_call(match: re.Match[str]) -> list[PlannedCall]:
    command = strip_quotes(match["command"]).strip()
    return [PlannedCall("bash", {"command": command})] if command else []


def make_fixed_bash_action(command: str) -> RuleAction:
    """Return a rule action that runs this command."""
    return lambda _: [PlannedCall("bash", {"command": command})]


def compile_rule(pattern: str) -> re.Pattern[str]:
    """Compile a rule's pattern, in which a space matches any white space."""
    return re.compile(pattern.replace(" ", r"\s+"), PATTERN_FLAGS)


RULES: list[tuple[re.Pattern[str], RuleAction]] = [
    (
        compile_rule(rf"(?:write|create|save|make) {FILE_PATTERN} {CONTENT_PREFIX_PATTERN} (?P<text>.+)"),
        make_write_call,
    ),
    (
        compile_rule(rf"(?:write|save|put) (?P<text>{QUOTED_PATTERN}|.+) (?:to|into|in) {FILE_PATTERN}[.?!]*"),
        make_write_call,
    ),
    (
        compile_rule(
            rf"replace (?P<old>{QUOTED_PATTERN}|.+?) (?:with|by) (?P<new>{QUOTED_PATTERN}|.+) in {FILE_PATTERN}[.?!]*"
        ),
        make_edit_call,
    ),
    # A command in backquotes needs "run" or must be the entire prompt: a question about a command must not run it.
    (compile_rule(r"(?P<command>`[^`]+`)[.?!]*"), make_bash_call),
    (compile_rule(r"(?:run|execute) (?:the command )?(?P<command>`[^`]+`)[^`]*"), make_bash_call),
    (
        compile_rule(r"(?:run|execute) (?:the command )?(?P<command>(?!(?:the|a|an|my|this|it|all)\b|`).+)"),
        make_bash_call,
    ),
    (
        compile_rule(rf"(?:which|what) {SYSTEM_PATTERN} (?:is (?:this|it)|(?:am|do|are) (?:i|we|you))\b.*"),
        make_fixed_bash_action("uname -a"),
    ),
    (compile_rule(rf"what(?:'s| is) (?:my|the|this) {SYSTEM_PATTERN}\W*"), make_fixed_bash_action("uname -a")),
    (
        compile_rule(
            rf"what(?:'s| is)? {TIME_PATTERN}(?: (?:and|or) {TIME_PATTERN})?(?: (?:is|it|now|today|right))*\W*"
        ),
        make_fixed_bash_action("date"),
    ),
    (compile_rule(r"ls(?: -\w+)*(?: (?P<place>.+))?"), list_named_folder),
    (
        compile_rule(
            rf"(?:list|show)(?: me)?(?: all)?(?: the| my)? {ENTRIES_PATTERN}(?: (?:(?:in|of|under) )?(?P<place>.+))?\W*"
        ),
        list_named_folder,
    ),
    (
        compile_rule(
            rf"(?:which|what) {ENTRIES_PATTERN} (?:are|do (?:i|we) have)(?: there)?(?: in)?(?: (?P<place>.+))?\W*"
        ),
        list_named_folder,
    ),
    (compile_rule(r"what(?:'s| is) (?P<place>here)\W*"), list_named_folder),
    (compile_rule(r"list (?:the contents? of )?(?P<place>.+)"), list_named_folder),
    (compile_rule(r"what(?:'s| is| are) (?:in(?:side)?|the contents? of) (?P<subject>.+)"), make_read_calls),
    (
        compile_rule(r"(?:read|cat|show(?: me)?|print|summari[sz]e) (?:the contents? of )?(?P<subject>.+)"),
        make_read_calls,
    ),
]
"""Tried in this order for each step; the first rule that returns calls is used."""


# Names and quotes


def split_outside_quotes(separator: str, text: str) -> list[str]:
    """Split a text at separators outside quotes."""
    pieces, start = [], 0
    for match in re.finditer(rf"{QUOTED_PATTERN}|(?P<separator>{separator})", text, PATTERN_FLAGS):
        if match["separator"]:
            pieces.append(text[start : match.start()])
            start = match.end()
    return [*pieces, text[start:]]


def trim_sentence(text: str) -> str:
    """Remove what ends a sentence: "please" and punctuation.

    The dots of "." and ".." stay.
    """
    text = re.sub(r"(?:^|,?\s+)please\W*$", "", text.strip(), flags=PATTERN_FLAGS)
    return re.sub(r"(?<=[\w\"'`)\]])[.?!,;:]+$|[?!]+$", "", text)


def strip_quotes(text: str) -> str:
    """Return the text inside quotes if all of it is quoted, otherwise the text itself."""
    return trim_sentence(text)[1:-1] if re.fullmatch(QUOTED_PATTERN, trim_sentence(text), PATTERN_FLAGS) else text


def is_folder_phrase(phrase: str) -> bool:
    """Check whether a phrase refers to a directory."""
    return bool(
        re.fullmatch(rf"here|\.\.?|.*/\.{{0,2}}|(?:.*\s)?{FOLDER_WORD_PATTERN}(?:\s.*)?", phrase, PATTERN_FLAGS)
    )


def parse_folder_name(phrase: str) -> str:
    """Return the directory that a phrase names, "." for the current one; "" if none."""
    name = re.sub(r"^(?:(?:the|this|my|current|working)\s+)+", "", phrase, flags=PATTERN_FLAGS)
    name = re.sub(rf"^{FOLDER_WORD_PATTERN}(?:\s+|$)|\s+{FOLDER_WORD_PATTERN}$", "", name, flags=PATTERN_FLAGS)
    return "." if name.lower() in ("", "here", "there") else parse_single_name(name)


def parse_file_name(phrase: str) -> str:
    """Return the file that a phrase names; "" if none."""
    name = re.sub(
        r"^(?:the\s+|my\s+)?(?:files?\s+)?(?:(?:called|named)\s+)?", "", trim_sentence(phrase), flags=PATTERN_FLAGS
    )
    return parse_single_name(re.sub(r"\s+file$", "", name, flags=PATTERN_FLAGS))


def parse_single_name(phrase: str) -> str:
    """Return the unquoted phrase if it can be a name: quoted, or one word that is not a pronoun."""
    name = strip_quotes(phrase)
    return name if name != phrase or (not re.search(r"\s", name) and name.lower() not in PRONOUNS) else ""


# Answers

REAL_MODEL_HINT = "For a real model, set OPENROUTER_API_KEY (keys: https://openrouter.ai/keys) and use `-p openrouter`."
INTRODUCTION = f"""\
I am the embedded demo of `ask`: a few rules that understand plain words. There is no account, no network and no \
language model behind me. Try:

```
ask -p demo "which files are here?"
ask -p demo "write notes.txt with Hello, then read notes.txt"
ask -p demo "run uname -a"
make 2>&1 | ask -p demo "what broke?"
```

{REAL_MODEL_HINT}"""
UNSUPPORTED_MESSAGE = f"""\
I am the embedded demo of `ask`, a few rules and not a language model, so I cannot answer that. I can list a folder \
("which files are here?"), read and write files ("read notes.txt"), and run a command ("run date").

{REAL_MODEL_HINT}"""
GREETING_PATTERN = re.compile(
    r"(?:(?:hello|hi|hey|help)\b.{0,40}|(?:who|what)\s+are\s+you\b.{0,40}|what\s+can\s+you\s+do\W*)", PATTERN_FLAGS
)
ERROR_PATTERN = re.compile(r"error|fail|exception", re.IGNORECASE)
ASKS_ABOUT_ERROR_PATTERN = re.compile(r"broke|broken|wrong|error|fail|exception|problem|happened|why", re.IGNORECASE)
ENTRY_PATTERN = re.compile(r"(?P<kind>file|dir|link|other) (?:(?<=file )(?P<size>\d{1,18}) )?(?P<name>.+)")
"""A line of list_dir's result."""
ENTRY_KIND_NAMES = {
    "dir": ("directory", "directories"),
    "file": ("file", "files"),
    "link": ("link", "links"),
    "other": ("other", "other"),
}
PARTIAL_READ_PATTERN = re.compile(r"(?P<part>.*\n)\[(?P<note>lines? [\d,]+[^\n]* of [^\n]*)\]", re.DOTALL)
"""A result of read_file with only part of the file."""
EMPTY_FILE_RESULT = "[the file is empty]"


def answer_small_talk(prompt: str) -> str:
    """Answer a prompt without tool calls or input; the answer repeats nothing from the prompt."""
    return (
        INTRODUCTION if len(prompt) < MAX_PROMPT_LENGTH and GREETING_PATTERN.fullmatch(prompt) else UNSUPPORTED_MESSAGE
    )


def describe_input(prompt: str, blocks: Sequence[InputBlock]) -> str:
    """Report counts and errors found in piped text and files."""
    find_errors = bool(ASKS_ABOUT_ERROR_PATTERN.search(prompt))
    reports = [describe_block(block, find_errors) for block in blocks]
    return "\n\n".join(["I am the embedded demo, not a language model: I count and search.", *reports])


def describe_block(block: InputBlock, find_errors: bool) -> str:
    """Describe the size of a block, and its first line or, if requested, its first error."""
    if not block.text.strip():
        return f"{format_inline_code(block.name)} is empty."
    size = f"{format_inline_code(block.name)} has {describe_size(block.text)}."
    lines = split_lines(block.text)
    if not find_errors:
        return f"{size} It begins:\n\n{format_code_block(lines[0])}"
    error_index = next((number for number, line in enumerate(lines) if ERROR_PATTERN.search(line)), None)
    if error_index is None:
        return f"{size} No line speaks of an error, a failure or an exception."
    return f"{size} The first trouble is in line {error_index + 1}:\n\n{format_code_block(lines[error_index])}"


def explain_blocked_calls(calls: Sequence[PlannedCall], offered_tools: Set[str], tool_choice: str) -> str:
    """Explain which calls the request does not allow, and why; "" if it allows them."""
    missing = [call.tool_name for call in calls if call.tool_name not in offered_tools]
    if not offered_tools:
        reason = "this request offers no tools"
    elif tool_choice == "none":
        reason = "this request allows no further calls"
    elif missing:
        reason = f"{format_inline_code(missing[0])} is not among the tools offered"
    else:
        return ""
    return f"I would have called {' and '.join(format_call(call) for call in calls)}, but {reason}."


def is_error_result(result: str) -> bool:
    """Check whether a result reports an error.

    A file may also begin with "Error:", but usually ends with a newline.
    """
    return result.startswith("Error:") and not result.endswith("\n")


def describe_result(call: PlannedCall, result: str) -> str:
    """Describe the result of a call to the user."""
    if is_error_result(result):
        return f"{format_call(call)} did not work: {result.removeprefix('Error:').strip()}."
    if call.tool_name == "list_dir":
        return describe_listing(str(call.arguments.get("dirpath")), result)
    if call.tool_name == "read_file":
        return describe_content(format_inline_code(str(call.arguments.get("filepath"))), result)
    if call.tool_name == "bash":
        status_line, _, output = result.partition("\n")
        block = format_code_block(output.removeprefix("stdout:\n")) if output else "It printed nothing."
        return f"I ran {format_inline_code(str(call.arguments.get('command')))} ({status_line}).\n\n{block}"
    return f"Done: {result}."


def describe_listing(folder: str, result: str) -> str:
    """Summarize a directory listing; return the result itself if it is not a listing."""
    lines = result.split("\n")
    entries = [entry for entry in map(ENTRY_PATTERN.fullmatch, lines) if entry]
    if not entries:
        return f"{result}." if len(lines) == 1 else format_code_block(result)
    kinds = Counter(entry["kind"] for entry in entries)
    summary = ", ".join(format_count(kinds[kind], *ENTRY_KIND_NAMES[kind]) for kind in ENTRY_KIND_NAMES if kinds[kind])
    shown = [f"- {format_inline_code(entry['name'])} ({describe_entry(entry)})" for entry in entries[:MAX_SHOWN_LINES]]
    more = [f"- and {len(entries) - MAX_SHOWN_LINES} more"] if len(entries) > MAX_SHOWN_LINES else []
    notes = [f"- {line}" for line in lines if not ENTRY_PATTERN.fullmatch(line)]
    return "\n".join(
        [
            f"{format_inline_code(folder)} has {format_count(len(entries), 'entry', 'entries')}: {summary}.",
            "",
            *shown,
            *more,
            *notes,
        ]
    )


def describe_entry(entry: re.Match[str]) -> str:
    """Return the kind of an entry, or the size of a file."""
    return format_count(int(entry["size"]), "byte", "bytes") if entry["size"] else ENTRY_KIND_NAMES[entry["kind"]][0]


def describe_content(name: str, result: str) -> str:
    """Describe the size of a file and quote its beginning."""
    if result == EMPTY_FILE_RESULT:
        return f"{name} is empty."
    match = PARTIAL_READ_PATTERN.fullmatch(result)
    if match:
        size, block = describe_size(match["part"]), format_code_block(match["part"])
        return f"What was read of {name} ({match['note']}) has {size}:\n\n{block}"
    return f"{name} has {describe_size(result)}:\n\n{format_code_block(result)}"


def describe_size(text: str) -> str:
    """Describe the size of a text: lines, words, bytes."""
    lines = format_count(len(split_lines(text)), "line", "lines")
    words = format_count(len(text.split()), "word", "words")
    return f"{lines}, {words} and {format_count(len(text.encode('utf-8', 'surrogatepass')), 'byte', 'bytes')}"


def split_lines(text: str) -> list[str]:
    """Split a text into lines like grep: only a newline ends a line."""
    return text.removesuffix("\n").split("\n") if text else []


def format_count(count: int, singular: str, plural: str) -> str:
    return f"{count} {singular if count == 1 else plural}"


def format_call(call: PlannedCall) -> str:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return f"{format_inline_code(call.tool_name)} with {format_inline_code(arguments)}"


def format_inline_code(text: str) -> str:
    ticks = make_fence(text, 1)
    return f"{ticks} {text} {ticks}" if "`" in text else f"{ticks}{text}{ticks}"


def format_code_block(text: str) -> str:
    """Format the start of the text as a Markdown code block, with a note if it is truncated."""
    full_text = text.removesuffix("\n")
    shown = "\n".join(split_lines(full_text)[:MAX_SHOWN_LINES])[:MAX_SHOWN_CHARACTERS]
    note = "" if shown == full_text else "\n\n(This is the beginning.)"
    ticks = make_fence(shown, 3)
    return f"{ticks}\n{shown}\n{ticks}{note}"


def make_fence(text: str, min_length: int) -> str:
    """Return a fence longer than any run of backquotes in the text."""
    return "`" * max(min_length, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
