"""The model that all programs are measured with: a server in a process of its own, which notes when things happened.

It answers in the Chat Completions wire by the last message of the user: "events N" streams so many events, "paced N"
one every ten milliseconds, "rounds N" calls a tool so often, "markdown N" is that many KB, "large N" that many MB,
and anything else gets a hello. Times are of the monotonic clock, which all processes share.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Self
from urllib.request import ProxyHandler, build_opener

PACE = 0.01
"""Seconds between two events of a paced stream."""
WORD = "word "
HELLO = "hello"
SECTION = """## A heading

Some *running* text of **several** rows, with `code` and a [link](https://example.org) in it, as an answer has.

1. First, with
   - one thing
   - and another
2. Second

```python
def add(one: int, other: int) -> int:
    return one + other  # that is all
```

| What | How much |
|------|---------:|
| this | 1 |

"""
"""Markdown of all kinds; a long answer is made of many."""


class Served(NamedTuple):
    """One request and its answer, in seconds of the monotonic clock.

    Attributes:
        came: when all of the request was there.
        size: bytes of its body.
        last: when the last piece of the answer was sent.
        sent: when each event of a paced stream was.
    """

    came: float
    size: int
    last: float
    sent: tuple[float, ...]


class Server:
    """Runs the model while the context is open."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "benchmarks.server"]
        here = Path(__file__).parents[1]
        self._process = subprocess.Popen(  # in a session of its own, so that Ctrl-C ends the measuring first
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=here, start_new_session=True
        )
        assert self._process.stdout
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}/v1"
        self._open = build_opener(ProxyHandler({})).open
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def take(self) -> list[Served]:
        """What was served since the last time, in the order of arrival."""
        with self._open(self.url) as answer:
            return [Served(came, size, last, tuple(sent)) for came, size, last, sent in json.load(answer)]


class Model(BaseHTTPRequestHandler):
    """Answers chat requests, and GET requests with what it noted."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # so that headers go out with the first piece of the body
    noted: list[list[Any]] = []  # noqa: RUF012 - one for all connections

    def do_GET(self) -> None:
        """Tell what was noted, and forget it."""
        noted, Model.noted = Model.noted, []
        body = json.dumps(noted).encode()
        self._begin("application/json", len(body))
        self._send(body)

    def do_POST(self) -> None:
        """Answer one chat request."""
        data = self.rfile.read(int(self.headers["Content-Length"]))
        note = [time.monotonic(), len(data), 0.0, []]
        Model.noted.append(note)
        messages = json.loads(data)["messages"]
        asked = next(m["content"] for m in reversed(messages) if m["role"] == "user")
        kind, _, number = asked.strip().partition(" ")
        count = int(number) if number.isdigit() else 0
        if kind == "paced":
            self._pace(note, count)
        elif kind == "large":
            self._repeat(note, count)
        else:
            results = list(itertools.takewhile(lambda m: m["role"] != "user", reversed(messages)))
            body = rounds(count, results) if kind == "rounds" else whole(kind, count)
            self._begin("text/event-stream")
            note[2] = time.monotonic()
            self._send(body)

    def _pace(self, note: list[Any], count: int) -> None:
        """Send an event at a time."""
        self._begin("text/event-stream")
        piece, times = event(content=WORD), note[3]
        for _ in range(count):
            time.sleep(PACE)
            times.append(time.monotonic())
            self._send(piece)
        note[2] = time.monotonic()
        self._send(END)

    def _repeat(self, note: list[Any], megabytes: int) -> None:
        """Send that much, without having it all at once."""
        piece = event(AS_SERVICES_SEND, content=WORD) * 1000
        self._begin("text/event-stream")
        for _ in range(megabytes * 1_000_000 // len(piece)):
            self._send(piece)
        note[2] = time.monotonic()
        self._send(END)

    def _begin(self, kind: str, length: int | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header(*(("Transfer-Encoding", "chunked") if length is None else ("Content-Length", str(length))))
        self.end_headers()

    def _send(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def chunk(data: bytes) -> bytes:
    """A chunk of a body: services send one for each event, and scripts read a body without chunks only as a whole."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(beside: Mapping[str, Any] = MappingProxyType({}), finish: str | None = None, **delta: Any) -> bytes:
    """One event of a stream; `beside` is what else stands in it."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return chunk(f"data: {json.dumps({**beside, 'choices': [choice]})}\n\n".encode())


DONE = chunk(b"data: [DONE]\n\n") + chunk(b"")
END = event(finish="stop") + DONE
AS_SERVICES_SEND = {
    "id": "gen-1763769600-AbCdEfGhIjKlMnOpQrSt",
    "provider": "Somebody",
    "model": "vendor/a-model-with-a-name",
    "object": "chat.completion.chunk",
    "created": 1763769600,
    "system_fingerprint": "fp_0123456789",
}


@cache
def whole(kind: str, count: int) -> bytes:
    """An answer that is sent in one piece."""
    if kind == "events":
        return event(content=WORD) * count + END
    if kind == "markdown":
        size = count * 1024
        text = SECTION * (size // len(SECTION) + 1)
        return b"".join(event(content=text[place : place + 5]) for place in range(0, size, 5)) + END
    return event(content=HELLO) + END


def rounds(count: int, results: list[Any]) -> bytes:
    """A call, no two alike, or after so many results a hello."""
    done = sum(message["role"] == "tool" for message in results)
    if done >= count:
        return event(content=HELLO) + END
    function = {"name": "bash", "arguments": json.dumps({"command": f"true {done}"})}
    call = {"index": 0, "id": f"call_{done}", "type": "function", "function": function}
    return event(tool_calls=[call]) + event(finish="tool_calls") + DONE


def main() -> None:
    """Serve until standard input ends, as it does when its starter is gone; the port is all that it prints."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
