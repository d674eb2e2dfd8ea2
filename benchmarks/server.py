"""The model that all programs use: a server in its own process, which records when requests and answers happen.

It speaks Chat Completions. The last user message selects the answer: "events N" streams N events, "paced N" one event
every 10 ms, "rounds N" calls a tool N times, "markdown N" returns N KB, "large N" N MB, "row N" a hello that is not
streamed, and anything else a streamed one. Under the path `/limited`, a row is refused if too many came in the last
second; under `/slow`, it takes a while, under `/uneven`, one in a hundred takes longer, and under `/reasoning`, all do.
Times are of the monotonic clock, which all processes share.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Self
from urllib.request import ProxyHandler, build_opener

PACE_SECONDS = 0.01
"""Seconds between two events of a paced stream."""
ROW_SECONDS = 0.2
"""Seconds that the answer to a row takes."""
UNEVEN_SECONDS = 2.0
"""Seconds that each hundredth row takes under `/uneven`."""
REASONING_SECONDS = 5.0
"""Seconds that a row takes under `/reasoning`."""
ALLOWED_RATE = 50
"""Rows a second that `/limited` answers."""
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
"""Markdown with all kinds of blocks, repeated for a long answer."""


class ServedRequest(NamedTuple):
    """A request and its answer, with times of the monotonic clock in seconds.

    Attributes:
        arrived: When the complete request had arrived.
        size: Bytes of its body.
        last: When the last part of the answer was sent.
        sent: When each event of a paced stream was sent.
        refused: Whether it was refused with status 429.
    """

    arrived: float
    size: int
    last: float
    sent: Sequence[float]
    refused: bool = False


class Server:
    """Runs the server process while the context is open."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "benchmarks.server"]
        here = Path(__file__).parents[1]
        self._process = subprocess.Popen(  # in its own session, so that Ctrl-C ends the measurement first
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=here, start_new_session=True
        )
        assert self._process.stdout
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}/v1"
        self._open = build_opener(ProxyHandler({})).open
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def take_served(self) -> list[ServedRequest]:
        """Return the requests served since the last call, in order of arrival."""
        with self._open(self.url) as answer:
            return [ServedRequest(*note) for note in json.load(answer)]


class RequestHandler(BaseHTTPRequestHandler):
    """Answers chat requests; a GET request returns the records."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # buffered, so that headers are sent with the first part of the body
    noted: list[list[Any]] = []  # noqa: RUF012 - one for all connections
    allowed: deque[float] = deque(maxlen=ALLOWED_RATE)  # noqa: RUF012 - the same
    """When the last rows were answered."""

    def do_GET(self) -> None:
        """Return the records and clear them."""
        noted, RequestHandler.noted = RequestHandler.noted, []
        body = json.dumps(noted).encode()
        self._begin("application/json", len(body))
        self._send(body)

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        note = [time.monotonic(), len(data), 0.0, [], False]
        RequestHandler.noted.append(note)
        messages = json.loads(data)["messages"]
        asked = next(m["content"] for m in reversed(messages) if m["role"] == "user")
        kind, _, number = asked.strip().partition(" ")
        count = int(number) if number.isdigit() else 0
        if kind == "row":
            self._answer_row(note, count)
        elif kind == "paced":
            self._pace(note, count)
        elif kind == "large":
            self._repeat(note, count)
        else:
            results = list(itertools.takewhile(lambda m: m["role"] != "user", reversed(messages)))
            body = create_round(count, results) if kind == "rounds" else create_complete_answer(kind, count)
            self._begin("text/event-stream")
            note[2] = time.monotonic()
            self._send(body)

    def _answer_row(self, note: list[Any], number: int) -> None:
        allowed = RequestHandler.allowed
        is_limited = self.path.startswith("/limited")
        if is_limited and len(allowed) == ALLOWED_RATE and allowed[0] > note[0] - 1:
            note[4] = True
            self._begin("application/json", len(REFUSAL), 429)
            self._send(REFUSAL)
        else:
            allowed.append(note[0])
            time.sleep(self._get_duration(number))
            self._begin("application/json", len(ROW_ANSWER))
            self._send(ROW_ANSWER)
        note[2] = time.monotonic()

    def _get_duration(self, number: int) -> float:
        """Return how many seconds the answer to a row takes."""
        service = self.path.split("/")[1]
        if service == "uneven" and number % 100 == 0:
            return UNEVEN_SECONDS
        return {"slow": ROW_SECONDS, "limited": ROW_SECONDS, "reasoning": REASONING_SECONDS}.get(service, 0.0)

    def _pace(self, note: list[Any], count: int) -> None:
        self._begin("text/event-stream")
        piece, times = encode_event(content=WORD), note[3]
        for _ in range(count):
            time.sleep(PACE_SECONDS)
            times.append(time.monotonic())
            self._send(piece)
        note[2] = time.monotonic()
        self._send(END)

    def _repeat(self, note: list[Any], megabytes: int) -> None:
        """Send this many MB without building them in memory."""
        piece = encode_event(AS_SERVICES_SEND, content=WORD) * 1000
        self._begin("text/event-stream")
        for _ in range(megabytes * 1_000_000 // len(piece)):
            self._send(piece)
        note[2] = time.monotonic()
        self._send(END)

    def _begin(self, kind: str, length: int | None = None, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header(*(("Transfer-Encoding", "chunked") if length is None else ("Content-Length", str(length))))
        self.end_headers()

    def _send(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass


def encode_chunk(data: bytes) -> bytes:
    """Encode a chunk: services send one per event, and without chunks scripts would read the body at once."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def encode_event(beside: Mapping[str, Any] = MappingProxyType({}), finish: str | None = None, **delta: Any) -> bytes:
    """Encode a stream event; `beside` are further fields of the choice."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return encode_chunk(f"data: {json.dumps({**beside, 'choices': [choice]})}\n\n".encode())


DONE = encode_chunk(b"data: [DONE]\n\n") + encode_chunk(b"")
END = encode_event(finish="stop") + DONE
ROW_ANSWER = json.dumps(
    {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": HELLO}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 1},
    }
).encode()
REFUSAL = b'{"error": {"code": 429, "message": "too many requests"}}'
AS_SERVICES_SEND = {
    "id": "gen-1763769600-AbCdEfGhIjKlMnOpQrSt",
    "provider": "Somebody",
    "model": "vendor/a-model-with-a-name",
    "object": "chat.completion.chunk",
    "created": 1763769600,
    "system_fingerprint": "fp_0123456789",
}


@cache
def create_complete_answer(kind: str, count: int) -> bytes:
    if kind == "events":
        return encode_event(content=WORD) * count + END
    if kind == "markdown":
        size = count * 1024
        text = SECTION * (size // len(SECTION) + 1)
        return b"".join(encode_event(content=text[place : place + 5]) for place in range(0, size, 5)) + END
    return encode_event(content=HELLO) + END


def create_round(count: int, results: list[Any]) -> bytes:
    """Create an answer with a unique tool call, or a hello after `count` results."""
    done = sum(message["role"] == "tool" for message in results)
    if done >= count:
        return encode_event(content=HELLO) + END
    function = {"name": "bash", "arguments": json.dumps({"command": f"true {done}"})}
    call = {"index": 0, "id": f"call_{done}", "type": "function", "function": function}
    return encode_event(tool_calls=[call]) + encode_event(finish="tool_calls") + DONE


def main() -> None:
    """Print the port, then serve until standard input is closed, which also happens if the parent dies."""
    ThreadingHTTPServer.request_queue_size = 1024
    server = ThreadingHTTPServer(("127.0.0.1", 0), RequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
