"""The models cache: writing and reading lists, damaged files, and finding models by id."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given

from ask import ModelInfo
from ask.client.models_cache import CachedModels, find_model, get_cache_file, read_models, write_models
from tests.json_strategies import any_json
from tests.model_server import ModelServer
from tests.program import Ask, Home
from tests.wire import whole_reply

MODELS = (ModelInfo("a/b", context_length=8_192, tools=True), ModelInfo("c", tools=False), ModelInfo("d"))
EMPTY = CachedModels()


def test_list_is_read_with_its_age(tmp_path: Path) -> None:
    file = get_cache_file(tmp_path, "some", "http://localhost")
    assert read_models(file) == EMPTY
    write_models(file, MODELS)
    cached = read_models(file)
    assert cached.models == MODELS
    assert 0 <= cached.age < 60
    write_models(file, MODELS[:1], age=500)
    cached = read_models(file)
    assert cached.models == MODELS[:1]
    assert 500 <= cached.age < 560
    assert list(file.parent.iterdir()) == [file]


def test_each_provider_and_address_has_a_file_without_the_password(tmp_path: Path) -> None:
    addresses = ("http://me:secret@one/v1", "http://one/v1")
    files = {get_cache_file(tmp_path, name, address) for name in ("a", "b", "../c") for address in addresses}
    assert len(files) == 6
    assert all(file.parent == tmp_path / "models" and "secret" not in file.name for file in files)


def test_failed_write_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("no folder")
    file = get_cache_file(tmp_path, "some", "")
    write_models(file, MODELS)
    assert read_models(file) == EMPTY


def test_list_from_the_future_counts_as_old(tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    file.write_text(json.dumps({"time": time.time() + 999, "models": [{"id": "a"}]}))
    assert read_models(file) == CachedModels((ModelInfo("a"),))


@given(any_json())
def test_file_may_contain_any_json(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    file = tmp_path_factory.getbasetemp() / "any.json"
    for content in (
        value,
        {"time": value, "models": value},
        {"time": 1, "models": [value, {"id": "a", "tools": value}]},
    ):
        file.write_text(json.dumps(content))
        assert read_models(file).age > 0


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        ("a/b", "a/b"),
        ("a/b:online", "a/b"),
        ("qwen", "qwen:latest"),
        ("claude", "claude-20260901"),
        ("gpt", "gpt-2026-09-01"),
        ("gpt-2026", None),
        ("clau", None),
        ("", None),
    ],
)
def test_model_is_found_by_any_form_of_its_id(model_id: str, expected: str | None) -> None:
    ids = ("a/b", "qwen:latest", "claude-mini", "claude-20260901", "gpt-2026-09-01")
    entry = find_model([ModelInfo(name) for name in ids], model_id)
    assert (entry.id if entry else None) == expected


def test_models_command_writes_the_cache(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(whole_reply({"data": [{"id": "a/b", "context_length": 8_192, "supported_parameters": ["tools"]}]}))
    assert ask("models", "-p", "openrouter").code == 0
    file = get_cache_file(home.path / "cache" / "ask", "openrouter", server.base_url)
    assert read_models(file).models == MODELS[:1]
