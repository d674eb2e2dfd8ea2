"""Mistakes in a plugin's hooks: each is one error that names the plugin, the hook and what was expected."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ask import BatchApi, ChatCompletions, HttpRequest, Message, ModelResponse, ToolCall, ToolSpec, Usage
from ask.errors import (
    AskError,
    ConfigError,
    MissingDependencyError,
    NetworkError,
    PluginError,
    ProviderError,
    SignalExit,
)
from ask.messages import RawEvent, TextDelta
from ask.plugin_api.loaded_provider import LoadedProvider
from ask.plugin_api.provider_loading import check_provider
from ask.plugin_api.types import ChatRequest, ModelInfo
from ask.profiles import ModelProfile


class MethodReader:
    """A stream reader of which `complete` is a method by mistake, and so always true."""

    def complete(self) -> bool:
        return False

    def feed(self, event: RawEvent) -> list[Any]:
        return []

    def response(self) -> dict[str, Any]:
        return {}


REQUEST = ChatRequest("model", (Message("user", "Hello."),))
RESPONSE: Mapping[str, Any] = {"choices": [{"message": {"content": "Hello."}}]}


def load(time_limit: float = 30.0, notices: list[str] | None = None, **hooks: Any) -> LoadedProvider:
    """Load a plugin of another distribution in which these hooks return values or call functions."""
    methods = {name: hook if callable(hook) else lambda self, _value=hook: _value for name, hook in hooks.items()}
    plugin = type("Service", (ChatCompletions,), methods)(name="service", base_url="http://localhost")
    on_notice: Callable[[str], None] = ([] if notices is None else notices).append
    return check_provider(plugin, "service", "ask-provider-service").with_limits(time_limit, on_notice)


def call_hook(provider: LoadedProvider, hook: str) -> object:
    calls: dict[str, Callable[[], object]] = {
        "provider_supports_tools": lambda: provider.supports_tools("model"),
        "provider_supports_attachment": lambda: provider.supports_attachment("model", "image/png"),
        "provider_format_tools": lambda: provider.hooks.provider_format_tools(tools=[ToolSpec("look", "", {})]),
        "provider_parse_tool_calls": lambda: provider.parse_tool_calls(RESPONSE),
        "provider_format_tool_result": lambda: provider.hooks.provider_format_tool_result(
            tool_call_id="1", tool_name="look", result="nothing"
        ),
        "provider_build_request": lambda: provider.hooks.provider_build_request(request=REQUEST, key=""),
        "provider_stream_reader": provider.hooks.provider_stream_reader,
        "provider_parse_response": lambda: provider.hooks.provider_parse_response(response=RESPONSE),
        "provider_parse_error": lambda: provider.hooks.provider_parse_error(status=500, headers={}, body="down"),
        "provider_notice": lambda: provider.hooks.provider_notice(request=REQUEST, answer=ModelResponse("Hello.")),
        "provider_models_request": lambda: provider.hooks.provider_models_request(key=""),
        "provider_parse_models": lambda: provider.hooks.provider_parse_models(body={}),
        "provider_batch": provider.get_batch_api,
    }
    return calls[hook]()


def test_each_form_of_a_provider_has_its_own_profiles() -> None:
    provider = load()
    assert provider.find_profile("a").context_length is None
    listed = provider.with_listed_model(ModelInfo("a", context_length=5), "a")
    assert listed.find_profile("a").context_length == 5
    configured = listed.with_profiles([ModelProfile("a", context_length=7)], listed.listed_profiles)
    assert configured.find_profile("a").context_length == 7
    assert provider.with_profiles(configured.configured_profiles, ()).find_profile("a").context_length == 7
    assert provider.find_profile("a").context_length is None


@pytest.mark.parametrize(
    ("hook", "value", "expected"),
    [
        ("provider_supports_tools", "yes", "bool"),
        ("provider_supports_attachment", 1, "bool"),
        ("provider_format_tools", {"look": {}}, "list"),
        ("provider_format_tools", ["look"], "dict"),
        ("provider_parse_tool_calls", None, "list"),
        ("provider_parse_tool_calls", [{"id": "1"}], "ToolCall"),
        ("provider_parse_tool_calls", [ToolCall("1", "look", {"where": "here"})], "arguments is the dict"),  # type: ignore[arg-type]
        ("provider_parse_tool_calls", [ToolCall("", "look", "{}")], "unique ids"),
        ("provider_parse_tool_calls", [ToolCall("1", "look", "{}"), ToolCall("1", "look", "{}")], "unique ids"),
        ("provider_format_tool_result", "nothing", "dict"),
        ("provider_build_request", {"path": "/chat"}, "HttpRequest"),
        ("provider_build_request", HttpRequest("/chat", "body"), "body is the str"),  # type: ignore[arg-type]
        ("provider_stream_reader", None, "'complete'"),
        ("provider_stream_reader", MethodReader(), "complete is a method"),
        ("provider_parse_response", "Hello.", "ModelResponse"),
        ("provider_parse_response", ModelResponse("Hello.", finish_reason="stop"), "FinishReason"),  # type: ignore[arg-type]
        ("provider_parse_response", ModelResponse(None), "text is None"),  # type: ignore[arg-type]
        ("provider_parse_response", ModelResponse("Hello.", usage={"in": 1}), "Usage"),  # type: ignore[arg-type]
        ("provider_parse_response", ModelResponse("Hello.", usage=Usage("12")), "input_tokens"),  # type: ignore[arg-type]
        ("provider_parse_error", "down", "ProviderError"),
        ("provider_notice", None, "str"),
        ("provider_models_request", "/models", "HttpRequest or None"),
        ("provider_parse_models", [{"id": "model"}], "ModelInfo"),
        ("provider_batch", "batches", "BatchApi or None"),
    ],
)
def test_wrong_results_name_the_plugin_the_hook_and_the_expected_type(hook: str, value: object, expected: str) -> None:
    with pytest.raises(PluginError) as raised:
        call_hook(load(**{hook: value}), hook)  # type: ignore[arg-type]
    message = raised.value.message
    assert all(part in message for part in ("service", hook, expected)), message
    assert "\n" not in message
    assert raised.value.exit_code == ConfigError.exit_code


class BadReader:
    complete = True

    def __init__(self, deltas: Any, response: Any) -> None:
        self._deltas, self._response = deltas, response

    def feed(self, event: RawEvent) -> Any:
        return self._deltas

    def response(self) -> Any:
        return self._response


def test_results_of_a_stream_reader_are_checked() -> None:
    provider = load(provider_stream_reader=BadReader(["Hello"], "Hello"))
    reader = provider.hooks.provider_stream_reader()
    with pytest.raises(PluginError, match=r"feed of its stream reader .*TextDelta"):
        provider.feed(reader, [RawEvent(None, "{}")], [])
    with pytest.raises(PluginError, match=r"response of its stream reader .*dict"):
        provider.get_response(reader)


@pytest.mark.parametrize("deltas", [["Hello"], [TextDelta(None)], None])  # type: ignore[arg-type]
def test_wrong_deltas_are_not_shown(deltas: Any) -> None:
    provider = load(provider_stream_reader=BadReader(deltas, {}))
    shown: list[Any] = []
    with pytest.raises(PluginError, match="feed of its stream reader"):
        provider.feed(provider.hooks.provider_stream_reader(), [RawEvent(None, "{}")], shown)
    assert shown == []


def test_a_plugin_may_change_the_request_and_the_tools_that_it_gets() -> None:
    def provider_build_request(self: object, request: ChatRequest, key: str) -> HttpRequest:
        options: Any = request.options
        messages: Any = request.messages
        schema: Any = request.schema
        schema["properties"].clear()
        return HttpRequest("/chat", {"system": messages.pop(0).content, "top": options.pop("top_p")})

    def provider_format_tools(self: object, tools: Any) -> list[Any]:
        return [tool.parameters.pop("type") and tool.to_function() for tool in tools]

    provider = load(provider_build_request=provider_build_request, provider_format_tools=provider_format_tools)
    messages = [Message("system", "Be brief."), Message("user", "Hello.")]
    options, schema = {"top_p": 1}, {"type": "object", "properties": {"a": {}}}
    request = ChatRequest("model", messages, options=options, schema=schema)
    first, second = (provider.build_request(request, "") for _ in range(2))
    assert first == second == HttpRequest("/chat", {"system": "Be brief.", "top": 1})
    assert (len(messages), options, schema["properties"]) == (2, {"top_p": 1}, {"a": {}})
    tools = [ToolSpec("look", "Look.", {"type": "object"})]
    assert provider.format_tools(tools) == provider.format_tools(tools)
    assert tools[0].parameters == {"type": "object"}


def test_a_body_that_was_not_returned_is_named() -> None:
    with pytest.raises(PluginError, match="provider_build_request"):
        load(build_body=None).build_request(REQUEST, "")


REFUSE = "import requests; r = requests.Response(); r.status_code, r.reason, r.url = 401, 'no key', 'http://x.test'; r"


@pytest.mark.parametrize(
    ("code", "error_type", "words"),
    [
        ("import no_such_module_here", MissingDependencyError, "no_such_module_here"),
        ("raise ConnectionRefusedError(111, 'refused')", NetworkError, "refused"),
        ("import socket; socket.create_connection(('127.0.0.1', 9))", NetworkError, "refused"),
        ("import socket; socket.socket(socket.AF_UNIX).connect('/nowhere.sock')", NetworkError, "No such file"),
        ("open('/nowhere/model.gguf')", MissingDependencyError, "/nowhere/model.gguf does not exist"),
        ("import subprocess; subprocess.run(['no-such-program-here'])", MissingDependencyError, "is not installed"),
        ("open('/')", MissingDependencyError, "/ cannot be used (Is a directory)"),
        ("import requests as r; raise r.HTTPError('no', response=r.Response())", NetworkError, "failed (no)"),
        (f"{REFUSE}.raise_for_status()", ProviderError, "401 Client Error: no key for url: http://x.test"),
        ("import urllib.error as e; raise e.HTTPError('http://x.test', 404, 'gone', {}, None)", ProviderError, "gone"),
        ("import ctypes; ctypes.CDLL('libnowhere.so')", PluginError, "libnowhere.so: cannot open shared object file"),
        ("yield None", PluginError, "must yield RawEvent, not None"),
        ("yield {'text': 'Hello'}", PluginError, "must yield RawEvent"),
        ("yield RawEvent(None, {'text': 'Hello'})", PluginError, "yielded a RawEvent whose data is the dict"),
        ("{}['choices']", PluginError, "KeyError: 'choices' (plugin.py, line 3)"),
    ],
)
def test_what_fails_while_a_plugin_sends_is_told_apart(code: str, error_type: type[AskError], words: str) -> None:
    namespace: dict[str, Any] = {"RawEvent": RawEvent, "__name__": "plugin"}
    source = f"def provider_send(self, request, timeout):\n    yield from ()\n    {code}\n"
    exec(compile(source, "plugin.py", "exec"), namespace)
    plugin = type("Service", (ChatCompletions,), {**namespace, "__module__": "plugin"})
    instance = plugin(name="service", base_url="", needs_key=False)
    provider = check_provider(instance, "service", "ask-provider-service").with_limits(30, print)
    events = provider.send(HttpRequest("/chat"))
    assert events is not None
    with pytest.raises(error_type) as raised:
        list(events)
    assert type(raised.value) is error_type
    assert words in str(raised.value)


def test_deltas_before_an_exception_are_kept() -> None:
    class Reader(BadReader):
        def feed(self, event: RawEvent) -> Any:
            return super().feed(event) if event.data else 1 / 0

    from ask import TextDelta

    provider = load(provider_stream_reader=Reader([TextDelta("Hello")], {}))
    deltas: list[Any] = []
    with pytest.raises(PluginError, match="ZeroDivisionError"):
        provider.feed(provider.hooks.provider_stream_reader(), [RawEvent(None, "{}"), RawEvent(None, "")], deltas)
    assert deltas == [TextDelta("Hello")]


def test_sys_exit_in_a_hook_is_an_error_of_the_plugin() -> None:
    def provider_supports_tools(self: object, model: str) -> bool:
        sys.exit(3)

    with pytest.raises(PluginError, match="provider_supports_tools failed with SystemExit"):
        load(provider_supports_tools=provider_supports_tools).supports_tools("model")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SignalExit(143), ProviderError("down", 503)])
def test_signals_and_errors_for_the_user_pass_through_hooks(error: BaseException) -> None:
    def provider_supports_tools(self: object, model: str) -> bool:
        raise error

    with pytest.raises(type(error)):
        load(provider_supports_tools=provider_supports_tools).supports_tools("model")


def test_output_of_a_hook_is_a_notice(capfd: pytest.CaptureFixture[str]) -> None:
    def provider_supports_tools(self: object, model: str) -> bool:
        print("debug", model, file=sys.__stdout__, flush=True)
        os.write(1, b"and directly\n")
        return True

    notices: list[str] = []
    assert load(notices=notices, provider_supports_tools=provider_supports_tools).supports_tools("model")
    assert capfd.readouterr().out == ""
    assert len(notices) == 1
    assert all(text in notices[0] for text in ("service", "provider_supports_tools", "debug model", "and directly"))


def test_a_hook_that_blocks_is_interrupted_at_the_time_limit() -> None:
    def provider_supports_tools(self: object, model: str) -> bool:
        time.sleep(60)
        return True

    started = time.monotonic()
    with pytest.raises(PluginError, match="took longer than"):
        load(time_limit=0.1, provider_supports_tools=provider_supports_tools).supports_tools("model")
    assert time.monotonic() - started < 10


def test_results_of_a_batch_api_are_checked() -> None:
    class Api(BatchApi):
        def parse_batch(self, body: Any) -> Any:
            return body

        def parse_results(self, body: Any) -> Any:
            return [body["id"]]

    api = load(provider_batch=lambda self: Api(lambda key: {})).get_batch_api()
    assert api is not None
    assert api.max_requests == BatchApi.max_requests
    for call, word in (
        (lambda: api.parse_batch({}), "Batch"),
        (lambda: api.parse_results({"id": "1"}), "BatchResult"),
        (lambda: api.parse_results({}), "KeyError"),
        (lambda: api.parse_upload({}), "NotImplementedError"),
    ):
        with pytest.raises(PluginError, match=word):
            call()
