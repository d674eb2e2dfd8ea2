"""An MCP server over standard input and output, written by hand so that it can misbehave.

Its first argument selects how it starts, unless there is a file `mode` in its folder, which does not change its
fingerprint. Its tools are named after what they do. It appends the messages that it gets to `received`.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

MODE = Path("mode").read_text() if Path("mode").exists() else (*sys.argv[1:], "good")[0]
FLOOD = 12_000_000
IMAGE = "aGVsbG8="
TEXT = {"type": "text", "text": "one"}
PARTS = [
    TEXT,
    {"type": "image", "mimeType": "image/png", "data": IMAGE},
    {"type": "audio", "mimeType": "audio/wav", "data": IMAGE},
    {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "embedded"}},
    {"type": "resource", "resource": {"uri": "file:///b.bin", "blob": IMAGE}},
    {"type": "resource_link", "uri": "https://example.com/c", "name": "the c"},
    {"type": "text", "text": "two"},
]
PICTURE = {"type": "image", "mimeType": "image/png", "data": IMAGE * 1_000}
FILE = {"type": "resource", "resource": {"uri": "file:///b.bin", "mimeType": "application/zip", "blob": IMAGE * 1_000}}
LOGGED = {"method": "notifications/message", "params": {"level": "info", "data": "x"}}
RESULTS: dict[str, dict[str, Any]] = {
    "parts": {"content": PARTS},
    "fails": {"content": [{"type": "text", "text": "it went wrong"}], "isError": True},
    "structured": {"content": [], "structuredContent": {"degrees": 21}},
    "picture": {"content": [PICTURE, FILE], "structuredContent": {"content": [PICTURE, FILE | {"_meta": None}]}},
    "measured": {
        "content": [PICTURE],
        "structuredContent": {
            "pages": [{"width": 640, "note": None, "page": f"data:image/png;base64,{PICTURE['data']}"}],
            "thumbnail": {"mimeType": "image/png", "data": IMAGE},
            "errors": [],
        },
    },
    "nothing": {"content": []},
    "misshapen": {"content": "a string"},
}
REQUESTS: dict[str, dict[str, Any]] = {
    "roots": {"method": "roots/list"},
    "question": {
        "method": "elicitation/create",
        "params": {
            "message": "Delete\nall?",
            "requestedSchema": {"type": "object", "properties": {"sure": {"type": "boolean", "default": True}}},
        },
    },
    "page": {
        "method": "elicitation/create",
        "params": {"mode": "url", "message": "Sign in", "url": "https://example.com/in", "elicitationId": "1"},
    },
}
"""What a tool asks of the client before it answers with what the client said."""
PAGE_REQUIRED = {"code": -32042, "message": "Not signed in", "data": {"elicitations": [REQUESTS["page"]["params"]]}}
TOOLS = [
    *("echo", "env", "die", "hang", "rubbish", "flood", "pester", "refuse", "deep", "signed_out"),
    *RESULTS,
    *REQUESTS,
]
waiting: dict[Any, Any] = {}
"""By the id of a request to the client, the id of the call that waits for it."""


def send(message: Any) -> None:
    note((message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})) + "\n", sys.stdout)


def note(line: str, to: TextIO) -> None:
    to.write(line)
    to.flush()


def listed() -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    tools: list[dict[str, Any]] = [
        {"name": name, "description": f"Does {name}.", "inputSchema": schema} for name in TOOLS
    ]
    if MODE == "many":
        return [{"name": f"tool {n}", "description": "Does it.", "inputSchema": schema} for n in range(1_000)]
    if MODE == "huge":
        huge = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(5_000)}}
        return [tools[0] | {"description": "x" * 1_000_000}, tools[1] | {"inputSchema": huge}]
    if MODE == "tasks":
        return [tool | {"execution": {"taskSupport": "required"}} for tool in tools[:2]] + tools[2:]
    tools[0]["annotations"] = {"readOnlyHint": MODE != "writes"}
    return tools[1:] if MODE == "fewer" else tools


def send_forever(messages: Iterator[dict[str, Any]]) -> None:
    for message in messages:
        send(message)


def call(number: Any, name: str, arguments: dict[str, Any]) -> None:
    def answer(result: Any) -> None:
        send({"id": number, "result": result})

    special: dict[str, Callable[[], Any]] = {
        "echo": lambda: answer({"content": [{"type": "text", "text": arguments.get("text", "")}]}),
        "env": lambda: answer({"content": [{"type": "text", "text": json.dumps({**os.environ, "pid": os.getpid()})}]}),
        "hang": lambda: None,
        "rubbish": lambda: send("this is \x1b[31mno JSON"),
        "flood": lambda: answer({"content": [{"type": "text", "text": "x" * FLOOD}]}),
        "pester": lambda: send_forever({"id": f"p{n}", "method": "ping"} for n in itertools.count()),
        "signed_out": lambda: send({"id": number, "error": PAGE_REQUIRED}),
        "refuse": lambda: send({"id": number, "error": {"code": -32000, "message": "not\ntoday"}}),
        "deep": lambda: send(f'{{"jsonrpc": "2.0", "id": {number}, "result": {"[" * 100_000}{"]" * 100_000}}}'),
    }
    if name == "die":
        note("out of cheese\n", sys.stderr)
        os._exit(3)
    if name in REQUESTS:
        waiting[f"{name}-{number}"] = number
        send({"id": f"{name}-{number}", **REQUESTS[name]})
        return
    special.get(name, lambda: answer(RESULTS[name]))()


def handle(message: dict[str, Any]) -> None:
    number, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if number in waiting:
        said = json.dumps({key: message[key] for key in ("result", "error") if key in message})
        send({"id": waiting.pop(number), "result": {"content": [{"type": "text", "text": said}]}})
    elif method == "initialize":
        capabilities: dict[str, Any] = {"tools": {}}
        about = {"name": "raw", "version": "1.2.3"}
        result = {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": about}
        send({"id": number, "result": result})
    elif method == "tools/list":
        send({"id": number, "result": {"tools": listed()}})
    elif method == "tools/call":
        call(number, params["name"], params.get("arguments", {}))
    elif number is not None and method:
        send({"id": number, "error": {"code": -32601, "message": "Method not found"}})


def begin() -> None:
    """Perform the behavior that the mode selects before the first response."""
    if MODE == "exits":
        note("\x1b[31mno such database\n", sys.stderr)
        sys.exit(3)
    if MODE == "deaf":
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    if MODE == "banner":
        note("Welcome to the server!\n\nListening.\n", sys.stdout)
        note("x" * 100_000 + "\n" + f"{'line' * 25}\n" * 12_500, sys.stderr)
    while MODE == "rubbish":
        send("rubbish")
        time.sleep(0.2)
    if MODE == "endless":
        send_forever(itertools.repeat(LOGGED))
    while MODE == "line":
        sys.stdout.write("x" * 65_536)


def main() -> None:
    begin()
    with open("received", "a") as received:
        note(json.dumps({"pid": os.getpid()}) + "\n", received)
        for line in sys.stdin:
            note(line, received)
            has_ended = MODE in ("closes", "leaves") and "tools/call" in line
            if has_ended:
                if MODE == "leaves":  # a process that has standard output open, and is not recognized as a descendant
                    subprocess.run(["sh", "-c", "setsid sleep 20 2>&- &"], stdin=subprocess.DEVNULL, env={}, check=True)
                os.close(0)  # before the response, after which the next call may come
            if MODE != "silent":
                handle(json.loads(line))
            if has_ended:
                time.sleep(600)
        note(json.dumps({"method": "end of input"}) + "\n", received)
    while MODE == "deaf":
        time.sleep(1)


if __name__ == "__main__":
    main()
