"""A run that is killed at any moment loses at most the step in progress, runs nothing twice, and can be continued."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from ask import Message, ToolCall
from ask.history.entries import Run
from ask.messages import INTERRUPTED_REASON, NOT_RUN_REASON
from tests import wire
from tests.cli.chat.chat_session import read_last_conversation
from tests.model_server import DROP, HOLD, ModelServer, Reply, Request, Step
from tests.program import TEST_KEY, Ask, Home, Running
from tests.provider_wires import SERVICES, Wire
from tests.saved_history import read_saved_runs

WIRES = ("openrouter", "anthropic", "gemini")
ROUNDS = 10
KILLS = 100
"""Spread evenly over the time that the task takes, and in turns over the wires."""
PARTS = 9
FIRST, SECOND = "Take the steps.", "Go on."


class Task:
    """A task of ten steps, one round each, and the model that takes them; every step appends its number to a file.

    Asked to go on, the model takes all the steps that are left at once.

    Attributes:
        heard: what each request told the model, judged.
    """

    def __init__(self, service: Wire, server: ModelServer, home: Home) -> None:
        self.service = service
        self.heard: list[list[Message]] = []
        self.directory = home.work
        self.command = "echo {step} >> ran"
        self.held: dict[int, threading.Event] = {}
        """What a reply to so many messages waits for."""
        self._home = home
        self._judging = threading.Lock()  # the types of the SDKs are for one thread
        address = server.base_url.removesuffix("/api/v1") + service.address
        upper = service.name.upper()
        self._env = {**home.env, f"{upper}_API_KEY": TEST_KEY, f"{upper}_BASE_URL": address}
        self._arguments = ["-p", service.name, "-m", service.model, "--max-rounds", "20"]
        server.reply(self._answer)

    def _answer(self, request: Request) -> Reply:
        if len(request.body) < int(request.headers["Content-Length"]):
            return Reply((DROP,))  # it was killed while it sent that
        with self._judging:
            heard = self.service.read_conversation(request.json)
        self.heard.append(heard)
        taken = len(called(heard))
        if len(heard) - 1 in self.held:
            self.held[len(heard) - 1].wait(10)
        if taken >= ROUNDS:
            return self.service.says("Done.")
        going_on = heard[-1].content.endswith(SECOND)
        steps = range(taken, ROUNDS if going_on else taken + 1)
        return self.service.says(f"Step {taken}.", *(self.call(step) for step in steps))

    def call(self, step: int) -> ToolCall:
        return ToolCall(f"call_{step}", "bash", json.dumps({"command": self.command.format(step=step)}))

    def start(self, directory: Path) -> Running:
        """Begin it in a folder of its own."""
        self.directory = directory
        directory.mkdir()
        self.heard = []
        return Ask(self._env, directory).start(*self._arguments, FIRST)

    def go_on(self) -> None:
        self.command = "echo {step} >> ran"
        result = Ask(self._env, self.directory)("-c", *self._arguments, SECOND, timeout=60)
        assert result.code == 0, result.stderr
        assert result.text.endswith("Done.\n")

    @property
    def ran(self) -> list[int]:
        """The steps that were taken."""
        file = self.directory / "ran"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    @property
    def runs(self) -> list[Run]:
        """What is saved of it."""
        return [run for run in read_saved_runs(self._home) if run.directory == str(self.directory)]


def called(heard: Sequence[Message]) -> list[ToolCall]:
    return [call for message in heard for call in message.tool_calls]


def plain(messages: Sequence[Message]) -> list[tuple[str, str, int]]:
    """What messages say, whether or not what the user says twice in a row is one message."""
    told: list[tuple[str, str, int]] = []
    for role, content, calls, *_ in messages:
        before = told.pop()[1] if told and role == told[-1][0] == "user" else ""
        told.append((role, before + "".join(content.split()), len(calls)))
    return told


def check_killed(task: Task) -> None:
    """What is saved is all that had happened; it goes on, and nothing runs twice."""
    if not task.runs:
        assert task.heard == []
        assert task.ran == []
        return
    [killed] = task.runs
    messages = [entry.message for entry in killed.entries]
    if task.heard:
        told = plain(task.heard[-1][1:])
        assert plain(messages)[: len(told)] == told
        assert len(messages) - len(told) <= 2
    records = [record for entry in killed.entries for record in entry.calls]
    results = [message for message in messages if message.role == "tool"]
    assert len(records) - len(results) <= 1
    assert set(task.ran) <= {step for step, record in enumerate(records) if record.started}
    task.go_on()
    going_on = next(heard for heard in task.heard if heard[-1].content.endswith(SECOND))
    kept = messages if killed.has_answer else []
    assert plain(going_on[1:]) == plain([*kept, *made_up(killed, len(results)), Message("user", SECOND)])
    assert len(called(task.heard[-1])) == ROUNDS
    assert sorted(task.ran) == sorted({*task.ran})
    assert len(task.ran) >= ROUNDS - 1


def made_up(killed: Run, answered: int) -> list[Message]:
    """The results that stand for those that never came."""
    records = [record for entry in killed.entries for record in entry.calls][answered:]
    return [Message("tool", f"Error: {INTERRUPTED_REASON if record.started else NOT_RUN_REASON}") for record in records]


@pytest.fixture
def task(request: pytest.FixtureRequest, server: ModelServer, home: Home) -> Task:
    return Task(SERVICES[getattr(request, "param", WIRES[0])], server, home)


on_each_wire = pytest.mark.parametrize(
    "task", [WIRES[0], *(pytest.param(wire, marks=pytest.mark.slow) for wire in WIRES[1:])], indirect=True
)


def kill_at_moments(task: Task, home: Home, server: ModelServer, moments: Sequence[float]) -> None:
    """Kill a run at each of these fractions of the time that the task takes, and continue what it left."""
    with task.start(home.work / "complete") as running:
        assert running.finish(120).code == 0
    duration = time.monotonic() - server.requests[0].time
    assert task.ran == list(range(ROUNDS))
    for moment in moments:
        requests = len(server.requests)
        with task.start(home.work / f"{moment:.2}") as running:
            server.wait_for_requests(requests + 1, seconds=30)
            time.sleep(duration * moment)
            running.signal(signal.SIGKILL)
            running.finish()
        check_killed(task)


def test_run_killed_at_any_moment_can_be_continued(task: Task, home: Home, server: ModelServer) -> None:
    kill_at_moments(task, home, server, [0.2, 0.6])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "part"), [(WIRES[part % len(WIRES)], part) for part in range(PARTS)], indirect=["task"]
)
def test_a_hundred_kills_lose_nothing(task: Task, home: Home, server: ModelServer, part: int) -> None:
    jitter = random.Random(part)
    kill_at_moments(task, home, server, [(kill + jitter.random()) / KILLS for kill in range(part, KILLS, PARTS)])


@on_each_wire
def test_run_killed_before_its_first_request_does_not_block_later_runs(task: Task, home: Home) -> None:
    jitter = random.Random(1)
    for number in range(2):
        with task.start(home.work / str(number)) as running:
            time.sleep(jitter.uniform(0.02, 0.3))
            running.signal(signal.SIGKILL)
            running.finish()
        check_killed(task)


@on_each_wire
@pytest.mark.parametrize(
    "messages", [1, pytest.param(3, marks=pytest.mark.slow), 11, pytest.param(2 * ROUNDS + 1, marks=pytest.mark.slow)]
)
def test_run_killed_while_waiting_for_a_response_continues_from_there(
    task: Task, home: Home, server: ModelServer, messages: int
) -> None:
    task.held[messages] = threading.Event()
    with task.start(home.work / "one") as running:
        server.wait_for_requests((messages + 1) // 2, seconds=30)
        running.signal(signal.SIGKILL)
        running.finish()
    task.held.pop(messages).set()
    [killed] = task.runs
    assert len(killed.entries) == messages
    assert (killed.ended, killed.exit_code) == (None, None)
    check_killed(task)


@on_each_wire
def test_command_running_during_a_kill_is_reported_as_possibly_run(task: Task, home: Home) -> None:
    task.command = "echo {step} >> ran; [[ {step} != 4 ]] || kill -KILL $PPID"
    with task.start(home.work / "one") as running:
        assert running.finish().code == -signal.SIGKILL
    [killed] = task.runs
    assert task.ran == [0, 1, 2, 3, 4]
    assert len(killed.entries) == 10
    check_killed(task)
    assert task.ran == list(range(ROUNDS))
    assert task.heard[-1][11].content == f"Error: {INTERRUPTED_REASON}"


@pytest.mark.slow
def test_an_answer_killed_while_it_is_streamed_is_kept_and_continued(ask: Ask, server: ModelServer) -> None:
    beginning: list[Step] = [wire.event(wire.text("The first")), 2.5, wire.event(wire.text(" and the second."))]
    server.reply(
        Reply([*beginning, HOLD], content_type="text/event-stream"),
        Reply(
            [*beginning, wire.event(wire.text(" Third.")), wire.event(wire.finish())], content_type="text/event-stream"
        ),
    )
    with ask.start("--no-tools", "hi") as running:
        running.wait_for("second.")
        running.signal(signal.SIGKILL)
        running.finish()
    assert "The first and the second." in ask("history", "show").text
    assert ask("-c", "--no-tools", "more").code == 0
    assert read_last_conversation(server) == ["hi", "The first and the second.", "more"]
    assert ask("history", "show", "--last", "1").text.count("The first") == 1
    assert len(ask("history", "search", "third").text.splitlines()) == 1
