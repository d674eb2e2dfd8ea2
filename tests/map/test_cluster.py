"""`ask map --engine dask` with a real scheduler and real workers, each a process of its own."""

from __future__ import annotations

import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ask.config.settings import Settings
from ask.errors import ConfigError, MissingDependencyError, NetworkError
from ask.map.cluster import ClusterJob, answer_row, describe_differences
from ask.map.job import RowTask
from ask.messages import Message
from tests import wire
from tests.cli.test_map import (
    COMMAND,
    LEAKING_PROVIDER,
    SlowServer,
    echo,
    make_rows,
    parse,
    read_output,
    write_file,
    write_rows,
)
from tests.missing_packages import make_command_without
from tests.model_server import ModelServer, Reply, Request
from tests.program import TEST_KEY, Ask, Home, Running, run
from tests.test_main import is_alive, wait_until
from tests.third_party_plugins import install_provider

DASK = str(Path(sys.executable).with_name("dask"))
WORKER_KEY = "sk-only-the-workers-have-this-key"
LOCAL = ("--host", "127.0.0.1", "--no-dashboard")


class DaskCluster:
    """A scheduler and its workers."""

    def __init__(self, ask: Ask, folder: Path, stack: ExitStack) -> None:
        self._ask = ask
        self._stack = stack
        file = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", *LOCAL, "--port", "0", "--scheduler-file", str(file))
        wait_until(lambda: file.exists() and file.read_text().endswith("}"), 60)
        self.address: str = json.loads(file.read_text())["address"]

    def _start(self, *command: str, **env: str) -> Running:
        return self._stack.enter_context(Running([DASK, *command], env={**self._ask.env, **env}, cwd=self._ask.cwd))

    def start_worker(self, **env: str) -> Running:
        """Start a worker, which Dask does not start again."""
        keys = {"OPENROUTER_API_KEY": WORKER_KEY}
        worker = self._start("worker", self.address, *LOCAL, "--no-nanny", "--nthreads", "4", **{**keys, **env})
        worker.wait_for("Registered to", 60)
        return worker


@pytest.fixture
def cluster(ask: Ask, home: Home) -> Iterator[DaskCluster]:
    with ExitStack() as stack:
        yield DaskCluster(ask, home.path, stack)


class RecordingProxy:
    """Forwards TCP connections to an address, and records what is sent in both directions."""

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("tcp://").partition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self.recorded = bytearray()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            target = socket.create_connection(self._target)
            for source, sink in ((connection, target), (target, connection)):
                threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                self.recorded += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@pytest.mark.slow
def test_workers_use_their_own_keys(ask: Ask, server: ModelServer, home: Home, cluster: DaskCluster) -> None:
    server.reply(echo)
    cluster.start_worker()
    proxy = RecordingProxy(cluster.address)
    client_key = ask.env["OPENROUTER_API_KEY"]
    file = write_rows(home.work, *make_rows(20), {"id": 20, "text": f"my key is {client_key}"}, {"text": "bad"})
    result = ask.process(*COMMAND, file, "-s", f"a secret: {client_key}", "--engine", f"dask={proxy.address}")
    assert result.code == 12, result.stderr
    rows = parse(result)
    assert [row["answer"] for row in rows[:20]] == [f"SAY WORD {number}" for number in range(20)]
    assert "[KEY REMOVED]" in rows[20]["answer"]
    assert "this is bad" in rows[21]["error"]
    assert {request.headers["Authorization"] for request in server.requests} == {f"Bearer {WORKER_KEY}"}
    assert b"Say word 7" in proxy.recorded, "the connection is neither encrypted nor compressed"
    assert b"a secret: [key removed]" in proxy.recorded
    assert client_key.encode() not in proxy.recorded
    assert WORKER_KEY.encode() not in proxy.recorded
    # The ledger is the client's: nothing is sent again, with or without a cluster.
    assert ask(*COMMAND, file, "-s", f"a secret: {client_key}").code == 12
    assert len(server.requests) == 22


@pytest.mark.slow
def test_versions_must_be_the_same(ask: Ask, server: ModelServer, home: Home, cluster: DaskCluster) -> None:
    server.reply(echo)
    packages = install_provider(home.path / "packages", "odd")
    cluster.start_worker(PYTHONPATH=str(packages))
    result = ask.process(*COMMAND, write_rows(home.work, *make_rows(1)), "--engine", f"dask={cluster.address}")
    assert (result.code, result.text, len(server.requests)) == (ConfigError.exit_code, "", 0)
    assert "ask-odd 1.0" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_worker_without_ask_is_an_error(ask: Ask, server: ModelServer, home: Home, cluster: DaskCluster) -> None:
    (home.path / "ask.py").write_text("raise ImportError('not here')\n")
    cluster.start_worker(PYTHONPATH=str(home.path))
    result = ask.process(*COMMAND, write_rows(home.work, *make_rows(1)), "--engine", f"dask={cluster.address}")
    assert (result.code, len(result.stderr.splitlines())) == (ConfigError.exit_code, 1), result.stderr
    assert "cannot run ask" in result.stderr


@pytest.mark.slow
def test_a_cluster_of_processes_on_this_machine(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.whole_reply(wire.answer('{"word": "yes"}')))
    file = write_rows(home.work, *make_rows(30))
    result = ask.process(*COMMAND, "--schema", "word", file, "-O", "out.csv", "--engine", "dask", timeout=60)
    assert result.code == 0, result.stderr
    lines = (home.work / "out.csv").read_text().splitlines()
    assert [line.split(",")[:3] for line in lines[1:]] == [[str(n), f"word {n}", "yes"] for n in range(30)]


@pytest.mark.slow
def test_a_scheduler_that_does_not_exist_is_an_error(ask: Ask, home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    for address in (closed, "http://127.0.0.1", "nowhere"):
        result = ask.process(*COMMAND, write_rows(home.work, *make_rows(1)), "--engine", f"dask={address}", timeout=60)
        assert (result.code, len(result.stderr.splitlines())) == (NetworkError.exit_code, 1), result.stderr
        assert address in result.stderr


@pytest.mark.slow
def test_without_the_extra_the_error_names_it(ask: Ask, home: Home) -> None:
    (home.path / "distributed.py").write_text("raise ImportError\n")
    file = write_rows(home.work, *make_rows(1))
    result = ask.process(*COMMAND, file, "--engine", "dask", env={"PYTHONPATH": str(home.path)})
    assert (result.code, "[dask]" in result.stderr) == (3, True), result.stderr


@pytest.mark.slow
def test_keys_that_a_plugin_prints_in_local_workers_are_redacted(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    packages = install_provider(home.path / "packages", "leaking", LEAKING_PROVIDER)
    env = {"PYTHONPATH": str(packages), "LEAKING_API_KEY": TEST_KEY, "LEAKING_BASE_URL": server.base_url}
    file = write_rows(home.work, *make_rows(10))
    result = ask.process("map", "-p", "leaking", "Say {{text}}", file, "--engine", "dask", env=env, timeout=60)
    assert (result.code, len(result.text.splitlines())) == (0, 10), result.stderr
    assert "error " in result.stderr
    assert TEST_KEY not in result.stderr


@pytest.mark.parametrize(
    "options", [("--engine", "spark"), ("--engine", "dask", "--key", "k"), ("--engine", "dask", "--batch")]
)
def test_options_that_do_not_go_together(ask: Ask, home: Home, options: tuple[str, ...]) -> None:
    result = ask(*COMMAND, write_rows(home.work, *make_rows(1)), *options)
    assert (result.code, result.text) == (2, "")


@pytest.mark.slow
def test_the_rows_of_a_killed_worker_run_elsewhere(
    ask: Ask, server: ModelServer, home: Home, cluster: DaskCluster
) -> None:
    service = SlowServer(server, 0.2)
    victim, *_ = [cluster.start_worker() for _ in range(3)]
    file = write_rows(home.work, *make_rows(150))
    with ask.start(*COMMAND, file, "-O", "out.jsonl", "-j", "12", "--engine", f"dask={cluster.address}") as running:
        wait_until(lambda: service.count >= 30)
        victim.process.kill()
        result = running.finish(60)
    assert result.code == 0, result.stderr
    output = read_output(home.work / "out.jsonl")
    assert [row["id"] for row in output] == list(range(150))
    assert [row["answer"] for row in output] == [f"SAY WORD {number}" for number in range(150)]
    assert 150 <= service.count <= 150 + 4, "only what the worker had in flight was sent again"


@pytest.mark.slow
def test_a_scheduler_that_dies_stops_the_job(ask: Ask, server: ModelServer, home: Home, cluster: DaskCluster) -> None:
    SlowServer(server, 0.2)
    cluster.start_worker()
    file = write_rows(home.work, *make_rows(100))
    with ask.start(*COMMAND, file, "-O", "out.jsonl", "--engine", f"dask={cluster.address}") as running:
        server.wait_for_requests(20, 30)
        cluster.scheduler.process.kill()
        result = running.finish(60)
    assert (result.code, "the Dask scheduler" in result.stderr) == (NetworkError.exit_code, True), result.stderr
    assert len(result.stderr.splitlines()) == 2
    assert ask(*COMMAND, file, "-O", "out.jsonl").code == 0
    assert [row["id"] for row in read_output(home.work / "out.jsonl")] == list(range(100))


@pytest.mark.slow
@pytest.mark.parametrize("local", [False, True])
def test_ctrl_c_finishes_what_is_in_flight(
    ask: Ask, server: ModelServer, home: Home, cluster: DaskCluster, local: bool
) -> None:
    service = SlowServer(server, 0.3)
    cluster.start_worker()
    file = write_rows(home.work, *make_rows(200))
    engine = "dask" if local else f"dask={cluster.address}"
    with ask.start(*COMMAND, file, "-O", "out.jsonl", "-j", "4", "--engine", engine) as running:
        server.wait_for_requests(6, 30)
        running.signal()
        result = running.finish(30)
    assert result.code == 130
    assert "same command again" in result.stderr
    assert len(read_output(home.work / "out.jsonl")) == service.count < 20


@pytest.mark.slow
def test_the_second_ctrl_c_ends_the_commands_of_rows(
    ask: Ask, server: ModelServer, home: Home, cluster: DaskCluster
) -> None:
    server.reply(wire.calls(("bash", {"command": "echo $$ > pid; exec sleep 100"})))
    cluster.start_worker()
    pid_file = home.work / "pid"
    file = write_rows(home.work, *make_rows(1))
    with ask.start(*COMMAND, file, "--tools", "--engine", f"dask={cluster.address}") as running:
        wait_until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"), 30)
        running.process.send_signal(signal.SIGINT)
        running.wait_for("Ctrl-C again")
        time.sleep(0.1)
        running.process.send_signal(signal.SIGINT)
        assert running.finish(20).code == 130
        wait_until(lambda: not is_alive(int(pid_file.read_text())))


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--tools",)])
def test_a_killed_client_leaves_no_row_running(
    ask: Ask, server: ModelServer, home: Home, cluster: DaskCluster, options: tuple[str, ...]
) -> None:
    def call_forever(_: Request) -> Reply:
        time.sleep(0.3)
        command = f"echo $$ >> pids; sleep 0.2; echo {len(server.requests)}"  # a repeated call would end the loop
        return wire.calls(("bash", {"command": command})) if options else wire.says("yes")

    server.reply(call_forever)
    cluster.start_worker()
    command = (*COMMAND, write_rows(home.work, *make_rows(200)), *options, "-j", "12", "-O", "out.jsonl")
    with ask.start(*command, "--engine", f"dask={cluster.address}") as running:
        server.wait_for_requests(8, 60)
        running.process.kill()
        killed = time.monotonic()
    time.sleep(8)
    assert server.requests[-1].time < killed + 5
    pids = (home.work / "pids").read_text().split() if options else []
    assert not any(is_alive(int(pid)) for pid in pids)


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_rows_with_tools_have_a_working_copy_each(
    ask: Ask, server: ModelServer, home: Home, cluster: DaskCluster
) -> None:
    server.reply(write_file)
    cluster.start_worker()
    (home.work / "project").mkdir()
    file = write_rows(home.work, *make_rows(3))
    options = ("--tools", "--safe", "--workdir-template", "project", "--engine", f"dask={cluster.address}")
    result = ask.process(*COMMAND, file, "-O", "out.jsonl", *options, timeout=120)
    assert result.code == 0, result.stderr
    for number, row in enumerate(read_output(home.work / "out.jsonl")):
        assert f"+Say word {number}" in row["patch"]
    assert {request.headers["Authorization"] for request in server.requests} == {f"Bearer {WORKER_KEY}"}


def test_versions_are_compared_by_name() -> None:
    versions = {"ask": "1", "Python": "3.11.4"}
    assert describe_differences(versions, versions) == ""
    assert "Python 3.12.0" in describe_differences(versions | {"Python": "3.12.0"}, versions)
    assert "ask-odd" in describe_differences(versions | {"ask-odd": "1"}, versions)
    assert "ask-odd" in describe_differences(versions, versions | {"ask-odd": "1"})


def test_a_worker_that_joins_later_is_compared_too() -> None:
    job = ClusterJob("id", {"ask": "0"}, ("demo:demo",), (), ("",), Settings(), None, (), None)
    result = answer_row(job, RowTask(0, {}, 0, message=Message("user", "hi")))
    assert isinstance(result.error, ConfigError)
    assert "instead of 0" in str(result.error)


@pytest.mark.slow
def test_a_missing_package_is_named(ask: Ask, home: Home) -> None:
    command = [*make_command_without("distributed", home), *COMMAND, write_rows(home.work, {"text": "a"})]
    result = run([*command, "--engine", "dask"], env=ask.env, cwd=home.work)
    assert result.code == MissingDependencyError.exit_code, result.stderr
    assert "package distributed" in result.stderr and "[dask]" in result.stderr
