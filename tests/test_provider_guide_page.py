"""The provider with its own wire format in docs/providers.md, installed and tested as on the page."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.doc_pages import find_code_blocks, read_section
from tests.model_server import ModelServer, Reply
from tests.program import PROGRAMS, Ask, Home, run
from tests.test_docs import PROVIDERS, PYTEST, ROOT
from tests.third_party_plugins import install

SOURCE, SUITE = find_code_blocks(read_section(PROVIDERS, "## A service with its own wire format"), "python")
(PROJECT,) = map(tomllib.loads, find_code_blocks(read_section(PROVIDERS, "## Publish it"), "toml"))
CONFIRMED = """
    unstreamed_samples = {
        "text": {"text": "Hello, wörld!"} | END,
        "reasoning": {"reasoning": "Let me think.", "text": "Hello, wörld!"} | END,
        "call": {"calls": CALLS[:1]} | END,
        "parallel": {"calls": CALLS} | END,
        "text_and_call": {"text": "Hello, wörld!", "calls": CALLS[:1]} | END,
        "reasoning_and_call": {"reasoning": "Let me think.", "calls": CALLS[:1]} | END,
        "length": {"text": "Hello, w"} | END | {"done": "length"},
        "filter": {"text": "Hello, w"} | END | {"done": "filter"},
        "error": ERROR,
    }
"""
"""What the author adds after comparing the suite's own samples with the service's documentation."""
KEY = "sk-parrot-123456"
END = {"done": "stop", "usage": {"input": 12, "output": 7}}


def streams(*lines: Any) -> Reply:
    return Reply([json.dumps(line).encode() + b"\n" for line in lines], content_type="application/x-ndjson")


@pytest.fixture
def parrot(ask: Ask, home: Home, server: ModelServer) -> Ask:
    """`ask` with the package of the guide installed."""
    project = PROJECT["project"]
    (module,) = PROJECT["tool"]["setuptools"]["py-modules"]
    packages = install(
        home.path / "packages", project["name"], project["entry-points"]["ask.providers"], {module: SOURCE}
    )
    env = {"PYTHONPATH": str(packages), "PARROT_API_KEY": KEY, "PARROT_BASE_URL": server.base_url}
    return replace(ask, env={**ask.env, **env})


@pytest.mark.slow
def test_the_provider_and_its_models_are_listed(parrot: Ask, server: ModelServer) -> None:
    assert "\nparrot\tParrot\tmacaw-1\tPARROT_API_KEY\t" in parrot("providers").text
    server.reply(Reply([b'{"models": [{"name": "macaw-1"}, {"name": "parakeet-1"}, 7]}']))
    listed = parrot("models", "-p", "parrot", "--json")
    assert [model["id"] for model in json.loads(listed.text)] == ["macaw-1", "parakeet-1"]


@pytest.mark.slow_after_first
@pytest.mark.parametrize("stream", [True, False])
def test_the_provider_answers(parrot: Ask, server: ModelServer, stream: bool) -> None:
    server.reply(streams({"text": "Hel"}, {"text": "lo."}, END) if stream else Reply([b'{"text": "Hello."}']))
    result = parrot("-p", "parrot", *([] if stream else ["--no-stream"]), "hello")
    assert (result.text, result.stderr, result.code) == ("Hello.\n", "", 0)
    (request,) = server.requests
    assert (request.headers["Parrot-Key"], request.json["stream"]) == (KEY, stream)
    assert request.json["messages"][-1] == {"role": "user", "text": "hello"}


@pytest.mark.slow
def test_the_model_can_call_tools_and_gets_its_reasoning_back(parrot: Ask, server: ModelServer) -> None:
    parrot.cwd.joinpath("seed.txt").touch()
    calls = [{"call": {"name": "list_dir", "arguments": {"dirpath": "."}}}, {"call": {"name": "nothing"}}]
    server.reply(streams({"reasoning": "Hm."}, {"text": "Look."}, *calls, END), streams({"text": "A seed."}, END))
    result = parrot("-p", "parrot", "hello")
    assert (result.text, result.code) == ("Look.\nA seed.\n", 0)
    first, second = (request.json for request in server.requests)
    assert {tool["name"] for tool in first["tools"]} >= {"list_dir"}
    answer, *results = second["messages"][2:]
    assert answer["reasoning"] == "Hm."
    assert [call["name"] for call in answer["calls"]] == ["list_dir", "nothing"]
    assert [message["call_id"] for message in results] == [call["id"] for call in answer["calls"]]
    assert "seed.txt" in results[0]["text"]


@pytest.mark.slow
def test_requests_have_calls_without_tools_and_tools_that_must_not_be_called(parrot: Ask, server: ModelServer) -> None:
    call = {"call": {"name": "list_dir", "arguments": {"dirpath": "."}}}
    server.reply(streams(call, END), streams({"text": "Enough."}, END))
    parrot("-p", "parrot", "--max-rounds", "1", "hello")
    server.reply(streams({"text": "Hello."}, END))
    assert parrot("-p", "parrot", "-c", "--no-tools", "and now?").code == 0
    first, final, without = (request.json for request in server.requests)
    assert (first["tool_choice"], final["tool_choice"]) == ("auto", "none")
    assert final["tools"] == first["tools"]
    assert "tools" not in without
    assert [message.get("calls", [{}])[0].get("name") for message in without["messages"]].count("list_dir") == 1


def test_an_unknown_finish_reason_is_named(parrot: Ask, server: ModelServer) -> None:
    server.reply(streams({"text": "Hello."}, END | {"done": "melted"}))
    result = parrot("-p", "parrot", "hello")
    assert (result.text, result.code) == ("Hello.\n", 0)
    assert "'melted'" in result.stderr


@pytest.mark.slow
def test_a_model_without_tools_gets_none(parrot: Ask, server: ModelServer) -> None:
    server.reply(streams({"text": "Hello."}, END))
    assert parrot("-p", "parrot", "-m", "parakeet-1", "hello").code == 0
    assert "tools" not in server.requests[0].json


@pytest.mark.slow
def test_errors_of_the_service_are_one_line(parrot: Ask, server: ModelServer) -> None:
    server.reply(streams({"text": "Hel"}, {"error": {"message": "overloaded", "code": 503}}))
    result = parrot("-p", "parrot", "hello")
    assert (result.text, result.code) == ("Hel\n", 6)
    assert result.stderr.startswith("ask: overloaded (parrot")
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_bug_is_reported_as_on_the_page(parrot: Ask, server: ModelServer, home: Home) -> None:
    right = 'return {"role": "tool", "call_id": tool_call_id, "text": result}'
    assert right in SOURCE
    (module,) = home.path.rglob("ask_provider_parrot.py")
    module.write_text(SOURCE.replace(right, "return 'sunny'  # type: ignore"))
    server.reply(streams({"call": {"name": "list_dir", "arguments": {"dirpath": "."}}}, END))
    result = parrot("-p", "parrot", "hello")
    (shown,) = find_code_blocks(read_section(PROVIDERS, "## Debug it"), "text")
    assert (result.stderr.splitlines()[-1], result.code) == (shown.strip(), 4)
    server.reply(streams({"call": {"name": "list_dir", "arguments": {"dirpath": "."}}}, END))
    assert "Traceback" in parrot("-v", "-p", "parrot", "hello").stderr


@pytest.mark.slow
def test_the_provider_passes_the_contract_suite(parrot: Ask, home: Home) -> None:
    for suite, is_confirmed in ((SUITE, False), (SUITE + CONFIRMED, True)):
        (home.work / "test_parrot.py").write_text(suite)
        tested = run([*PYTEST, "test_parrot.py"], env=parrot.env, cwd=home.work, timeout=60)
        assert tested.code == 0, tested.text
        assert ("unstreamed_samples = {" in tested.text, "skipped" not in tested.text) == (
            not is_confirmed,
            is_confirmed,
        )


@pytest.mark.slow
def test_the_provider_and_its_tests_have_correct_types_and_misspelled_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ask_provider_parrot.py").write_text(SOURCE)
    (tmp_path / "test_parrot.py").write_text(SUITE)
    blocks = find_code_blocks(read_section(PROVIDERS, "## A compatible service"), "python")
    compatible = [block for block in blocks if "import" in block]  # the other one is a part of an example
    for number, source in enumerate(compatible):
        (tmp_path / f"compatible_{number}.py").write_text(source)
    examples = sorted((ROOT / "examples").glob("*/*.py"))
    assert len(examples) == 5
    (tmp_path / "misspelled.py").write_text("from ask import Mesage\nfrom ask.parsing import read_sting\n")
    all_parameters = "def provider_supports_tools(self, model: str)"
    assert all_parameters in SOURCE
    omitted = SOURCE.replace(all_parameters, "def provider_supports_tools(self)").replace(
        "not model.starts", "not ''.starts"
    )
    (tmp_path / "omitted.py").write_text(omitted)
    mypy = [str(PROGRAMS / "mypy"), "--strict", "--follow-imports=silent", f"--cache-dir={tmp_path}/cache"]
    env = {"PATH": str(PROGRAMS), "MYPYPATH": str(ROOT)}
    files = [
        "ask_provider_parrot.py",
        "test_parrot.py",
        *(f"compatible_{number}.py" for number in range(len(compatible))),
    ]
    checked = run([*mypy, *files, *map(str, examples)], env=env, cwd=tmp_path, timeout=120)
    assert checked.code == 0, checked.text
    refused = run([*mypy, "misspelled.py"], env=env, cwd=tmp_path, timeout=120)
    assert [name for name in ("Mesage", "read_sting") if name in refused.text] == ["Mesage", "read_sting"]
    refused = run([*mypy, "omitted.py"], env=env, cwd=tmp_path, timeout=120)
    assert "incompatible with supertype" in refused.text, "the guide says so"
