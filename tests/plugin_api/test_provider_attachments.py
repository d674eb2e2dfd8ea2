"""Attachments of third-party providers: supporting them is optional."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ask import Attachment, ChatCompletions
from ask.plugin_api.provider_loading import check_provider
from tests import wire
from tests.faulty_providers import Service
from tests.inputs.test_attachments import asked, files_in
from tests.model_server import ModelServer
from tests.native_provider import make_module
from tests.program import Ask, Home
from tests.sample_files import png
from tests.third_party_plugins import install_provider

KINDS = ("image/png", "image/jpeg", "application/pdf", "audio/mpeg")


def test_a_module_without_the_hook_supports_no_attachments() -> None:
    module = make_module(Service())
    assert check_provider(module, "service", "").supports_attachment("m", "image/png")
    del module.provider_supports_attachment
    assert not check_provider(module, "service", "").supports_attachment("m", "image/png")


def test_services_support_no_attachments_by_default() -> None:
    service = ChatCompletions(name="a", base_url="http://a")
    assert not any(service.provider_supports_attachment("m", kind) for kind in KINDS)


SOURCE = """
from ask import ChatCompletions
provider = ChatCompletions(name="owl", base_url="{url}", needs_key=False, default_model="owl-1"{more})
"""


@pytest.mark.slow_after_first
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
    assert all(word in result.stderr for word in ("owl-1", "images", "photo.png", "text"))


FAILING = """
from ask import ProviderError
def fail(model): raise ProviderError("no idea")
"""
RESULT_HOOK = FAILING + "provider.provider_supports_result_attachment = {}\n"


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("hook", "is_inside"),
    [
        ("", False),
        (RESULT_HOOK.format("lambda media_type: media_type == 'image/png'"), True),
        (RESULT_HOOK.format("lambda: 1 / 0"), False),
        (RESULT_HOOK.format("fail"), False),
    ],
)
def test_a_third_party_provider_gets_files_of_tool_results(
    hook: str, is_inside: bool, ask: Ask, home: Home, server: ModelServer
) -> None:
    """Without a hook, or with one that fails, in a message after the results; with it, in the result."""
    server.reply(wire.calls(("read_file", {"filepath": "photo.png"})), wire.says("Hoo."))
    (ask.cwd / "photo.png").write_bytes(png())
    source = SOURCE.format(url=server.base_url, more=', attachments=("image/png",)') + hook
    packages = install_provider(home.path / "packages", "owl", source)
    result = ask("-p", "owl", "what?", env={"PYTHONPATH": str(packages)})
    assert result.code == 0, result.stderr
    messages = server.requests[-1].json["messages"]
    assert [message["role"] for message in messages[3:]] == (["tool"] if is_inside else ["tool", "user"])
    assert files_in({"messages": messages[-1:]}) == [png()]
    assert result.stderr.count("the plugin owl has a bug: provider_supports_result_attachment") == (
        hook.endswith(("1 / 0\n", "fail\n"))
    )


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


@pytest.mark.slow
@pytest.mark.parametrize("hook", ["lambda: 1 / 0", "lambda media_type: 'png'", "fail"])
def test_a_run_without_files_goes_on_if_the_hook_fails(hook: str, ask: Ask, home: Home, server: ModelServer) -> None:
    """Also one that continues a conversation with a file, and in which a tool returns one: notes replace the files."""
    (ask.cwd / "photo.png").write_bytes(png())
    server.reply(wire.says("A photo."))
    good = SOURCE.format(url=server.base_url, more=', attachments=("image/png",)')
    packages = install_provider(home.path / "packages", "owl", good)
    ask = replace(ask, env={**ask.env, "PYTHONPATH": str(packages)})
    assert ask("-p", "owl", "-f", "photo.png", "what?").code == 0
    (packages / "ask_owl.py").write_text(good + FAILING + f"provider.provider_supports_attachment = {hook}\n")
    server.reply(wire.calls(("read_file", {"filepath": "photo.png"})), wire.says("Hoo."))
    result = ask("-p", "owl", "-c", "and now?")
    assert (result.text, result.code) == ("Hoo.\n", 0), result.stderr
    assert result.stderr.count("the plugin owl has a bug: provider_supports_attachment") == 1
    request = server.requests[-1].json
    assert files_in(request) == []
    assert str(request["messages"]).count("owl-1 does not accept images") == 2


def test_chat_completions_has_a_format_for_every_type() -> None:
    parts = [
        ChatCompletions(name="a", base_url="http://a").format_attachment(Attachment("x", kind, b"1"))["type"]
        for kind in KINDS
    ]
    assert parts == ["image_url", "image_url", "file", "input_audio"]
