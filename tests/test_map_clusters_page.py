"""docs/map-clusters.md: its commands are run, and its recipes with the variables that the schedulers set."""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, ClassVar, Self

import jinja2
import pytest
import yaml

from tests import test_map_page
from tests.model_server import ModelServer
from tests.program import Ask, Home, Running
from tests.recipes import read_recipes

RECIPES = {recipe.title: recipe for recipe in read_recipes(Path(__file__).parents[1] / "docs" / "map-clusters.md")}
TICKETS = test_map_page.RECIPES[0].files["tickets.jsonl"]
MODEL = {"ASK_MODEL": "vendor/model"}


@pytest.fixture
def ask(ask: Ask, home: Home, server: ModelServer) -> Ask:
    """`ask` with the input of the page and a model that answers."""
    server.reply(test_map_page.answer)
    (home.work / "tickets.jsonl").write_text(TICKETS)
    return ask


def start_cluster(script: str, ask: Ask, stack: ExitStack) -> str:
    """Start the documented scheduler and worker on this machine; return the scheduler's address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    script = script.replace("head:8786", address).replace("--port 8786", f"--port {address.partition(':')[2]}")
    for line, expected in zip(script.splitlines(), ("Scheduler at", "Registered to"), strict=True):
        program, *arguments = line.split()
        command = [str(Path(sys.executable).with_name(program)), *arguments, "--host", "127.0.0.1", "--no-dashboard"]
        stack.enter_context(Running(command, env=ask.env, cwd=ask.cwd)).wait_for(expected, 60)
    return address


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.slow
def test_shards_print_the_documented_output(ask: Ask) -> None:
    test_map_page.run_steps(ask, RECIPES["Shards"])


@pytest.mark.slow
def test_a_cluster_prints_the_documented_output(ask: Ask, stack: ExitStack) -> None:
    recipe = RECIPES["A Dask cluster"]
    test_map_page.run_steps(ask, recipe, start_cluster(recipe.script, ask, stack))


def read_answers(home: Home) -> list[str]:
    return [json.loads(line)["answer"] for line in (home.work / "languages.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_the_job_array_covers_all_rows(ask: Ask, home: Home) -> None:
    recipe = RECIPES["Slurm"]
    (script,) = recipe.files.values()
    match = re.search(r"--array=(\d+)-(\d+)", script)
    assert match
    first, last = map(int, match.groups())
    for task in range(first, last + 1):
        values = {"ID": task, "MIN": first, "MAX": last, "COUNT": last - first + 1, "STEP": 1}
        env = MODEL | {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in values.items()}
        assert ask.shell(script, env=env | {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}).code == 0
    merge = re.search(r'--wrap "(.*)"', recipe.script)
    assert merge
    assert ask.shell(merge[1]).code == 0
    assert read_answers(home) == ["English", "German", "French"]


@pytest.mark.slow
def test_the_pods_cover_all_rows(ask: Ask, home: Home) -> None:
    recipe = RECIPES["Kubernetes"]
    spec = yaml.safe_load(recipe.files["job.yaml"])["spec"]
    assert spec["completionMode"] == "Indexed"
    (container,) = spec["template"]["spec"]["containers"]
    assert container["command"] == ["sh", "-c"]
    (script,) = container["args"]
    for index in range(spec["completions"]):
        result = ask.shell(script, env=MODEL | {"JOB_COMPLETION_INDEX": str(index)})
        assert result.code == 0, result.stderr
    assert ask.shell(recipe.script).code == 0
    assert read_answers(home) == ["English", "German", "French"]


class Operator:
    """Takes the place of Airflow's BashOperator; the last one for each task id is in `tasks`."""

    tasks: ClassVar[dict[str, Operator]] = {}

    def __init__(self, **arguments: Any) -> None:
        self.command = jinja2.Template(arguments["bash_command"]).render()
        self.environments: list[dict[str, str]] = [{}]
        self.tasks[arguments["task_id"]] = self

    @classmethod
    def partial(cls, **arguments: Any) -> Operator:
        return cls(**arguments)

    def expand(self, env: list[dict[str, str]]) -> Self:
        self.environments = env
        return self

    def __rshift__(self, other: Operator) -> None:
        pass


class Dag:
    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        pass


@pytest.mark.slow
def test_the_tasks_of_airflow_cover_all_rows(ask: Ask, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("airflow", "airflow.providers", "airflow.providers.standard", "airflow.providers.standard.operators"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    for name, attribute, value in (
        ("airflow.providers.standard.operators.bash", "BashOperator", Operator),
        ("airflow.sdk", "DAG", Dag),
    ):
        module = ModuleType(name)
        setattr(module, attribute, value)
        monkeypatch.setitem(sys.modules, name, module)
    exec(RECIPES["Airflow"].files["languages.py"], {})
    for task in Operator.tasks.values():
        for environment in task.environments:
            result = ask.shell(task.command, env=MODEL | environment)
            assert result.code == 0, result.stderr
    assert read_answers(home) == ["English", "German", "French"]
