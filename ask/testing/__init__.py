"""Pytest suites that check plugins: `ProviderContract`, `ToolContract`, `LoaderContract` and `CommandContract`.

    from ask.testing import ProviderContract
    from ask_groq import provider as groq

    class TestGroq(ProviderContract):
        provider = groq

Only the provider's hooks are called, so the tests need no network, API key or setup. Subclasses of `ChatCompletions`
and `Responses` are also tested with sample answers; other providers supply their own in `samples` and
`unstreamed_samples`.
"""

from __future__ import annotations

from pkgutil import iter_modules

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))

from ask.testing.base import UntestedWarning  # noqa: E402 - imported after the registration
from ask.testing.changed_answer_tests import ChangedAnswerTests  # noqa: E402
from ask.testing.command_contract import CommandContract  # noqa: E402
from ask.testing.decision_tests import DecisionTests  # noqa: E402
from ask.testing.failure_tests import FailureTests  # noqa: E402
from ask.testing.isolation_tests import IsolationTests  # noqa: E402
from ask.testing.loader_contract import LoaderContract  # noqa: E402
from ask.testing.samples import (  # noqa: E402
    CHAT_COMPLETIONS_SAMPLES,
    CHAT_COMPLETIONS_UNSTREAMED,
    DECISION_QUESTIONS,
    EXPECTED,
    EXPECTED_DECISIONS,
    RESPONSES_SAMPLES,
    RESPONSES_UNSTREAMED,
    ExpectedAnswer,
)
from ask.testing.stream_tests import StreamTests  # noqa: E402
from ask.testing.structure_tests import StructureTests  # noqa: E402
from ask.testing.tool_contract import ToolContract  # noqa: E402
from ask.tools.plugins.functions import create_tool  # noqa: E402

__all__ = [
    "CHAT_COMPLETIONS_SAMPLES",
    "CHAT_COMPLETIONS_UNSTREAMED",
    "DECISION_QUESTIONS",
    "EXPECTED",
    "EXPECTED_DECISIONS",
    "RESPONSES_SAMPLES",
    "RESPONSES_UNSTREAMED",
    "CommandContract",
    "ExpectedAnswer",
    "LoaderContract",
    "ProviderContract",
    "ToolContract",
    "UntestedWarning",
    "create_tool",
]


class ProviderContract(FailureTests, StreamTests, ChangedAnswerTests, DecisionTests, IsolationTests, StructureTests):
    """The complete test suite. Subclass it under a name that begins with `Test`, and set `provider`.

    Among other things, it checks that

    - the API key is in the headers and nowhere else;
    - the results of `provider_format_tools` and `provider_format_tool_result` are in the body;
    - every tool result is sent once, after its call, even if the call's arguments were invalid JSON;
    - attachments are sent once, in Base64 and with their type, and stay in later requests;
    - texts, tool names and arguments are neither changed nor dropped, in requests and in answers;
    - hooks change no arguments and keep nothing between calls, in several threads, too;
    - `complete`, `size` and `response()` of the stream reader are right between any two events;
    - a finish reason that the provider does not know is reported;
    - provider state from another provider or model family is not sent;
    - the same conversation always produces the same bytes, and a longer conversation starts with the bytes of the
      shorter one, so that services can cache it;
    - every error body results in a one-line message; 429 and 503 are retried after `Retry-After`, 400 and 401 are not;
    - no response makes a hook raise anything but an `ask.AskError`.

    Both samples of a kind must parse to the same answer, usage and provider state. A provider without tools needs no
    samples with calls.

    Attributes:
        provider: the object that the entry point names: an instance of `ask.Provider`, or a module with the hooks.
        samples: streamed answers by kind, with the content that `EXPECTED` defines for each kind. The default, None,
            uses the built-in samples for subclasses of `ChatCompletions` and `Responses`, and no samples for other
            providers. If the service continues answers, the samples "length" and "cut" have its token.
        unstreamed_samples: the same answers by kind, with the same text, calls and usage, as returned without
            streaming; of the kind "error" only the error. For kinds that it lacks, the suite uses what the stream
            reader's `response()` returned, and pytest's warnings show it as Python code. Compare it with the service's
            documentation; if the service sends the same without streaming, confirm it by pasting it into the test
            class. A provider with `provider_send` needs none.
        models: the JSON of a models list. The default, None, uses one in the formats of most services.
        model: the model to test with; by default the provider's default model. Choose one that accepts tools and
            images, if there is one: what it does not accept is not tested, as an `UntestedWarning` says.
        decision_model: a model that has the decisions API of `provider_decisions`; "" for a provider without one.
        decision_response: a response of that API to `DECISION_QUESTIONS`, with the answers `EXPECTED_DECISIONS`.
        unsupported: what the service does not have: kinds of samples, "usage", "schema", "cached" (cached tokens),
            "tools", "images", "attachments" or "reasoning_history" (reasoning sent back in later requests).
    """
