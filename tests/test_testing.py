"""`ask.testing` passes correct providers, and names the mistake of each faulty one and what to do about it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree as ET

import pytest

from ask import ChatRequest, HttpRequest, RawEvent
from ask.plugin_api.provider import MODULE_HOOKS, REQUIRED_HOOKS
from ask.testing import ProviderContract
from ask.testing.samples import CALL_KINDS
from ask.testing.structure_tests import STRUCTURE_TESTS
from tests.faulty_providers import FAULTY_PROVIDERS, Service
from tests.native_provider import INFO, SAMPLES, WHOLE, Wren, make_module

ROOT = Path(__file__).parents[1]


class TestChatCompletions(ProviderContract):
    provider = Service()


class TestNativeProvider(ProviderContract):
    provider = Wren()
    samples = SAMPLES
    whole = WHOLE


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
    whole = WHOLE


class TestModuleWithRequiredHooks(ProviderContract):
    provider = make_module(Wren(), *{*REQUIRED_HOOKS, *MODULE_HOOKS, "provider_parse_error"})
    provider.provider_supports_tools = lambda model: False  # type: ignore[attr-defined]
    samples: ClassVar = {kind: events for kind, events in SAMPLES.items() if kind not in CALL_KINDS}
    whole: ClassVar = {kind: body for kind, body in WHOLE.items() if kind not in CALL_KINDS}


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


def test_a_misspelled_hook_is_one_failure(tmp_path: Path) -> None:
    (messages,) = run_contract(tmp_path, ["MisspelledHook"]).values()
    assert len(messages) == 1
    assert "did you mean provider_parse_error?" in messages[0]


@pytest.mark.slow
def test_missing_samples_are_listed_in_one_failure(tmp_path: Path) -> None:
    (messages,) = run_contract(tmp_path, ["NoTextDeltas"], attributes="samples = whole = {}").values()
    assert len(messages) == 1
    assert all(kind in messages[0] for kind in SAMPLES)


@pytest.mark.slow
def test_unsupported_kinds_need_no_samples(tmp_path: Path) -> None:
    source = "({kind: each[kind] for kind in each.keys() - OMITTED} for each in (SAMPLES, WHOLE))"
    omitted = {"reasoning", "reasoning_and_call", "filter"}
    attributes = f"unsupported = OMITTED = {omitted}\n samples, whole = {source.replace('OMITTED', str(omitted))}"
    (messages,) = run_contract(tmp_path, ["UsageSwapped"], attributes=attributes).values()
    assert len(messages) == 1
    assert "swapped" in messages[0]


def run_contract(
    folder: Path, names: Sequence[str] | dict[str, Any], *, only_expected: bool = False, attributes: str = ""
) -> dict[str, list[str]]:
    """Run the contract on faulty providers; return the messages of the failures for each."""
    lines = [
        "from ask.testing import ProviderContract",
        "from tests.faulty_providers import FAULTY_PROVIDERS",
        "from tests.native_provider import SAMPLES, WHOLE",
    ]
    for name in names:
        is_chat = isinstance(FAULTY_PROVIDERS[name], Service)
        samples = attributes or ("" if is_chat else "samples, whole = SAMPLES, WHOLE")
        lines += [f"class Test{name}(ProviderContract):", f" provider = FAULTY_PROVIDERS[{name!r}]", f" {samples}"]
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
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
