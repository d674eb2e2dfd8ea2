"""An MCP server over standard input and output whose responses are written in a JSON file, its first argument.

The file maps methods to lists of responses, of which the last is repeated. A response is a result, or an object with
`lines`, which are written as they are after `ID` in them is replaced, and then `exit`. The server appends the messages
that it gets to `received`. The variables `EXITS_ON` and `IGNORES` name a method on which it exits or does not respond.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

HANDSHAKE = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "prompts": {}, "resources": {}}}
responses: dict[str, list[Any]] = {
    "initialize": [HANDSHAKE | {"serverInfo": {"name": "scripted", "version": "1"}}],
    "ping": [{}],
    **json.loads(Path(sys.argv[1]).read_text()),
}


def send(response: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **response}) + "\n")
    sys.stdout.flush()


with open("received", "a") as received:
    for line in sys.stdin:
        received.write(line)
        received.flush()
        message = json.loads(line)
        script = responses.get(message.get("method"))
        if "id" not in message or "method" not in message:
            continue
        if message["method"] == os.environ.get("EXITS_ON"):
            sys.exit(1)
        if message["method"] == os.environ.get("IGNORES"):
            continue
        if not script:
            error = {"code": -32601, "message": "Method not found"}
            send({"error": error})
            continue
        response = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(response, dict) and "lines" in response:
            for text in response["lines"]:
                data = text.replace("ID", json.dumps(message["id"]))
                sys.stdout.buffer.write(data.encode("utf-8", "surrogateescape") + b"\n")
            sys.stdout.flush()
            if "exit" in response:
                os._exit(response["exit"])
        else:
            send({"result": response})
