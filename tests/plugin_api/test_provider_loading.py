"""Plugin discovery from package metadata, and its cache."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ask import ChatCompletions, ChatRequest, HttpRequest, ModelResponse, Provider, ToolSpec
from ask.errors import ConfigError, PluginError
from ask.plugin_api.chat_completions import ChatStreamReader
from ask.plugin_api.installed_plugins import PluginEntry, find_plugins
from ask.plugin_api.provider import REQUIRED_HOOKS, TOOL_HOOKS, list_hook_names
from ask.plugin_api.provider_loading import check_provider
from tests.third_party_plugins import install, install_provider


@pytest.fixture
def packages(tmp_path: Path) -> Iterator[Path]:
    """A package folder at the start of `sys.path`."""
    folder = tmp_path / "packages"
    folder.mkdir()
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "plugins.json"


def edit_cache(cache: Path, **changes: object) -> None:
    """Change the cache's content, to detect whether it is read."""
    cache.write_text(json.dumps(json.loads(cache.read_text()) | changes))


def test_providers_are_listed_in_order_with_their_distribution(packages: Path) -> None:
    install(packages, "many", {"zeta": "many:z", "alpha": "many:a"}, {})
    install(packages, "one", {"mid": "one.inner:thing.part"}, {})
    entries = find_plugins(None).providers
    assert list(entries) == sorted(entries)
    assert entries["alpha"] == (PluginEntry("alpha", "many:a", "many"),)
    assert entries["mid"] == (PluginEntry("mid", "one.inner:thing.part", "one"),)
    assert {entries[name][0].distribution for name in ("demo", "openrouter")} == {"ask-gents"}


def test_discovery_imports_no_plugin(packages: Path) -> None:
    install_provider(packages, "tripwire", "raise RuntimeError('imported')")
    assert "tripwire" in find_plugins(None).providers
    assert "ask_tripwire" not in sys.modules


def test_other_entry_point_groups_are_ignored(packages: Path) -> None:
    install(packages, "plain", {}, {})
    (packages / "plain-1.0.dist-info/entry_points.txt").write_text("[console_scripts]\nplain = plain:main\n")
    assert "plain" not in find_plugins(None).providers


def test_tools_are_listed_by_distribution_and_share_the_cache(packages: Path, cache: Path) -> None:
    install(packages, "tools-b", {"z": "one", "a": "two:f [extra]"}, {}, "ask.tools")
    install(packages, "tools-a", {"z": "three"}, {}, "ask.tools")
    for plugins in (find_plugins(None), find_plugins(cache), find_plugins(cache)):
        assert plugins.providers == find_plugins(None).providers
        assert list(plugins.tools) == ["tools-a", "tools-b"]
        assert plugins.tools["tools-b"] == (
            PluginEntry("a", "two:f [extra]", "tools-b"),
            PluginEntry("z", "one", "tools-b"),
        )
    edit_cache(cache, tools=[["only", "in:cache", "kept"]])
    assert find_plugins(cache).tools == {"kept": (PluginEntry("only", "in:cache", "kept"),)}


@pytest.mark.parametrize("key", ["tools", "providers", "loaders", "commands"])
def test_cache_of_an_older_version_is_rebuilt(packages: Path, cache: Path, key: str) -> None:
    install(packages, "tools", {"z": "one"}, {}, "ask.tools")
    find_plugins(cache)
    cached = json.loads(cache.read_text())
    del cached[key]
    cache.write_text(json.dumps(cached))
    assert list(find_plugins(cache).tools) == ["tools"]
    assert "demo" in find_plugins(cache).providers


def test_two_distributions_with_the_same_provider_are_both_listed(packages: Path) -> None:
    install(packages, "one", {"twice": "one:p"}, {})
    install(packages, "other", {"twice": "other:p"}, {})
    assert [entry.distribution for entry in find_plugins(None).providers["twice"]] == ["one", "other"]


def test_first_of_two_copies_of_a_distribution_counts(packages: Path, tmp_path: Path) -> None:
    install(packages, "same", {"same": "new:p"}, {})
    sys.path.append(str(install(tmp_path / "later", "same", {"same": "old:p"}, {})))
    try:
        assert [entry.target for entry in find_plugins(None).providers["same"]] == ["new:p"]
    finally:
        sys.path.remove(str(tmp_path / "later"))


def test_result_is_cached(cache: Path) -> None:
    plugins = find_plugins(cache).providers
    assert find_plugins(cache).providers == plugins
    edit_cache(cache, providers=[["only", "in:cache", "kept"]])
    assert find_plugins(cache).providers == {"only": (PluginEntry("only", "in:cache", "kept"),)}


def test_installing_and_removing_a_plugin_updates_the_cache(cache: Path, packages: Path) -> None:
    assert "new" not in find_plugins(cache).providers
    install_provider(packages, "new")
    assert "new" in find_plugins(cache).providers
    shutil.rmtree(packages / "ask_new-1.0.dist-info")
    assert "new" not in find_plugins(cache).providers


def test_cache_of_another_python_is_ignored(cache: Path) -> None:
    find_plugins(cache)
    stamp = json.loads(cache.read_text())["stamp"]
    edit_cache(cache, stamp=["/other/python", *stamp[1:]], providers=[])
    assert "demo" in find_plugins(cache).providers


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "{}", '{"stamp": 1}', "\0\xff", "[" * 100_000])
def test_damaged_cache_is_rebuilt(cache: Path, content: str) -> None:
    cache.parent.mkdir()
    cache.write_bytes(content.encode("latin-1"))
    assert "demo" in find_plugins(cache).providers
    assert json.loads(cache.read_text())["providers"]


@pytest.mark.parametrize("rows", [None, 5, [5], [["name"]], "text", {"a": 1}, [["a", "b", "c", "d"]]])
def test_cache_with_invalid_rows_is_rebuilt(cache: Path, rows: object) -> None:
    find_plugins(cache)
    edit_cache(cache, providers=rows)
    assert "demo" in find_plugins(cache).providers


def test_unusable_cache_file_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.json").mkdir()
    for cache in (tmp_path / "file" / "plugins.json", tmp_path / "folder.json"):
        assert "demo" in find_plugins(cache).providers
    assert sorted(os.listdir(tmp_path)) == ["file", "folder.json"]


@pytest.mark.parametrize("content", [b"[ask.providers]\nno equals sign\n", b"\xff\xfe[ask.providers]\n\x80 = x:y\n"])
def test_a_broken_distribution_does_not_hide_the_others(packages: Path, content: bytes) -> None:
    install_provider(packages, "good")
    install(packages, "bad", {}, {})
    (packages / "bad-1.0.dist-info/entry_points.txt").write_bytes(content)
    assert {"good", "demo"} <= set(find_plugins(None).providers)


def test_remains_of_an_uninstalled_distribution_do_not_hide_the_others(packages: Path) -> None:
    install_provider(packages, "good")
    for name in ("left", "over"):
        install(packages, name, {"same": "one:p"}, {})
        (packages / f"{name}-1.0.dist-info/METADATA").unlink()
    assert {"good", "demo"} <= set(find_plugins(None).providers)


# Required and optional hooks

CHAT = ChatCompletions(name="chat", base_url="http://127.0.0.1:9/v1", needs_key=False)
NEEDED_BY_MODULES = ("provider_supports_tools", *REQUIRED_HOOKS)


def make_module(*omitted_hooks: str, supports_tools: bool = False) -> ModuleType:
    """Create a module with the required hooks, except the omitted ones."""
    module = ModuleType("ask_chat")
    hooks = {hook: getattr(CHAT, hook) for hook in ("provider_info", *REQUIRED_HOOKS)}
    hooks["provider_supports_tools"] = lambda model: supports_tools
    vars(module).update({hook: value for hook, value in hooks.items() if hook not in omitted_hooks})
    return module


class WithoutToolHooks(Provider):
    """A provider with the required hooks only; a subclass defines `provider_supports_tools`."""

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        return HttpRequest("/talk")

    def provider_stream_reader(self) -> ChatStreamReader:
        return ChatStreamReader()

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        return ModelResponse("Hello.")


class WithoutTools(WithoutToolHooks):
    def provider_supports_tools(self, model: str) -> bool:
        return model == "able"


class LaterProvider(Provider):
    """The base class of a later version, with one more hook."""

    def provider_count_tokens(self, model: str) -> str:
        return f"no tokens counted for {model} of {self.info.name}"


def test_module_with_the_required_hooks_gets_the_defaults_of_the_others() -> None:
    provider = check_provider(make_module(), "chat", "ask-chat")
    tool = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})
    assert provider.info == CHAT.info
    assert not provider.supports_tools("m")
    assert provider.parse_tool_calls({}) == []
    assert provider.hooks.provider_format_tools(tools=[tool]) == CHAT.provider_format_tools([tool])
    result = {"tool_call_id": "1", "tool_name": "look", "result": "seen"}
    assert provider.hooks.provider_format_tool_result(**result) == CHAT.provider_format_tool_result(**result)
    assert provider.send(HttpRequest("/")) is None
    assert not provider.supports_attachment("m", "image/png")
    assert provider.hooks.provider_parse_error(status=500, headers={}, body='{"error": "down"}').message == "down"
    assert provider.hooks.provider_notice(request=ChatRequest("m", ()), answer=ModelResponse()) == ""
    assert provider.hooks.provider_models_request(key="") is None
    assert provider.hooks.provider_parse_models(body={}) == []


def test_optional_hook_of_a_later_version_does_not_break_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Provider, "provider_count_tokens", LaterProvider.provider_count_tokens, raising=False)
    for plugin in (make_module(), CHAT):
        hooks: Any = check_provider(plugin, "chat", "ask-chat").hooks
        assert hooks.provider_count_tokens(model="m") == "no tokens counted for m of chat"


@pytest.mark.parametrize("hook", ["provider_info", *NEEDED_BY_MODULES])
def test_module_without_a_required_hook_is_rejected(hook: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_provider(make_module(hook), "chat", "ask-chat")
    assert caught.value.message.endswith(f"missing: {hook}")


def test_default_does_not_replace_what_a_hook_returned_by_mistake() -> None:
    module = make_module()
    vars(module).update(provider_supports_attachment=lambda: None, provider_parse_response=lambda: None)
    provider = check_provider(module, "chat", "ask-chat")
    with pytest.raises(PluginError, match="provider_supports_attachment must return bool, not None"):
        provider.supports_attachment("m", "image/png")
    with pytest.raises(PluginError, match="provider_parse_response must return ModelResponse, not None"):
        provider.hooks.provider_parse_response(response={})


@pytest.mark.parametrize("plugin", [make_module(supports_tools=True), WithoutTools(CHAT.info)])
def test_model_with_tools_needs_the_tool_hooks(plugin: ModuleType | Provider) -> None:
    provider = check_provider(plugin, "chat", "ask-chat").with_limits(30, lambda _: None)
    with pytest.raises(PluginError) as caught:
        provider.supports_tools("able")
    assert all(text in str(caught.value) for text in ("chat", "provider_supports_tools must return False", *TOOL_HOOKS))


def test_instance_needs_no_tool_hooks_if_it_says_which_models_support_tools() -> None:
    assert not check_provider(WithoutTools(CHAT.info), "chat", "ask-chat").supports_tools("m")
    with pytest.raises(ConfigError) as caught:
        check_provider(WithoutToolHooks(CHAT.info), "chat", "ask-chat")
    assert caught.value.message.endswith(f"missing: {', '.join(TOOL_HOOKS)}")


@pytest.mark.parametrize("hook", list_hook_names())
def test_misspelled_hook_is_reported_with_a_suggestion(hook: str) -> None:
    misspelled = hook[:-2] + hook[-1]
    module = make_module()
    setattr(module, misspelled, lambda: None)
    with pytest.raises(ConfigError, match=f"unknown hook {misspelled} .did you mean {hook}"):
        check_provider(module, "chat", "ask-chat")


def test_hook_gets_those_of_its_parameters_that_the_specification_has() -> None:
    module = make_module(supports_tools=True)
    vars(module).update(
        provider_supports_tools=lambda: True,
        provider_supports_attachment=lambda media_type, others=("audio/wav",): media_type in others,
        provider_models_request=lambda key="no key", path="/models": HttpRequest(path, headers={"key": key}),
    )
    provider = check_provider(module, "chat", "ask-chat")
    assert provider.hooks.provider_supports_tools(model="m")
    assert [provider.supports_attachment("m", each) for each in ("audio/wav", "image/png")] == [True, False]
    assert provider.hooks.provider_models_request(key="k") == HttpRequest("/models", headers={"key": "k"})
