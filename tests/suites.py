"""Run public test suites from checkouts of them: `python -m tests.suites SUITE CHECKOUT`.

    json-schema   github.com/json-schema-org/JSON-Schema-Test-Suite: required tests of 2020-12 and draft 7
    bfcl          github.com/ShishirPatil/gorilla: the tools and correct calls of the function-calling leaderboard
    markdown      github.com/commonmark/commonmark-spec or github/cmark-gfm: no word of an example is lost
    eventsource   github.com/web-platform-tests/wpt: the format-* tests that need no browser

Prints what was run, what failed and what does not apply; the exit code is 1 if anything failed.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from jsonschema import Draft202012Validator

from ask import ToolSpec
from ask.client.stream_decoding import SseDecoder
from ask.errors import UsageError
from ask.plugin_api.tool_schemas import VALID_NAME_PATTERN, normalize_tool
from ask.render.live_region import LiveRegion
from ask.render.markdown_answer import MarkdownStreamRenderer
from ask.render.markdown_rows import render_markdown
from ask.render.text_layout import get_plain_text
from ask.schemas.schema import LenientSchema, parse_schema
from ask.tools.arguments import parse_arguments
from ask.tools.base import ToolError

Report = Callable[[str, str], None]
"""Called with a result ("passed", "FAILED", or why it does not apply) and the name of the case."""
DRAFTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
}
WORD = re.compile(r"[^\W_]+")
BFCL_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
METASCHEMA = Draft202012Validator(Draft202012Validator.META_SCHEMA)
ROOT_KEYWORDS = {"anyOf", "oneOf", "allOf", "enum", "not", "$schema"}


def run_json_schema(checkout: Path, report: Report) -> None:
    """Check that answers are judged as the suite says or their schema is refused, and no tool schema is refused."""
    for draft, uri in DRAFTS.items():
        for path in sorted((checkout / "tests" / draft).glob("*.json")):
            for case in json.loads(path.read_text()):
                schema = case["schema"]
                if isinstance(schema, dict):
                    schema = {"$schema": uri, **schema}
                name = f"{draft}/{path.name}: {case['description']}"
                if "localhost:1234" in json.dumps(schema):
                    report("needs a remote document", name)
                    continue
                judge_schema(schema, case["tests"], name, report)


def judge_schema(schema: Any, tests: list[dict[str, Any]], name: str, report: Report) -> None:
    try:
        strict = parse_schema(schema)
    except UsageError as error:
        strict = None
        report(f"refused: {error.message.partition(':')[2].strip()[:60]}", name)
    lenient = LenientSchema(schema if isinstance(schema, dict) else {} if schema else {"not": {}})
    for test in tests:
        case_name = f"{name}: {test['description']}"
        if strict is not None and "format.json: " in name:
            report("formats are checked in answers, which the suite leaves open", case_name)
        elif strict is not None:
            report("passed" if (strict.describe_problems(test["data"]) == "") == test["valid"] else "FAILED", case_name)
        right = (lenient.describe_problems(test["data"]) == "") == test["valid"]
        report("passed as a tool's" if right else "FAILED as a tool's", case_name)


def run_bfcl(checkout: Path, report: Report) -> None:
    """Check that every tool is sent in a form that providers accept, and every correct call is accepted."""
    data = checkout / "berkeley-function-call-leaderboard/bfcl_eval/data"
    for path in sorted([*data.glob("BFCL_v4_*.json"), *data.glob("multi_turn_func_doc/*.json")]):
        if "format_sensitivity" in path.name:  # contains only ids of rows in other files
            continue
        answers = read_answers(data / "possible_answer" / path.name)
        for row in read_rows(path):
            functions = row.get("function", [row] if "parameters" in row else [])
            tools = {
                tool["name"]: ToolSpec(tool["name"], "", read_bfcl_schema(tool["parameters"])) for tool in functions
            }
            for name, tool in tools.items():
                report(judge_tool(tool), f"{path.name}: {name}")
            for call in answers.get(row.get("id", ""), ()):
                for name, options in call.items() if isinstance(call, dict) else ():
                    report(judge_call(tools[name], options), f"{path.name}: {row['id']}")


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()] if path.exists() else []


def read_answers(path: Path) -> dict[str, list[Any]]:
    return {row["id"]: row["ground_truth"] for row in read_rows(path) if "multi_turn" not in path.name}


def read_bfcl_schema(value: Any) -> Any:
    """Return a schema with JSON Schema's names of types for Python's."""
    if isinstance(value, list):
        return [read_bfcl_schema(part) for part in value]
    if not isinstance(value, dict):
        return value
    made = {name: read_bfcl_schema(part) for name, part in value.items()}
    if isinstance(made.get("type"), str):
        made["type"] = BFCL_TYPES.get(made["type"].lower(), made["type"])
    return made


def judge_tool(tool: ToolSpec) -> str:
    for inline in (False, True):
        schema = normalize_tool(tool, inline_references=inline).parameters
        if not METASCHEMA.is_valid(schema):
            return "FAILED tool"
        names = schema["properties"].keys()
        same = len(names) == len(tool.parameters.get("properties", {}))
        if ROOT_KEYWORDS & schema.keys() or not all(map(VALID_NAME_PATTERN.fullmatch, names)) or not same:
            return "FAILED tool"
    return "passed tool"


def judge_call(tool: ToolSpec, options: dict[str, Any]) -> str:
    arguments = choose_first(options)
    try:
        parse_arguments(tool, json.dumps(arguments))
    except ToolError as error:
        strict = LenientSchema(tool.parameters).describe_problems(arguments)
        return "the answer does not fit its own tool's schema" if strict else f"FAILED call: {error}"
    return "passed call"


def choose_first(options: dict[str, Any]) -> dict[str, Any]:
    """Return the first of the right values for each argument; "" among them stands for leaving it out."""
    chosen = {}
    for name, values in options.items():
        real = [value for value in values if value != ""] if isinstance(values, list) else [values]
        if real:
            chosen[name] = choose_first(real[0]) if isinstance(real[0], dict) else real[0]
    return chosen


def run_markdown(checkout: Path, report: Report) -> None:
    """Check that no word of an example is lost, and that streaming in chunks renders the same."""
    (spec,) = [path for path in (checkout / "spec.txt", checkout / "test/spec.txt") if path.exists()]
    examples = re.findall(r"^`{32} example[^\n]*\n(.*?)^\.\n(.*?)^`{32}$", spec.read_text(), re.MULTILINE | re.DOTALL)
    for number, (source, page) in enumerate(examples, 1):
        text, name = source.replace("→", "\t"), f"example {number}"
        is_same = stream(text, 1) == stream(text, len(text))
        report("passed, streamed" if is_same else "FAILED, streamed", name)
        shown = "\n".join(map(get_plain_text, render_markdown(text, 200)))
        words = set(WORD.findall(shown))
        kept = any(set(WORD.findall(unescape(re.sub("<[^>]*>", gap, page)))) <= words for gap in ("", " "))
        report("passed" if kept else "FAILED", f"{name}: {text!r}")


def stream(text: str, size: int) -> str:
    written: list[str] = []
    renderer = MarkdownStreamRenderer(LiveRegion(written.append, -1, {}), lambda: False, rest_factor=0)
    for start in range(0, len(text), size):
        renderer.feed(text[start : start + size])
    renderer.finish()
    return "".join(written)


def run_eventsource(checkout: Path, report: Report) -> None:
    """Check that the parsed event has the data that the test expects."""
    for path in sorted((checkout / "eventsource").glob("format-*.js")):
        source = path.read_text()
        sent = re.search(r'message\.py\?message=([^"&]*)(&newline=none)?"', source)
        wanted = re.search(r'assert_equals\("([^"]*)", e\.data\)', source)
        if not sent or not wanted:
            report("needs a browser", path.name)
            continue
        stream = unquote(sent[1], errors="surrogateescape").encode("utf-8", "surrogateescape")
        reader = SseDecoder()
        events = reader.feed(stream + (b"" if sent[2] else b"\n\n") + b"\n")
        data = wanted[1].encode().decode("unicode_escape").encode("latin-1", "replace").decode("utf-8", "replace")
        report("passed" if data in [event.data for event in events] else "FAILED", path.name)


SUITES = {
    "json-schema": run_json_schema,
    "bfcl": run_bfcl,
    "markdown": run_markdown,
    "eventsource": run_eventsource,
}


def main(arguments: list[str]) -> Iterator[str]:
    """Run a suite; yield the lines to print."""
    if len(arguments) != 2 or arguments[0] not in SUITES or not Path(arguments[1]).is_dir():
        raise SystemExit(__doc__)
    counts: Counter[str] = Counter()
    failures: list[str] = []

    def report(result: str, name: str) -> None:
        counts[result] += 1
        if result.startswith("FAILED"):
            failures.append(f"{result}: {name}")

    SUITES[arguments[0]](Path(arguments[1]), report)
    yield from failures
    yield from (f"{count:>7,}  {result}" for result, count in counts.most_common())
    if failures or not counts:
        raise SystemExit(1)


if __name__ == "__main__":
    for line in main(sys.argv[1:]):
        sys.stdout.write(f"{line}\n")
