"""The guide to a provider with its own wire format, followed literally in an empty folder."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from typing import Any

import pytest

from tests.doc_pages import find_code_blocks
from tests.model_server import ModelServer, Reply
from tests.program import Ask, Home, run
from tests.test_docs import OWN_WIRE, PYTEST
from tests.third_party_plugins import install

SOURCE, SUITE = find_code_blocks(OWN_WIRE, "python")
(PROJECT,) = (tomllib.loads(text) for text in find_code_blocks(OWN_WIRE, "toml"))
KEY = "sk-parrot-123456"
END = {"end": "done", "read": 12, "wrote": 7}


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


def test_the_provider_is_listed(parrot: Ask) -> None:
    assert "\nparrot\tParrot\tmacaw-1\tPARROT_API_KEY\t" in parrot("providers").text


@pytest.mark.parametrize("stream", [True, False])
def test_the_provider_answers_as_documented(parrot: Ask, server: ModelServer, stream: bool) -> None:
    server.reply(streams({"say": "Hel"}, {"say": "lo."}, END) if stream else Reply([b'{"say": "Hello."}']))
    result = parrot("-p", "parrot", *([] if stream else ["--no-stream"]), "hello")
    assert (result.text, result.stderr, result.code) == ("Hello.\n", "", 0)
    (request,) = server.requests
    assert (request.headers["Parrot-Key"], request.json["live"]) == (KEY, stream)
    assert request.json["turns"][-1] == {"who": "user", "say": "hello"}


def test_the_model_of_the_provider_can_call_tools(parrot: Ask, server: ModelServer) -> None:
    parrot.cwd.joinpath("seed.txt").touch()
    calls = [{"do": {"tool": "list_dir", "with": {"dirpath": "."}}}, {"do": {"tool": "nothing", "with": {}}}]
    server.reply(streams({"say": "Look."}, *calls, END), streams({"say": "A seed."}, END))
    result = parrot("-p", "parrot", "hello")
    assert (result.text, result.code) == ("Look.\nA seed.\n", 0)
    answer, *results = server.requests[1].json["turns"][2:]
    assert [call["tool"] for call in answer["do"]] == ["list_dir", "nothing"]
    assert [turn["done"] for turn in results] == [call["id"] for call in answer["do"]]
    assert "seed.txt" in results[0]["say"]


def test_errors_of_the_provider_are_one_line(parrot: Ask, server: ModelServer) -> None:
    server.reply(streams({"say": "Hel"}, {"fault": "overloaded"}))
    result = parrot("-p", "parrot", "hello")
    assert (result.text, result.code) == ("Hel\n", 6)
    assert result.stderr.startswith("ask: overloaded (parrot")


@pytest.mark.slow
def test_the_provider_passes_the_contract_suite(parrot: Ask, home: Home) -> None:
    (home.work / "test_parrot.py").write_text(SUITE)
    tested = run([*PYTEST, "test_parrot.py"], env=parrot.env, cwd=home.work, timeout=60)
    assert tested.code == 0, tested.text
    assert "skipped" not in tested.text


def test_the_package_has_the_recommended_name_and_classifiers() -> None:
    project = PROJECT["project"]
    assert project["name"] == "ask-provider-parrot"
    assert "ask-gents" in project["dependencies"]
    assert project["classifiers"]
