"""The hooks: each is specified once, says when it runs, and has its default in `Provider` under the same signature."""

from __future__ import annotations

import inspect
import typing

import pluggy
import pytest

from ask import Provider, hookimpl
from ask.plugin_api.hookspecs import PROJECT_NAME, ProviderHooks
from ask.plugin_api.loader import list_hook_names
from ask.plugin_api.provider import REQUIRED_HOOKS

HOOKS = [
    *(
        "provider_info",
        "provider_adapter",
        "provider_supports_tools",
        "provider_takes_attachment",
        "provider_format_tools",
    ),
    *("provider_parse_tool_calls", "provider_format_tool_result", "provider_build_request", "provider_stream_reader"),
    *("provider_parse_response", "provider_parse_error", "provider_notice"),
    *("provider_models_request", "provider_parse_models"),
]


def test_these_are_the_hooks() -> None:
    assert list_hook_names() == HOOKS


def test_the_base_class_has_every_hook_and_no_other() -> None:
    assert sorted(name for name in vars(Provider) if name.startswith("provider_")) == sorted(HOOKS)


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_is_typed_and_the_base_class_takes_and_returns_the_same(name: str) -> None:
    specified, default = (inspect.signature(getattr(owner, name)) for owner in (ProviderHooks, Provider))
    assert specified == default
    annotations = [p.annotation for p in specified.parameters.values() if p.name != "self"]
    assert inspect.Signature.empty not in (*annotations, specified.return_annotation)


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_says_when_it_runs(name: str) -> None:
    assert "Runs " in (getattr(ProviderHooks, name).__doc__ or "")


@pytest.mark.parametrize("name", HOOKS)
def test_the_first_result_of_a_hook_is_its_result(name: str) -> None:
    manager = pluggy.PluginManager(PROJECT_NAME)
    manager.add_hookspecs(ProviderHooks)
    spec = getattr(manager.hook, name).spec
    assert spec is not None
    assert spec.opts["firstresult"]


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_without_a_default_is_required_and_no_other(name: str) -> None:
    method = getattr(Provider, name)
    arguments = dict.fromkeys(inspect.signature(method).parameters)
    if name in REQUIRED_HOOKS:
        with pytest.raises(NotImplementedError):
            method(**arguments)
    else:
        assert "NotImplementedError" not in inspect.getsource(method)


def test_the_four_tool_hooks_take_what_the_contract_says() -> None:
    def arguments(name: str) -> list[str]:
        return list(inspect.signature(getattr(ProviderHooks, name)).parameters)[1:]

    assert arguments("provider_supports_tools") == ["model"]
    assert arguments("provider_format_tools") == ["tools"]
    assert arguments("provider_parse_tool_calls") == ["response"]
    assert arguments("provider_format_tool_result") == ["tool_call_id", "tool_name", "result"]


def test_a_plugin_may_mark_its_hooks() -> None:
    class Marked:
        @hookimpl
        def provider_supports_tools(self, model: str) -> bool:
            return model == "able"

    manager = pluggy.PluginManager(PROJECT_NAME)
    manager.add_hookspecs(ProviderHooks)
    manager.register(Marked())
    hooks = typing.cast("ProviderHooks", manager.hook)
    assert [hooks.provider_supports_tools(model=model) for model in ("able", "other")] == [True, False]
