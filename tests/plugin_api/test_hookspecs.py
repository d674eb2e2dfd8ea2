"""Hook specifications: each documents when it runs and has the same signature as the default in `Provider`."""

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
    *("provider_info", "provider_supports_tools", "provider_takes_attachment", "provider_format_tools"),
    *("provider_parse_tool_calls", "provider_format_tool_result", "provider_build_request", "provider_send"),
    "provider_stream_reader",
    *("provider_parse_response", "provider_parse_error", "provider_notice"),
    *("provider_models_request", "provider_parse_models"),
]


def test_hooks_are_listed() -> None:
    assert list_hook_names() == HOOKS


def test_base_class_has_exactly_these_hooks() -> None:
    assert sorted(name for name in vars(Provider) if name.startswith("provider_")) == sorted(HOOKS)


@pytest.mark.parametrize("name", HOOKS)
def test_base_class_has_the_same_typed_signature(name: str) -> None:
    specified, default = (inspect.signature(getattr(owner, name)) for owner in (ProviderHooks, Provider))
    assert specified == default
    annotations = [p.annotation for p in specified.parameters.values() if p.name != "self"]
    assert inspect.Signature.empty not in (*annotations, specified.return_annotation)


@pytest.mark.parametrize("name", HOOKS)
def test_docstring_says_when_the_hook_runs(name: str) -> None:
    assert "Runs " in (getattr(ProviderHooks, name).__doc__ or "")


@pytest.mark.parametrize("name", HOOKS)
def test_hook_returns_the_first_result(name: str) -> None:
    manager = pluggy.PluginManager(PROJECT_NAME)
    manager.add_hookspecs(ProviderHooks)
    spec = getattr(manager.hook, name).spec
    assert spec is not None
    assert spec.opts["firstresult"]


@pytest.mark.parametrize("name", HOOKS)
def test_only_required_hooks_have_no_default(name: str) -> None:
    method = getattr(Provider, name)
    arguments = dict.fromkeys(inspect.signature(method).parameters)
    if name in REQUIRED_HOOKS:
        with pytest.raises(NotImplementedError):
            method(**arguments)
    else:
        assert "NotImplementedError" not in inspect.getsource(method)


def test_tool_hooks_have_these_arguments() -> None:
    def arguments(name: str) -> list[str]:
        return list(inspect.signature(getattr(ProviderHooks, name)).parameters)[1:]

    assert arguments("provider_supports_tools") == ["model"]
    assert arguments("provider_format_tools") == ["tools"]
    assert arguments("provider_parse_tool_calls") == ["response"]
    assert arguments("provider_format_tool_result") == ["tool_call_id", "tool_name", "result"]


def test_plugin_may_decorate_its_hooks() -> None:
    class DecoratedPlugin:
        @hookimpl
        def provider_supports_tools(self, model: str) -> bool:
            return model == "able"

    manager = pluggy.PluginManager(PROJECT_NAME)
    manager.add_hookspecs(ProviderHooks)
    manager.register(DecoratedPlugin())
    hooks = typing.cast("ProviderHooks", manager.hook)
    assert [hooks.provider_supports_tools(model=model) for model in ("able", "other")] == [True, False]
