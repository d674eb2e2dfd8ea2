# ruff: noqa: S101 - the contract is checked by assertions
"""A pytest suite that checks a provider plugin against the provider contract.

    from ask.testing import ProviderContract
    from ask_groq import provider as groq

    class TestGroq(ProviderContract):
        provider = groq

Only the provider's hooks are called, so the tests need no network, API key or setup. Subclasses of `ChatCompletions`
and `Responses` are also tested with sample answers; other providers supply their own in `samples` and `whole`.
"""

from __future__ import annotations

import re
from types import ModuleType

from ask import Provider
from ask.testing.answer_tests import AnswerTests
from ask.testing.base import MODULE_HOOKS, REQUIRED_HOOKS, defines_hook, list_hook_names, list_host_arguments
from ask.testing.failure_tests import FailureTests
from ask.testing.request_tests import RequestTests
from ask.testing.responses_samples import RESPONSES_SAMPLES, RESPONSES_WHOLE
from ask.testing.samples import CHAT_COMPLETIONS_SAMPLES, CHAT_COMPLETIONS_WHOLE, EXPECTED, Expected
from ask.tools.plugins.functions import create_tool

__all__ = [
    "CHAT_COMPLETIONS_SAMPLES",
    "CHAT_COMPLETIONS_WHOLE",
    "EXPECTED",
    "RESPONSES_SAMPLES",
    "RESPONSES_WHOLE",
    "Expected",
    "ProviderContract",
    "create_tool",
]


class ProviderContract(RequestTests, AnswerTests, FailureTests):
    """The complete test suite. Subclass it under a name that begins with `Test`, and set `provider`.

    Attributes:
        provider: the object that the entry point names: an instance of `ask.Provider`, or a module with the hooks.
        samples: streamed answers by kind, with the content that `EXPECTED` defines for each kind. The default, None,
            uses the built-in samples for subclasses of `ChatCompletions` and `Responses`, and no samples for other
            providers.
        whole: the same answers by kind, with the same text, calls and usage, as returned without streaming.
    """

    def test_provider_is_an_instance_or_a_module(self) -> None:
        assert not isinstance(self.provider, type), "the entry point names an instance, not its class"
        assert isinstance(self.provider, Provider | ModuleType), "the entry point names an ask.Provider or a module"

    def test_every_required_hook_exists_and_takes_what_the_host_passes(self) -> None:
        required = REQUIRED_HOOKS + MODULE_HOOKS if isinstance(self.provider, ModuleType) else REQUIRED_HOOKS
        missing = [hook for hook in required if not defines_hook(self.provider, hook)]
        assert not missing, f"these hooks are missing: {missing}"
        for hook in list_hook_names():
            function = getattr(self.provider, hook, None)
            if function is None:
                continue
            assert callable(function), f"{hook} is not callable"
            known = list_host_arguments(getattr(Provider, hook))
            assert set(list_host_arguments(function)) <= set(known), f"{hook} can take {known} and nothing else"

    def test_no_hook_is_misspelt(self) -> None:
        names = {name for name in dir(self.provider) if name.startswith("provider_")}
        unknown = {name for name in names if callable(getattr(self.provider, name))} - set(list_hook_names())
        assert not unknown, f"there are no such hooks: {sorted(unknown)}"

    def test_info_is_complete_and_sane(self) -> None:
        info = self.info
        assert re.fullmatch(r"[a-z][a-z0-9_-]*", info.name), f"name: {info.name!r}"
        assert info.title.strip(), "title is what people call the service"
        has_own_transport = not info.base_url and defines_hook(self.provider, "provider_send")
        is_url = re.fullmatch(r"https?://[^\s?#]*[^\s?#/]", info.base_url)
        assert is_url or has_own_transport, f"base_url: {info.base_url!r}"
        assert info.stream_format in ("sse", "ndjson"), f"framing: {info.stream_format!r}"
        assert isinstance(info.key_env, tuple), "key_env is a tuple of names"
        for variable in info.key_env:
            assert re.fullmatch(r"[A-Z][A-Z0-9_]*", variable), f"key_env: {variable!r}"
        assert info == self.info, "provider_info says the same each time"
