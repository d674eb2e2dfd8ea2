"""The embedded demo: a provider without account, network or language model.

It answers in this process with a Chat Completions stream, so that a first run or a script's tests exercise the entire
program but the network. Its rules turn prompts into tool calls, commands and programs, and describe results and input.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from binascii import a2b_base64
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from ask import ChatCompletions, ChatRequest, HttpRequest, RawEvent
from ask.parsing import read_dict, read_list, read_str

MODEL = {"id": "demo", "object": "model", "created": 0, "owned_by": "ask", "name": "Rules, no language model"}
TEXT_CHUNK_CHARACTERS = 24
ARGUMENTS_CHUNK_CHARACTERS = 8
"""Characters per streamed fragment of text and of arguments: short answers have several, too."""
FILES_INTRODUCTION = "I am the embedded demo, not a language model: I cannot look at files, but I received these:"


class Demo(ChatCompletions):
    """Chat Completions answered in this process."""

    def provider_supports_attachment(self, model: str, media_type: str) -> bool:
        return media_type.startswith(("image/", "audio/", "video/")) or media_type == "application/pdf"

    def supports_schema(self, request: ChatRequest, schema: Mapping[str, Any]) -> bool:
        return True

    def provider_send(self, request: HttpRequest, timeout: float) -> Iterator[RawEvent]:
        if request.body is None:
            return iter([RawEvent(None, json.dumps({"object": "list", "data": [MODEL]}))])
        text, calls = choose_answer(request.body)
        return (RawEvent(None, json.dumps(chunk)) for chunk in iter_chunks(request.body, text, calls))


# Answers


def choose_answer(body: Mapping[str, Any]) -> tuple[str, Sequence[PlannedCall]]:
    """Choose the text or the calls that answer a request, from the last user message and what followed it."""
    messages = body["messages"]
    system_prompt = "".join(read_str(message["content"]) for message in messages if message["role"] == "system")
    last_user_index = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=0)
    content = messages[last_user_index]["content"]
    prompt, blocks = parse_prompt(read_str(content))
    output_format = re.search(r"^The user wants (one shell command|code)\b", system_prompt, re.MULTILINE)
    if output_format:
        return find_program(prompt) if output_format[1] == "code" else find_command(prompt), ()
    later_messages = messages[last_user_index + 1 :]
    results = list_finished_calls(later_messages)
    paragraphs = [describe_result(call, result) for call, result in results]
    # The rounds that are left after those whose calls are in the conversation.
    rounds = plan_calls(prompt)[sum("tool_calls" in message for message in later_messages) :]
    if rounds and not any(is_error_result(result) for _, result in results):
        offered_tools = {tool["function"]["name"] for tool in body.get("tools", ())}
        missing = [call.tool_name for call in rounds[0] if call.tool_name not in offered_tools]
        if not missing and body["tool_choice"] == "auto":
            return "", rounds[0]
        paragraphs.append(f"I would have called `{rounds[0][0].tool_name}`, but this request does not allow it.")
    if "response_format" in body:
        try:
            value = make_value(body["response_format"]["json_schema"]["schema"], prompt)
        except EndlessValueError:
            return "No value matches this schema: it would be infinite.", ()
        return json.dumps(value, ensure_ascii=False), ()
    if not paragraphs:
        descriptions = (describe_files(content), describe_input(prompt, blocks) if blocks else "")
        paragraphs = [part for part in descriptions if part] or [answer_small_talk(prompt)]
    return "\n\n".join(paragraphs), ()


def describe_files(content: str | list[dict[str, Any]]) -> str:
    """Describe the type and size of the files in a message's content, one per line; "" if there are none."""
    lines = [FILES_INTRODUCTION, ""]
    for part in read_list(content):
        match part:
            case {"file": {"filename": name, "file_data": url}}:
                lines.append(f"- file {name}: {describe_data_url(url)}")
            case {"image_url": {"url": url}}:
                lines.append(f"- image: {describe_data_url(url)}")
            case {"input_audio": {"format": audio_format, "data": data}}:
                lines.append(f"- audio: {audio_format}, {len(a2b_base64(data)):,} bytes")
    return "\n".join(lines) if len(lines) > 2 else ""


def describe_data_url(url: str) -> str:
    head, _, data = url.partition(";base64,")
    return f"{head.removeprefix('data:')}, {len(a2b_base64(data)):,} bytes"


def list_finished_calls(messages: Sequence[Mapping[str, Any]]) -> list[tuple[PlannedCall, str]]:
    """Return the calls among these messages that have a result, each with its result."""
    results = {message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"}
    return [
        (PlannedCall(call["function"]["name"], json.loads(call["function"]["arguments"])), results[call["id"]])
        for message in messages
        for call in message.get("tool_calls", ())
        if call["id"] in results
    ]


# Wire format


def iter_chunks(body: Mapping[str, Any], text: str, calls: Sequence[PlannedCall]) -> Iterator[dict[str, Any]]:
    """Yield the chunks of an answer: fragments, then the usage. Each word counts as one token."""
    head = {"id": "chatcmpl-demo", "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
    for delta in iter_deltas(body, text, calls):
        yield head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield head | {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}]}
    prompt_tokens = sum(len(read_str(message["content"]).split()) for message in body["messages"])
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": len(text.split()), "cost": 0}
    yield head | {"choices": [], "usage": usage}


def iter_deltas(body: Mapping[str, Any], text: str, calls: Sequence[PlannedCall]) -> Iterator[dict[str, Any]]:
    """Yield an answer in fragments."""
    for piece in split_chunks(text, TEXT_CHUNK_CHARACTERS):
        yield {"content": piece}
    # Continue the numbering of earlier calls, so that ids are unique in the conversation.
    call_count = sum(len(message.get("tool_calls", ())) for message in body["messages"])
    for index, call in enumerate(calls):
        function = {"name": call.tool_name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": f"call_{call_count + index + 1}", "function": function}]}
        for piece in split_chunks(json.dumps(call.arguments, ensure_ascii=False), ARGUMENTS_CHUNK_CHARACTERS):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def split_chunks(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


# Prompts

PATTERN_FLAGS = re.IGNORECASE | re.DOTALL
MAX_PROMPT_CHARACTERS = 2_000
"""Longest prompt that is matched against the rules, which are made for a sentence or two."""
MAX_SHOWN_LINES = 40
MAX_SHOWN_CHARACTERS = 4_000
"""Limits for quoting a text in an answer."""

QUOTED_PATTERN = r"""(?:"[^"]*"|`[^`]*`|(?<!\w)'[^']*'(?!\w))"""
NAME_PATTERN = rf"(?:{QUOTED_PATTERN}|\.\.?|\S*?[^\s.?!,])"
NEW_FILE_PATTERN = rf"(?:the )?(?:file )?(?P<filepath>{QUOTED_PATTERN}|\S*[./]\w\S*?)"
"""A file to write to: quoted, or with a dot or slash, so that other nouns do not match."""
CONTENT_PATTERN = rf"(?P<content>{QUOTED_PATTERN}|.+)"
HERE_PATTERN = "(?:here|this folder|this directory)"
FOLDER_PATTERN = rf"(?:{HERE_PATTERN}|(?:the )?(?P<dirpath>{NAME_PATTERN})(?: folder| directory)?)"
INPUT_BLOCK_PATTERN = re.compile(
    r'<(?P<tag>(?:file|stdin)(?:-\d+)?)(?: name="(?P<name>[^\n]*)")?>\n(?P<text>.*?)</(?P=tag)>', re.DOTALL
)
PRONOUNS = {"it", "this", "that", "them", "these", "those", "me", "everything", "all", "input", "stdin"}


class PlannedCall(NamedTuple):
    tool_name: str
    arguments: dict[str, str]


class InputBlock(NamedTuple):
    """Text that accompanies the prompt: piped in (`name` is "stdin"), or from a file."""

    name: str
    text: str


def parse_prompt(text: str) -> tuple[str, list[InputBlock]]:
    """Split a message into the user's own words and the blocks of piped input and files.

    The host chooses tags that do not occur in the text between them.
    """
    blocks = [InputBlock(match["name"] or "stdin", match["text"]) for match in INPUT_BLOCK_PATTERN.finditer(text)]
    return INPUT_BLOCK_PATTERN.sub("", text).strip(), blocks


# Prompts to calls


def compile_rule(pattern: str) -> re.Pattern[str]:
    """Compile a rule's pattern, in which a space matches any white space, with polite words around it."""
    polite = r"(?:(?:please|now|first|can you|could you)[, ]+)*"
    return re.compile(f"{polite}{pattern}(?:,? please)?[.?!]*".replace(" ", r"\s+"), PATTERN_FLAGS)


CALL_RULES = [
    (tool_name, compile_rule(pattern))
    for tool_name, pattern in (
        ("write_file", rf"(?:write|create|save|make) {NEW_FILE_PATTERN} (?:with|containing|saying) {CONTENT_PATTERN}"),
        ("write_file", rf"(?:write|save|put) {CONTENT_PATTERN} (?:to|into|in) {NEW_FILE_PATTERN}"),
        ("bash", rf"(?:run|execute) (?P<command>{QUOTED_PATTERN}|(?!(?:the|a|an|my|this|it|all)\b).+)"),
        ("list_dir", rf"(?:ls(?: -\w+)?|(?:list|show)(?: me)?(?: all)?(?: the)? files)(?:(?: in)? {FOLDER_PATTERN})??"),
        ("list_dir", rf"(?:which|what) files (?:are|do i have)(?: in)?(?: {FOLDER_PATTERN})?"),
        ("list_dir", rf"list (?:the contents of )?{FOLDER_PATTERN}"),
        ("list_dir", rf"what(?:'s| is) (?:in )?(?:{HERE_PATTERN}|(?P<dirpath>\S*/))"),
        (
            "read_file",
            r"(?:read|cat|show(?: me)?|print|summari[sz]e|what(?:'s| is) in) (?:the contents of )?(?P<filepath>.+?)",
        ),
    )
]
"""The tool of each rule, and the pattern whose groups are its arguments; the first rule that matches is used."""


def plan_calls(prompt: str) -> list[list[PlannedCall]]:
    """Plan the rounds of tool calls that a prompt asks for; [] if it is not understood.

    "then" separates rounds if both sides of it are understood.
    """
    if len(prompt) > MAX_PROMPT_CHARACTERS:
        return []
    for steps in (split_outside_quotes(r",?\s+(?:and\s+)?then\s+", prompt), [prompt]):
        rounds = [match_step(step.strip()) for step in steps]
        if all(rounds):
            return rounds
    return []


def match_step(step: str) -> list[PlannedCall]:
    """Return the calls of one round; [] if no rule matches."""
    for tool_name, pattern in CALL_RULES:
        match = pattern.fullmatch(step)
        if match and tool_name == "read_file":
            names = split_outside_quotes(r"\s*,\s*(?:and\s+)?|\s+and\s+", match["filepath"])
            names = [re.sub(r"^(?:the\s+)?(?:file\s+)?", "", name, flags=PATTERN_FLAGS) for name in names]
            is_name = [re.fullmatch(rf"{QUOTED_PATTERN}|\S+", name) and name.lower() not in PRONOUNS for name in names]
            return [PlannedCall(tool_name, {"filepath": strip_quotes(name)}) for name in names] if all(is_name) else []
        if match:
            arguments = {name: strip_quotes(value or ".") for name, value in match.groupdict().items()}
            if arguments.get("content", "").lower() in PRONOUNS:
                return []
            # In a prompt, the content may come first; the tool has the path first.
            return [PlannedCall(tool_name, dict(sorted(arguments.items(), key=lambda item: item[0] != "filepath")))]
    return []


def split_outside_quotes(separator: str, text: str) -> list[str]:
    """Split a text at separators outside quotes."""
    pieces, start = [], 0
    for match in re.finditer(rf"{QUOTED_PATTERN}|(?P<separator>{separator})", text, PATTERN_FLAGS):
        if match["separator"]:
            pieces.append(text[start : match.start()])
            start = match.end()
    return [*pieces, text[start:]]


def strip_quotes(text: str) -> str:
    """Return the text inside quotes if all of it is quoted, otherwise the text itself."""
    return text[1:-1] if re.fullmatch(QUOTED_PATTERN, text, PATTERN_FLAGS) else text


# Prompts to commands and programs

NO_COMMAND_MESSAGE = (
    '# I am the embedded demo and know only a few commands: try "find files over 1 GB", or -p openrouter'
)
NO_CODE_MESSAGE = (
    '# I am the embedded demo and know only how to say hello: try "hello world in Python", or -p openrouter'
)
FIND_LARGE_FILES_RULE = compile_rule(
    r"(?:find|list|show) (?:all )?(?:the )?files (?:over|above|(?:larger|bigger) than) "
    rf"(?P<size>\d+) ?(?P<unit>[KMG])B?(?: (?:in|under|below) (?P<folder>{NAME_PATTERN}))?"
)
HELLO_PROGRAMS = {"bash": 'echo "Hello, world!"', "python": 'print("Hello, world!")'}
"""A hello-world program by language."""


def find_command(prompt: str) -> str:
    """Return the shell command for a prompt, or a comment that the demo knows none."""
    match = FIND_LARGE_FILES_RULE.fullmatch(prompt)
    if match:
        folder = shlex.quote(strip_quotes(match["folder"] or "."))
        return f"find {folder} -type f -size +{match['size']}{match['unit'].upper().replace('K', 'k')}"
    commands = [call.arguments.get("command", "") for calls in plan_calls(prompt) for call in calls]
    return " && ".join(commands) if commands and all(commands) else NO_COMMAND_MESSAGE


def find_program(prompt: str) -> str:
    """Return a program in a fenced block, or a comment that the demo knows none."""
    languages = [language for language in HELLO_PROGRAMS if re.search(rf"\b{language}\b", prompt, re.IGNORECASE)]
    if not languages or not re.search(r"\bhello\b", prompt, re.IGNORECASE):
        return NO_CODE_MESSAGE
    return f"Here it is:\n\n```{languages[0]}\n{HELLO_PROGRAMS[languages[0]]}\n```\n\nIt says hello."


# Descriptions of input and results

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
GREETING_PATTERN = re.compile(r"(?:hello|hi|hey|help|who are you|what are you|what can you do)\b.{0,40}", PATTERN_FLAGS)
ERROR_PATTERN = re.compile(r"error|fail|exception", re.IGNORECASE)
ASKS_ABOUT_ERROR_PATTERN = re.compile(r"broke|wrong|error|fail|exception|problem|happened|why", re.IGNORECASE)
ENTRY_PATTERN = re.compile(r"(?P<kind>file|dir|link|other) (?:(?<=file )(?P<size>\d{1,18}) )?(?P<name>.+)")
"""A line of list_dir's result."""
ENTRY_KINDS = {"dir": "directory", "file": "file", "link": "link", "other": "other"}
PARTIAL_READ_PATTERN = re.compile(r"(?P<part>.*\n)\[(?P<note>lines? [\d,]+[^\n]* of [^\n]*)\]", re.DOTALL)
"""A result of read_file with only part of the file."""
EMPTY_FILE_RESULT = "[the file is empty]"


def answer_small_talk(prompt: str) -> str:
    """Answer a prompt without tool calls or input; the answer repeats nothing from the prompt."""
    return INTRODUCTION if GREETING_PATTERN.fullmatch(prompt) else UNSUPPORTED_MESSAGE


def describe_input(prompt: str, blocks: Sequence[InputBlock]) -> str:
    """Report counts and errors found in piped text and files."""
    find_errors = bool(ASKS_ABOUT_ERROR_PATTERN.search(prompt))
    reports = [describe_block(block, find_errors) for block in blocks]
    return "\n\n".join(["I am the embedded demo, not a language model: I count and search.", *reports])


def describe_block(block: InputBlock, find_errors: bool) -> str:
    """Describe the size of a block, and its first line or, if requested, its first error."""
    size = f"{format_inline_code(block.name)} has {describe_size(block.text)}."
    lines = block.text.split("\n")
    if not find_errors:
        return f"{size} It begins:\n\n{format_code_block(lines[0])}"
    error_index = next((number for number, line in enumerate(lines) if ERROR_PATTERN.search(line)), None)
    if error_index is None:
        return f"{size} No line mentions an error, a failure or an exception."
    return f"{size} The first problem is in line {error_index + 1}:\n\n{format_code_block(lines[error_index])}"


def is_error_result(result: str) -> bool:
    """Check whether a result reports an error.

    A file may also begin with "Error:", but usually ends with a newline.
    """
    return result.startswith("Error:") and not result.endswith("\n")


def describe_result(call: PlannedCall, result: str) -> str:
    """Describe the result of a call to the user."""
    if is_error_result(result):
        return f"{format_inline_code(call.tool_name)} did not work: {result.removeprefix('Error:').strip()}."
    if call.tool_name == "list_dir":
        return describe_listing(call.arguments["dirpath"], result)
    if call.tool_name == "read_file":
        return describe_content(format_inline_code(call.arguments["filepath"]), result)
    if call.tool_name == "bash":
        status_line, _, output = result.partition("\n")
        block = format_code_block(output.removeprefix("stdout:\n")) if output else "It printed nothing."
        return f"I ran {format_inline_code(call.arguments['command'])} ({status_line}).\n\n{block}"
    return f"Done: {result}."


def describe_listing(folder: str, result: str) -> str:
    """Summarize a directory listing; return the result itself if it is not a listing."""
    entries = [entry for entry in map(ENTRY_PATTERN.fullmatch, result.split("\n")) if entry]
    if not entries:
        return f"{result}."
    kinds = Counter(entry["kind"] for entry in entries)
    summary = ", ".join(format_count(kinds[kind], name) for kind, name in ENTRY_KINDS.items() if kinds[kind])
    lines = [f"{format_inline_code(folder)} has {format_count(len(entries), 'entry')}: {summary}.", ""]
    for entry in entries[:MAX_SHOWN_LINES]:
        size = format_count(int(entry["size"]), "byte") if entry["size"] else ENTRY_KINDS[entry["kind"]]
        lines.append(f"- {format_inline_code(entry['name'])} ({size})")
    if len(entries) > MAX_SHOWN_LINES:
        lines.append(f"- and {len(entries) - MAX_SHOWN_LINES} more")
    return "\n".join(lines)


def describe_content(name: str, result: str) -> str:
    """Describe the size of a file and quote its beginning."""
    if result == EMPTY_FILE_RESULT:
        return f"{name} is empty."
    match = PARTIAL_READ_PATTERN.fullmatch(result)
    if match:
        name, result = f"{name} ({match['note']})", match["part"]
    return f"{name} has {describe_size(result)}:\n\n{format_code_block(result)}"


def describe_size(text: str) -> str:
    """Describe the size of a text: lines, words, bytes."""
    lines = format_count(len(text.removesuffix("\n").split("\n")) if text else 0, "line")
    size = format_count(len(text.encode("utf-8", "surrogatepass")), "byte")
    return f"{lines}, {format_count(len(text.split()), 'word')} and {size}"


def format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {re.sub('y$', 'ie', noun)}s"


def format_inline_code(text: str) -> str:
    ticks = make_fence(text, 1)
    return f"{ticks} {text} {ticks}" if "`" in text else f"{ticks}{text}{ticks}"


def format_code_block(text: str) -> str:
    """Format the start of the text as a Markdown code block, with a note if it is truncated."""
    full_text = text.removesuffix("\n")
    shown = "\n".join(full_text.split("\n")[:MAX_SHOWN_LINES])[:MAX_SHOWN_CHARACTERS]
    note = "" if shown == full_text else "\n\n(This is the beginning.)"
    ticks = make_fence(shown, 3)
    return f"{ticks}\n{shown}\n{ticks}{note}"


def make_fence(text: str, min_length: int) -> str:
    """Return a fence longer than any run of backquotes in the text."""
    return "`" * max(min_length, 1 + max((len(run) for run in re.findall("`+", text)), default=0))


# Values for schemas

FORMAT_EXAMPLES = {
    "date": "2026-01-01",
    "time": "12:00:00Z",
    "date-time": "2026-01-01T12:00:00Z",
    "email": "demo@example.com",
    "uri": "https://example.com/",
}


class EndlessValueError(Exception):
    """A schema requires a value that contains a value of the same schema, and so on."""


def make_value(
    schema: Mapping[str, Any], prompt: str, root: Mapping[str, Any] | None = None, open_references: tuple[str, ...] = ()
) -> Any:
    """Return a simple value that matches a JSON Schema made of common keywords; strings repeat the prompt.

    References are resolved in `root`, which is the schema itself by default. `open_references` are those that led here.
    """
    root = schema if root is None else root
    make_part = partial(make_value, prompt=prompt, root=root, open_references=open_references)
    if reference := read_str(schema.get("$ref")):
        if reference in open_references:
            raise EndlessValueError
        return make_part(find_definition(root, reference), open_references=(*open_references, reference))
    for choice in schema.get("anyOf") or schema.get("oneOf") or ():
        with suppress(EndlessValueError):
            return make_part(choice)
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values:
        return values[0]
    types = schema.get("type") or ("object" if "properties" in schema else "string")
    type_name = types[0] if isinstance(types, list) else types
    if type_name == "object":
        properties, required = read_dict(schema.get("properties")), schema.get("required", ())
        made = {name: make_parts(subschema, make_part, name in required) for name, subschema in properties.items()}
        return {name: parts[0] for name, parts in made.items() if parts}
    if type_name == "array":
        item_count = schema.get("minItems", 0)
        return make_parts(read_dict(schema.get("items")), make_part, item_count > 0) * max(item_count, 1)
    minimum = schema.get("minimum", 0)
    values_by_type = {"integer": math.ceil(minimum), "number": minimum, "boolean": True, "null": None}
    return values_by_type.get(type_name, FORMAT_EXAMPLES.get(read_str(schema.get("format")), prompt))


def make_parts(
    schema: Mapping[str, Any], make_part: Callable[[Mapping[str, Any]], Any], is_required: bool
) -> list[Any]:
    """Return one value in a list; an optional one that would be endless is left out."""
    try:
        return [make_part(schema)]
    except EndlessValueError:
        if is_required:
            raise
        return []


def find_definition(root: Mapping[str, Any], reference: str) -> Mapping[str, Any]:
    """Return what a reference such as "#/$defs/node" points to; {} for any other reference."""
    found = root
    for name in reference.split("/")[1:]:
        found = read_dict(found.get(name))
    return found if reference.startswith("#") else {}


provider = Demo(
    name="demo",
    title="demo (embedded, no network)",
    base_url="",
    default_model="demo",
    needs_key=False,
    reports_cost=True,
)
