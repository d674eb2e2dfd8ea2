"""The plugin test suite finds mistakes with attachments; supporting them is optional."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ask import Attachment, ChatCompletions, ChatRequest
from ask.plugin_api.loader import check_provider
from ask.testing import ProviderContract
from tests import wire
from tests.inputs.test_attachments import asked, files_in
from tests.model_server import ModelServer
from tests.program import Ask, Home
from tests.sample_files import png
from tests.test_testing import ROOT, Service, as_module, run_pytest
from tests.third_party_plugins import install_provider

KINDS = ("image/png", "image/jpeg", "application/pdf", "audio/mpeg")


class ServiceWithFiles(Service):
    """A service that accepts files, as a base for faulty ones. `broken` is the test that must fail."""

    broken = ""

    def __init__(self) -> None:
        super().__init__()
        self.attachments = frozenset(KINDS)


class TestServiceWithFiles(ProviderContract):
    provider = ServiceWithFiles()


class DropsAttachments(ServiceWithFiles):
    broken = "test_attachment_that_is_taken_is_sent_once_and_whole"

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        return super().build_body(request._replace(messages=[m._replace(attachments=()) for m in request.messages]))


class DropsEarlierAttachments(ServiceWithFiles):
    broken = "test_attachment_that_is_taken_is_sent_once_and_whole"

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        last = len(request.messages) - 1
        kept = [m if i == last else m._replace(attachments=()) for i, m in enumerate(request.messages)]
        return super().build_body(request._replace(messages=kept))


class TruncatesAttachments(ServiceWithFiles):
    broken = "test_attachment_that_is_taken_is_sent_once_and_whole"

    def format_attachment(self, attachment: Attachment) -> dict[str, Any]:
        return super().format_attachment(attachment._replace(data=attachment.data[:-3]))


class ReversesAttachments(ServiceWithFiles):
    broken = "test_several_attachments_stay_in_order"

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        turned = [m._replace(attachments=m.attachments[::-1]) for m in request.messages]
        return super().build_body(request._replace(messages=turned))


class AcceptsEverything(ServiceWithFiles):
    broken = "test_takes_attachment_says_yes_or_no"

    def provider_supports_attachment(self, model: str, media_type: str) -> bool:
        return True


class ReturnsNone(ServiceWithFiles):
    broken = "test_takes_attachment_says_yes_or_no"

    def provider_supports_attachment(self, model: str, media_type: str) -> bool:
        return None  # type: ignore[return-value]


MUTANTS = (
    DropsAttachments,
    DropsEarlierAttachments,
    TruncatesAttachments,
    ReversesAttachments,
    AcceptsEverything,
    ReturnsNone,
)


@pytest.mark.slow
def test_each_broken_provider_fails_the_test_named_for_it(tmp_path: Path) -> None:
    lines = ["from ask.testing import ProviderContract", "from tests import test_testing_attachments as t"]
    lines += [f"class Test{one.__name__}(ProviderContract): provider = t.{one.__name__}()" for one in MUTANTS]
    file = tmp_path / "test_mutants.py"
    file.write_text("\n".join(lines))
    done = run_pytest(*(f"{file}::Test{one.__name__}::{one.broken}" for one in MUTANTS), "--tb=no", "-rf", path=[ROOT])
    failed = set(re.findall(r"^FAILED \S+::Test(\w+)::", done.stdout, re.MULTILINE))
    assert failed == {one.__name__ for one in MUTANTS}, done.stdout


def test_a_module_without_the_hook_supports_no_attachments() -> None:
    module = as_module(ServiceWithFiles())
    assert check_provider(module, "service", "").supports_attachment("m", "image/png")
    del module.provider_supports_attachment
    assert not check_provider(module, "service", "").supports_attachment("m", "image/png")


def test_services_support_no_attachments_by_default() -> None:
    assert not any(Service().provider_supports_attachment("m", kind) for kind in KINDS)


SOURCE = """
from ask import ChatCompletions
provider = ChatCompletions(name="owl", base_url="{url}", needs_key=False, default_model="owl-1"{more})
"""


@pytest.mark.parametrize("more", ["", ', attachments=("image/png",)'])
def test_a_third_party_provider_gets_supported_attachments(
    more: str, ask: Ask, home: Home, server: ModelServer
) -> None:
    server.reply(wire.says("Hoo."))
    (ask.cwd / "photo.png").write_bytes(png())
    packages = install_provider(home.path / "packages", "owl", SOURCE.format(url=server.base_url, more=more))
    ask = replace(ask, env={**ask.env, "PYTHONPATH": str(packages)})
    result = ask("-p", "owl", "-f", "photo.png", "what?")
    if more:
        assert (result.text, result.code) == ("Hoo.\n", 0)
        assert files_in(asked(server)[0]) == [png()]
        return
    assert (result.code, server.requests) == (7, [])
    assert result.stderr.count("\n") == 1
    assert all(word in result.stderr for word in ("owl-1", "PNG", "photo.png", "text"))


def test_a_plugin_whose_hook_fails_is_named(ask: Ask, home: Home, server: ModelServer) -> None:
    (ask.cwd / "photo.png").write_bytes(png())
    source = (
        SOURCE.format(url=server.base_url, more="") + "provider.provider_supports_attachment = lambda model: 1 / 0\n"
    )
    packages = install_provider(home.path / "packages", "owl", source)
    result = ask("-p", "owl", "-f", "photo.png", "what?", env={"PYTHONPATH": str(packages)})
    assert (result.code, server.requests) == (4, [])
    assert result.stderr.count("\n") == 1
    assert "ZeroDivisionError" in result.stderr


def test_chat_completions_has_a_format_for_every_type() -> None:
    parts = [
        ChatCompletions(name="a", base_url="http://a").format_attachment(Attachment("x", kind, b"1"))["type"]
        for kind in KINDS
    ]
    assert parts == ["image_url", "image_url", "file", "input_audio"]
