"""Pytest suites that check plugins: `ProviderContract` for providers, and `ToolContract` for tools.

    from ask.testing import ProviderContract
    from ask_groq import provider as groq

    class TestGroq(ProviderContract):
        provider = groq

Only the provider's hooks are called, so the tests need no network, API key or setup. Subclasses of `ChatCompletions`
and `Responses` are also tested with sample answers; other providers supply their own in `samples` and `whole`.
"""

from __future__ import annotations

from pkgutil import iter_modules

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))

from ask.testing.answer_tests import AnswerTests  # noqa: E402 - imported after the registration
from ask.testing.failure_tests import FailureTests  # noqa: E402
from ask.testing.request_tests import RequestTests  # noqa: E402
from ask.testing.samples import (  # noqa: E402
    CHAT_COMPLETIONS_SAMPLES,
    CHAT_COMPLETIONS_WHOLE,
    EXPECTED,
    RESPONSES_SAMPLES,
    RESPONSES_WHOLE,
    Expected,
)
from ask.testing.structure_tests import StructureTests  # noqa: E402
from ask.testing.tool_contract import ToolContract  # noqa: E402
from ask.tools.plugins.functions import create_tool  # noqa: E402

__all__ = [
    "CHAT_COMPLETIONS_SAMPLES",
    "CHAT_COMPLETIONS_WHOLE",
    "EXPECTED",
    "RESPONSES_SAMPLES",
    "RESPONSES_WHOLE",
    "Expected",
    "ProviderContract",
    "ToolContract",
    "create_tool",
]


class ProviderContract(FailureTests, AnswerTests, RequestTests, StructureTests):
    """The complete test suite. Subclass it under a name that begins with `Test`, and set `provider`.

    Attributes:
        provider: the object that the entry point names: an instance of `ask.Provider`, or a module with the hooks.
        samples: streamed answers by kind, with the content that `EXPECTED` defines for each kind. The default, None,
            uses the built-in samples for subclasses of `ChatCompletions` and `Responses`, and no samples for other
            providers.
        whole: the same answers by kind, with the same text, calls and usage, as returned without streaming. A provider
            with `provider_send` needs none.
        models: the JSON of a models list. The default, None, uses one in the formats of most services.
        unsupported: what the service does not have: kinds of samples, "usage" or "schema".
    """
