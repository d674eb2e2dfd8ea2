"""The contract suite passes valid providers, and each way of breaking one fails the test named for it."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, ClassVar

import pytest

import ask.plugin_api.provider
import ask.testing.base
from ask import (
    ChatCompletions,
    ChatRequest,
    HttpRequest,
    Message,
    ModelResponse,
    Provider,
    ProviderError,
    RawEvent,
    RetryAction,
    ToolCall,
    ToolSpec,
)
from ask.plugin_api.chat_completions import ChatStreamReader
from ask.plugin_api.loader import list_hook_names
from ask.plugin_api.provider import MODULE_HOOKS, REQUIRED_HOOKS
from ask.testing import CHAT_COMPLETIONS_SAMPLES, CHAT_COMPLETIONS_WHOLE, ProviderContract
from ask.testing.samples import CALL_KINDS

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "ask-provider-example"


class Service(ChatCompletions):
    """A typical provider, to be broken by subclasses; `broken` is the test that a subclass fails."""

    broken = ""

    def __init__(self) -> None:
        super().__init__(name="service", base_url="https://api.example.com/v1", key_env="SERVICE_API_KEY")


def as_module(provider: ChatCompletions, hooks: Collection[str] = ()) -> ModuleType:
    """Return a module with these hooks of the provider, by default all."""
    module = ModuleType("delegating")
    for hook in hooks or list_hook_names():
        setattr(module, hook, getattr(provider, hook))
    return module


class TestBareChatCompletions(ProviderContract):
    provider = Service()


class TestModuleWithEveryHook(ProviderContract):
    provider = as_module(Service())
    samples = CHAT_COMPLETIONS_SAMPLES
    whole = CHAT_COMPLETIONS_WHOLE


class TestModuleWithRequiredHooks(ProviderContract):
    provider = as_module(Service(), {*REQUIRED_HOOKS, *MODULE_HOOKS} - {"provider_supports_tools"})
    provider.provider_supports_tools = lambda model: False  # type: ignore[attr-defined]
    samples: ClassVar = {kind: events for kind, events in CHAT_COMPLETIONS_SAMPLES.items() if kind not in CALL_KINDS}
    whole: ClassVar = {kind: body for kind, body in CHAT_COMPLETIONS_WHOLE.items() if kind not in CALL_KINDS}


class KeyInBody(Service):
    broken = "test_key_is_in_the_headers_only"

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        http = super().provider_build_request(request, key)
        return http._replace(body={**(http.body or {}), "api_key": key})


class KeyInPath(Service):
    broken = "test_key_is_in_the_headers_only"

    def provider_models_request(self, key: str) -> HttpRequest:
        return HttpRequest(f"/models?key={key}", None, self.build_headers(key), "GET")


class NoKey(Service):
    broken = "test_key_is_in_the_headers_only"

    def build_headers(self, key: str) -> dict[str, str]:
        return {}


class EmptyToken(Service):
    broken = "test_without_a_key_there_is_no_empty_token"

    def build_headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}


class ResultDropped(Service):
    broken = "test_each_result_is_sent_once_and_after_the_calls"

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        last = [message for message in request.messages if message.role == "tool"][1:]
        return super().build_body(request._replace(messages=[m for m in request.messages if m not in last]))


class ResultsSwapped(Service):
    broken = "test_each_result_is_sent_once_and_after_the_calls"

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        head = [message for message in request.messages if message.role != "tool"]
        tail = [message for message in request.messages if message.role == "tool"]
        return super().build_body(request._replace(messages=[*head, *reversed(tail)]))


class ResultUnnamed(Service):
    broken = "test_formatted_result_keeps_its_text_and_names_its_call"

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return {"role": "tool", "content": result}


class ToolsFormattedAgain(Service):
    broken = "test_formatted_tools_are_placed_in_the_request"
    tools: Sequence[Mapping[str, Any]] = ()

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        formatted = super().provider_format_tools(tools)
        self.tools = formatted
        return formatted

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        return super().build_body(request._replace(tools=self.tools) if request.tools else request)


class ResultFormattedAgain(Service):
    broken = "test_formatted_results_are_placed_in_the_request"

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        if message.role == "tool":
            return self.provider_format_tool_result(message.tool_call_id, message.tool_name, message.content)
        return super().format_message(message, model)


class ForeignNativeKept(Service):
    broken = "test_native_parts_of_another_provider_are_dropped"

    def find_provider_state(self, message: Message, model: str) -> Mapping[str, Any]:
        return message.provider_state.data if message.provider_state else {}


class FamilyIgnored(Service):
    broken = "test_native_parts_of_another_model_family_are_dropped"

    def find_provider_state(self, message: Message, model: str) -> Mapping[str, Any]:
        state = message.provider_state
        return state.data if state and state.provider == self.info.name else {}


class NativeLost(Service):
    broken = "test_result_goes_back_with_what_the_model_needs"
    state_fields = ("content",)

    def find_provider_state(self, message: Message, model: str) -> Mapping[str, Any]:
        return {"content": "something else"} if message.provider_state else {}


class ArgumentsTrusted(Service):
    broken = "test_malformed_arguments_in_the_history_do_no_harm"

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        for call in message.tool_calls:
            json.loads(call.arguments)
        return super().format_message(message, model)


class Restless(Service):
    broken = "test_same_request_builds_the_same_bytes"
    count = itertools.count()

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        return {**super().build_body(request), "user": f"request {next(self.count)}"}


class PrefixChanged(Service):
    broken = "test_longer_conversation_begins_with_the_shorter_one"

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        body = super().build_body(request)
        body["messages"][0]["content"] += f" This is message {len(request.messages)}."
        return body


class OptionsDropped(Service):
    broken = "test_options_are_passed_on"

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        return super().build_body(request._replace(options={}))


class ToolChoiceIgnored(Service):
    broken = "test_tool_choice_none_changes_the_request"

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        return super().build_body(request._replace(tool_choice="auto"))


class NotJson(Service):
    broken = "test_request_holds_each_text_once"

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        return {**super().build_body(request), "modalities": {"text"}}


class DescriptionsDropped(Service):
    broken = "test_formatted_tools_keep_names_descriptions_and_parameters"

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        return [{"name": tool.name, "parameters": dict(tool.parameters)} for tool in tools]


class GarbageTrusted(Service):
    broken = "test_values_of_wrong_types_in_a_whole_answer_are_survived"

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        answer = super().provider_parse_response(response)
        response["choices"][0]["message"]["content"]
        return answer


class EventsTrusted(Service):
    broken = "test_garbage_in_a_stream_is_survived"

    def provider_stream_reader(self) -> ChatStreamReader:
        class Reader(ChatStreamReader):
            def feed(self, event: RawEvent) -> list[Any]:
                json.loads(event.data)
                return super().feed(event)

        return Reader()


class ReaderShared(Service):
    broken = "test_readers_share_nothing"
    reader = ChatStreamReader()

    def provider_stream_reader(self) -> ChatStreamReader:
        return self.reader


class EndUnseen(Service):
    broken = "test_stream_says_what_its_kind_holds"

    def provider_stream_reader(self) -> ChatStreamReader:
        class Reader(ChatStreamReader):
            def feed(self, event: RawEvent) -> list[Any]:
                seen = super().feed(event)
                self.complete = False
                return seen

        return Reader()


class CallsForgotten(Service):
    broken = "test_whole_answer_says_what_its_kind_holds"

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        return super().provider_parse_tool_calls(response)[:1]


class WholeReadOtherwise(Service):
    broken = "test_stream_and_whole_answer_read_the_same"

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        answer = super().provider_parse_response(response)
        return (
            answer
            if response.get("object")
            else answer._replace(provider_state=None, usage=answer.usage + answer.usage)
        )


class RefusalRetried(Service):
    broken = "test_refusal_is_not_retried"

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        return ProviderError("no", status, RetryAction.retry())


class WaitIgnored(Service):
    broken = "test_passing_error_is_retried_when_the_service_says"

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        return super().provider_parse_error(status, {}, body)


class StatusLost(Service):
    broken = "test_error_carries_its_status"

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        return super().provider_parse_error(500, headers, body)


class ErrorOfManyLines(Service):
    broken = "test_any_error_reads_as_one_line_without_the_key"

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        return ProviderError(body, status)


class KeyInError(Service):
    broken = "test_any_error_reads_as_one_line_without_the_key"
    used = ""

    def build_headers(self, key: str) -> dict[str, str]:
        self.used = key
        return super().build_headers(key)

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        return ProviderError(f"the key {self.used} is no good", status)


class ModelsTrusted(Service):
    broken = "test_garbage_in_a_models_list_is_survived"

    def provider_parse_models(self, body: Any) -> list[Any]:
        return [self.parse_model(entry) for entry in body["data"]]


class ModelsPosted(Service):
    broken = "test_models_request_is_a_get"

    def provider_models_request(self, key: str) -> HttpRequest:
        return HttpRequest("/models", None, self.build_headers(key))


class ToolHookMissing(Service):
    broken = "test_supports_tools_says_yes_or_no"
    provider_parse_tool_calls = Provider.provider_parse_tool_calls

    def provider_supports_tools(self, model: str) -> bool:
        return True


class HookMisspelt(Service):
    broken = "test_no_hook_is_misspelt"

    def provider_parse_eror(self) -> None:
        pass


class ArgumentRenamed(Service):
    broken = "test_every_required_hook_exists_and_takes_what_the_host_passes"

    def provider_supports_tools(self, name: str) -> bool:
        return True


class SlashAtTheEnd(Service):
    broken = "test_info_is_complete_and_sane"

    def __init__(self) -> None:
        super().__init__()
        self.info = self.info._replace(base_url="https://api.example.com/v1/")


MUTANTS = {
    mutant.__name__: mutant
    for mutant in list(globals().values())
    if isinstance(mutant, type) and issubclass(mutant, Service) and mutant is not Service
}


@pytest.mark.slow
def test_each_broken_provider_fails_the_test_named_for_it(tmp_path: Path) -> None:
    lines = ["from ask.testing import ProviderContract", "from tests import test_testing as t"]
    lines += [f"class Test{name}(ProviderContract): provider = t.{name}()" for name in MUTANTS]
    file = tmp_path / "test_mutants.py"
    file.write_text("\n".join(lines))
    named = [f"{file}::Test{name}::{mutant.broken}" for name, mutant in MUTANTS.items()]
    done = run_pytest(*named, "--tb=no", "-rf", path=[ROOT])
    failed = set(re.findall(r"^FAILED \S+::Test(\w+)::", done.stdout, re.MULTILINE))
    assert failed == MUTANTS.keys(), done.stdout


@pytest.mark.slow
def test_the_suite_runs_without_samples_and_only_in_subclasses(tmp_path: Path) -> None:
    lines = ["from ask.testing import ProviderContract", "from tests import test_testing as t"]
    lines += ["class TestOther(ProviderContract):", " provider = t.Service()", " samples = whole = {}"]
    file = tmp_path / "test_other.py"
    file.write_text("\n".join(lines))
    done = run_pytest(file, "-rs", path=[ROOT])
    assert done.returncode == 0, f"ProviderContract itself has no provider, and fails if collected: {done.stdout}"
    assert "4 skipped" in done.stdout, "the tests of samples say that there are none"


def test_the_suite_requires_the_same_hooks_as_the_host() -> None:
    for name in ("REQUIRED_HOOKS", "MODULE_HOOKS", "TOOL_HOOKS"):
        assert getattr(ask.testing.base, name) == getattr(ask.plugin_api.provider, name)


def test_example_is_as_small_as_it_claims() -> None:
    assert len((EXAMPLE / "ask_provider_example.py").read_text().splitlines()) < 40


def run_pytest(*arguments: str | Path, path: Sequence[Path]) -> subprocess.CompletedProcess[str]:
    """Run pytest in its own process, with `path` to import from."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env |= {"PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n0",
        "-q",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
        "-o",
        "markers=slow",  # used by the imported modules, but not declared in that configuration
        *map(str, arguments),
    ]
    with (
        TemporaryDirectory() as folder
    ):  # the default folder is shared, and pytest deletes old folders that others may use
        command.append(f"--basetemp={folder}/pytest")
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
