"""`ask.testing` passes correct providers, and names the mistake of each faulty one and what to do about it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree as ET

import pytest

from ask import ChatCompletions, ChatRequest, Delta, HttpRequest, RawEvent
from ask.plugin_api.chat_completions import ChatStreamReader
from ask.plugin_api.provider import MODULE_HOOKS, REQUIRED_HOOKS
from ask.testing import ProviderContract
from ask.testing.base import load_provider
from ask.testing.blocked_actions import guard_hook
from ask.testing.samples import CALL_KINDS
from ask.testing.structure_tests import STRUCTURE_TESTS
from tests.correct_providers import FINCH_SUITE, HERON_SUITE, ROBIN_SUITE
from tests.faulty_providers import Service
from tests.native_provider import INFO, SAMPLES, WHOLE, Wren, make_module
from tests.planted_mistakes import DONE, DONE_SUITE, FAULTY_PROVIDERS, WARNED

ROOT = Path(__file__).parents[1]


class TestChatCompletions(ProviderContract):
    provider = Service()


class RefusesDone(Service):
    """Fails if it gets "[DONE]", which is not JSON."""

    def provider_stream_reader(self) -> ChatStreamReader:
        class Reader(ChatStreamReader):
            def feed(self, event: RawEvent) -> list[Delta]:
                assert event != DONE
                return super().feed(event)

        return Reader()


class TestStreamsThatEndWithDone(ProviderContract):
    provider = RefusesDone()
    samples = DONE_SUITE["samples"]


class TestNativeProvider(ProviderContract):
    provider = Wren()
    samples = SAMPLES
    unstreamed_samples = WHOLE


class SendsCallsAsText(Wren):
    """A provider whose service rejects calls in a request without callable tools."""

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        body = super().build_body(request)
        if not body.get("may_call"):
            body = {name: value for name, value in body.items() if name not in ("tools", "may_call")}
            for turn in body["turns"]:
                for call in turn.pop("calls", ()):
                    turn["text"] += f" [called {call['tool']} with {json.dumps(call['with'])}]"
                if turn.pop("answers", None):
                    turn["role"] = "user"
        return body


class TestCallsSentAsText(ProviderContract):
    provider = SendsCallsAsText()
    samples = SAMPLES
    unstreamed_samples = WHOLE


class Program(Wren):
    """A provider without HTTP."""

    def __init__(self) -> None:
        super().__init__(INFO._replace(base_url="", needs_key=False))

    def provider_send(self, request: HttpRequest, timeout: float) -> Iterator[RawEvent]:
        yield from SAMPLES["text"]

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        return HttpRequest("/", self.build_body(request._replace(stream=True)))


class TestOwnTransport(ProviderContract):
    provider = Program()
    samples = SAMPLES


class TestModuleWithEveryHook(ProviderContract):
    provider = make_module(Wren())
    samples = SAMPLES
    unstreamed_samples = WHOLE


class TestModuleWithRequiredHooks(ProviderContract):
    provider = make_module(Wren(), *{*REQUIRED_HOOKS, *MODULE_HOOKS, "provider_parse_error"})
    provider.provider_supports_tools = lambda model: False  # type: ignore[attr-defined]
    unsupported: ClassVar = {"attachments", "tools"}
    samples: ClassVar = {kind: events for kind, events in SAMPLES.items() if kind not in CALL_KINDS}
    unstreamed_samples: ClassVar = {kind: body for kind, body in WHOLE.items() if kind not in CALL_KINDS}


TestRobin = type("TestRobin", (ProviderContract,), ROBIN_SUITE)
TestHeron = type("TestHeron", (ProviderContract,), HERON_SUITE)
TestFinch = type("TestFinch", (ProviderContract,), FINCH_SUITE)


STRUCTURAL = {name: faulty for name, faulty in FAULTY_PROVIDERS.items() if faulty.fails in STRUCTURE_TESTS}


@pytest.mark.slow
def test_each_mistake_is_reported_with_what_to_do(tmp_path: Path) -> None:
    failures = run_contract(tmp_path, FAULTY_PROVIDERS, only_expected=True)
    unclear = {
        name: failures[name]
        for name, faulty in FAULTY_PROVIDERS.items()
        if not any(re.search(faulty.says, message, re.DOTALL) for message in failures[name])
    }
    assert unclear == {}


@pytest.mark.slow
def test_a_structural_mistake_is_one_failure(tmp_path: Path) -> None:
    failures = run_contract(tmp_path, STRUCTURAL)
    assert {name: len(messages) for name, messages in failures.items()} == dict.fromkeys(STRUCTURAL, 1)


@pytest.mark.slow
def test_what_was_not_tested_is_a_warning(tmp_path: Path) -> None:
    """It appears in pytest's ordinary output, at the class, and neither fails nor depends on the warning filters."""
    file = tmp_path / "test_warned.py"
    lines = ["from ask.testing import ProviderContract", "from tests.planted_mistakes import WARNED"]
    for name in WARNED:
        lines += [f"class Test{name}(ProviderContract):", f" locals().update(WARNED[{name!r}].suite)"]
        lines += [f" provider = WARNED[{name!r}]()"]
    file.write_text("\n".join(lines))
    done = run_pytest(file, "-k", "untested", path=[ROOT])
    assert done.returncode == 0, done.stdout
    shown = re.findall(r":\d+: UntestedWarning: Test(\w+) tested (.*)", done.stdout)
    assert sorted(name for name, _ in shown) == sorted(WARNED)
    unclear = {name: text for name, text in shown if not re.search(WARNED[name].warns, text)}
    assert unclear == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["BodyKept", "TextStrippedInService", "ResultsMovedToTheEndInService", "NamesLoweredInService", "SharedBuffer"],
)
def test_a_mistake_is_one_or_two_failures(tmp_path: Path, name: str) -> None:
    (messages,) = run_contract(tmp_path, [name]).values()
    assert 1 <= len(messages) <= 2


@pytest.mark.slow
def test_a_misspelled_hook_is_one_failure(tmp_path: Path) -> None:
    (messages,) = run_contract(tmp_path, ["MisspelledHook"]).values()
    assert len(messages) == 1
    assert "did you mean provider_parse_error?" in messages[0]


@pytest.mark.slow
def test_missing_samples_are_listed_in_one_failure(tmp_path: Path) -> None:
    (messages,) = run_contract(
        tmp_path, ["NoTextDeltasInWren"], attributes="samples = unstreamed_samples = {}"
    ).values()
    assert len(messages) == 1
    assert all(kind in messages[0] for kind in SAMPLES)


@pytest.mark.slow
def test_unsupported_kinds_need_no_samples(tmp_path: Path) -> None:
    source = "({kind: each[kind] for kind in each.keys() - OMITTED} for each in (SAMPLES, WHOLE))"
    omitted = {"reasoning", "reasoning_and_call", "filter"}
    attributes = (
        f"unsupported = OMITTED = {omitted}\n samples, unstreamed_samples = {source.replace('OMITTED', str(omitted))}"
    )
    (messages,) = run_contract(tmp_path, ["UsageSwappedInWren"], attributes=attributes).values()
    assert len(messages) == 1
    assert "swapped" in messages[0]


@pytest.mark.slow
def test_missing_unstreamed_samples_are_shown_to_be_confirmed(tmp_path: Path) -> None:
    header = [
        "from ask.testing import ProviderContract",
        "from tests.native_provider import SAMPLES, WHOLE, Wren",
        "class TestWren(ProviderContract):",
        "    provider = Wren()",
        "    samples = SAMPLES",
    ]
    file = tmp_path / "test_wren.py"
    file.write_text("\n".join([*header, ""]))
    arguments: list[str | Path] = [file, "-k", "confirmed or usage or unstreamed or both_forms"]
    shown = run_pytest(*arguments, "-W", "default", path=[ROOT])
    assert shown.returncode == 0, shown.stdout
    assert f"{file}:3: UntestedWarning" in shown.stdout
    samples = re.search(r"^ +unstreamed_samples = \{\n.*?^      \}\n", shown.stdout, re.MULTILINE | re.DOTALL)
    assert samples
    file.write_text("\n".join([*header, *(line[2:] for line in samples[0].splitlines()), ""]))
    confirmed = run_pytest(*arguments, path=[ROOT])
    assert confirmed.returncode == 0, confirmed.stdout
    file.write_text(file.read_text().replace("'Let me think.'", "'Let me.'"))
    assert run_pytest(*arguments, path=[ROOT]).returncode == 1


def run_contract(
    folder: Path, names: Sequence[str] | dict[str, Any], *, only_expected: bool = False, attributes: str = ""
) -> dict[str, list[str]]:
    """Run the contract on faulty providers; return the messages of the failures for each."""
    lines = ["from ask.testing import ProviderContract", "from tests.planted_mistakes import FAULTY_PROVIDERS"]
    lines += ["from tests.native_provider import SAMPLES, WHOLE"]
    for name in names:
        lines += [f"class Test{name}(ProviderContract):"]
        lines += [" " + (attributes or f"locals().update(FAULTY_PROVIDERS[{name!r}].suite)")]
        lines += [f" provider = FAULTY_PROVIDERS[{name!r}]"]
    file = folder / "test_faulty.py"
    file.write_text("\n".join(lines))
    tests = [f"{file}::Test{name}::{FAULTY_PROVIDERS[name].fails}" for name in names] if only_expected else [file]
    done = run_pytest(*tests, f"--junitxml={folder}/report.xml", path=[ROOT])
    assert done.returncode == 1, done.stdout[-2000:]
    messages: dict[str, list[str]] = {name: [] for name in names}
    for case in ET.parse(folder / "report.xml").iter("testcase"):
        name = case.attrib["classname"].rpartition(".Test")[2]
        messages[name] += [failure.attrib["message"] for failure in case.findall("failure")]
    return messages


def run_pytest(*arguments: str | Path, path: Sequence[Path]) -> subprocess.CompletedProcess[str]:
    """Run pytest in its own process, with `path` to import from."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env |= {"PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-n0", "-q", "-W", "error", "-p", "no:cacheprovider", *arguments]
    with tempfile.TemporaryDirectory() as folder:  # in the usual one, pytest deletes the files of earlier runs first
        env["PYTEST_DEBUG_TEMPROOT"] = folder
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)


class Allocating(ChatCompletions):
    def provider_supports_tools(self, model: str) -> bool:
        return len([[] for _ in range(100_000)]) > 0  # garbage is collected meanwhile


class LeftBehind:
    """A part of a reference cycle that prints when it is collected."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        os.write(2, b"left behind by other code\n")


def test_garbage_of_other_code_is_not_what_a_hook_printed() -> None:
    loaded = load_provider(Allocating(name="allocating", base_url="https://api.example.org/v1"))
    LeftBehind()
    with guard_hook("provider_supports_tools"):
        assert loaded.supports_tools("m")
