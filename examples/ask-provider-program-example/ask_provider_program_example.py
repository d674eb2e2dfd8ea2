"""A provider that runs a program: it reads the conversation on stdin and prints the answer on stdout.

The program is `mynah`, or the command in the environment variable MYNAH_COMMAND.
"""

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from tempfile import TemporaryFile
from typing import Any

from ask import (
    ChatRequest,
    HttpRequest,
    ModelResponse,
    Provider,
    ProviderError,
    ProviderInfo,
    RawEvent,
    StreamReader,
)
from ask.parsing import AnswerAccumulator, read_str


class Mynah(Provider):
    def provider_supports_tools(self, model: str) -> bool:
        return False

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        texts = [message.content for message in request.messages]
        return HttpRequest("/run", {"model": request.model, "texts": texts, "options": dict(request.options)})

    def provider_send(self, request: HttpRequest, timeout: float) -> Iterator[RawEvent]:
        body = request.body or {}
        command = shlex.split(os.environ.get("MYNAH_COMMAND", "mynah"))
        command += [f"--{name}={value}" for name, value in body["options"].items()]
        with TemporaryFile() as stdin, TemporaryFile() as stderr:
            stdin.write("\n\n".join(body["texts"]).encode(errors="replace"))
            stdin.seek(0)
            with subprocess.Popen(
                command, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
            ) as process:
                try:
                    for line in process.stdout or ():
                        yield RawEvent(None, json.dumps({"text": line.decode(errors="replace")}))
                    status = process.wait()
                finally:  # also runs on Ctrl-C and --timeout
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
            stderr.seek(0)
            errors = stderr.read().decode(errors="replace")
            yield RawEvent(None, json.dumps({"status": status, "errors": errors}))

    def provider_stream_reader(self) -> StreamReader:
        return MynahReader()

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        error = ProviderError(read_str(response.get("error"))) if response.get("error") else None
        return self.check_answer(ModelResponse(read_str(response.get("text"))), error)


class MynahReader(AnswerAccumulator):
    """Collects the events of one run of the program."""

    def read_event(self, fields: dict[str, Any]) -> None:
        self.add_text(fields.get("text"))
        if fields.get("status"):
            last_line = read_str(fields.get("errors")).strip().rpartition("\n")[2]
            self.fail(f"mynah exited with status {fields['status']}: {' '.join(last_line.split())}")
        elif "status" in fields:
            self.finish()


provider = Mynah(ProviderInfo(name="mynah", title="Mynah", base_url="", default_model="mynah-1", needs_key=False))
