"""The hooks of `Provider`: each documents when it runs."""

from __future__ import annotations

import inspect
import typing

import pluggy
import pytest

from ask import Provider
from ask.plugin_api.hook_binding import PROJECT_NAME, ProviderManager
from ask.plugin_api.provider import REQUIRED_HOOKS, list_hook_names

HOOKS = {
    *("provider_info", "provider_supports_tools", "provider_supports_attachment", "provider_format_tools"),
    *("provider_supports_result_attachment", "provider_supports_answer_attachment", "provider_server_tools"),
    *("provider_parse_tool_calls", "provider_format_tool_result", "provider_build_request", "provider_send"),
    "provider_stream_reader",
    *("provider_parse_response", "provider_join_responses", "provider_parse_error", "provider_notice"),
    *("provider_models_request", "provider_parse_models", "provider_batch", "provider_decisions"),
    *("provider_logprob_options", "provider_parse_logprobs"),
}


def test_hooks_are_listed() -> None:
    assert set(list_hook_names()) == HOOKS


@pytest.mark.parametrize("name", sorted(HOOKS))
def test_signatures_are_typed(name: str) -> None:
    signature = inspect.signature(getattr(Provider, name))
    annotations = [p.annotation for p in signature.parameters.values() if p.name != "self"]
    assert inspect.Signature.empty not in (*annotations, signature.return_annotation)


@pytest.mark.parametrize("name", sorted(HOOKS))
def test_docstring_says_when_the_hook_runs(name: str) -> None:
    assert "Runs " in (getattr(Provider, name).__doc__ or "")


@pytest.mark.parametrize("name", sorted(HOOKS))
def test_hook_returns_the_first_result(name: str) -> None:
    manager = ProviderManager(PROJECT_NAME)
    manager.add_hookspecs(Provider)
    spec = getattr(manager.hook, name).spec
    assert spec is not None
    assert spec.opts["firstresult"]


@pytest.mark.parametrize("name", sorted(HOOKS))
def test_only_required_hooks_have_no_default(name: str) -> None:
    method = getattr(Provider, name)
    arguments = dict.fromkeys(inspect.signature(method).parameters)
    if name in REQUIRED_HOOKS:  # the tool hooks have defaults for providers without tools
        with pytest.raises(NotImplementedError):
            method(**arguments)
    else:
        assert "NotImplementedError" not in inspect.getsource(method)


def test_tool_hooks_have_these_arguments() -> None:
    def arguments(name: str) -> list[str]:
        return list(inspect.signature(getattr(Provider, name)).parameters)[1:]

    assert arguments("provider_supports_tools") == ["model"]
    assert arguments("provider_format_tools") == ["tools"]
    assert arguments("provider_parse_tool_calls") == ["response"]
    assert arguments("provider_format_tool_result") == ["tool_call_id", "tool_name", "result"]


def test_plugin_may_decorate_its_hooks() -> None:
    class DecoratedPlugin:
        @pluggy.HookimplMarker(PROJECT_NAME)
        def provider_supports_tools(self, model: str) -> bool:
            return model == "able"

    manager = ProviderManager(PROJECT_NAME)
    manager.add_hookspecs(Provider)
    manager.register(DecoratedPlugin())
    hooks = typing.cast("Provider", manager.hook)
    assert [hooks.provider_supports_tools(model=model) for model in ("able", "other")] == [True, False]
