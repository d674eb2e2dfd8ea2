"""The hooks that a provider plugin implements, each with when it runs and what it returns.

An implementation is any attribute whose name begins with `provider_`, on an instance of `ask.Provider`
or in a module; a module must have every hook but `provider_adapter` and `provider_takes_attachment`. All
hooks but `provider_adapter` are pure: no I/O, no waiting, no printing. An exception other than an
`ask.AskError` counts as a fault of the plugin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pluggy

from ask.messages import Answer, ToolCall, ToolSpec
from ask.plugin_api.provider import ChatRequest, HttpRequest, ModelInfo, ProviderInfo, StreamReader

if TYPE_CHECKING:
    from requests.adapters import BaseAdapter

    from ask.errors import ProviderError

PROJECT_NAME = "ask"

hookspec = pluggy.HookspecMarker(PROJECT_NAME)
hookimpl = pluggy.HookimplMarker(PROJECT_NAME)


class ProviderHooks:
    """Every provider hook. Calls are by keyword, and reach the chosen provider alone."""

    @hookspec(firstresult=True)
    def provider_info(self) -> ProviderInfo:  # type: ignore[empty-body]
        """Who the provider is. Runs at any time, also just to list providers."""

    @hookspec(firstresult=True)
    def provider_adapter(self) -> BaseAdapter | None:
        """A `requests` adapter that answers for the base URL. Runs once a run, before the first request.

        For a provider that lives inside the process; None, the default, goes over the network.
        """

    @hookspec(firstresult=True)
    def provider_supports_tools(self, model: str) -> bool:  # type: ignore[empty-body]
        """Whether to send tools to this model. Runs before a request that would carry them."""

    @hookspec(firstresult=True)
    def provider_takes_attachment(self, model: str, media_type: str) -> bool:  # type: ignore[empty-body]
        """Whether a message to this model may hold a file of that MIME type. False is the default.

        Runs before a request whose messages hold such files, and to tell the user what may be attached. False only
        where it is known that it may not: the user is told then before anything is sent, and what was attached
        earlier in the conversation stands there as a note. So `provider_build_request` meets in
        `Message.attachments` only what was said yes to, in messages of the user's.
        """

    @hookspec(firstresult=True)
    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:  # type: ignore[empty-body]
        """The provider's own tools array. Runs inside `provider_build_request`."""

    @hookspec(firstresult=True)
    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:  # type: ignore[empty-body]
        """The calls in a whole answer, in the model's order, under ids that differ.

        Runs after the answer is there. Invents ids where the provider sends none. Arguments are passed on
        as the model wrote them, also where they are not valid JSON.
        """

    @hookspec(firstresult=True)
    def provider_format_tool_result(  # type: ignore[empty-body]
        self, tool_call_id: str, tool_name: str, result: str
    ) -> dict[str, Any]:
        """The provider's own message or block for a result. Runs inside `provider_build_request`, once each."""

    @hookspec(firstresult=True)
    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:  # type: ignore[empty-body]
        """The HTTP request, authentication headers included. Runs once a round, and again for a retry.

        The same messages must give the same bytes, cache markers apart: providers cache by prefix.
        """

    @hookspec(firstresult=True)
    def provider_stream_reader(self) -> StreamReader:  # type: ignore[empty-body]
        """A fresh reader. Runs before each streamed answer."""

    @hookspec(firstresult=True)
    def provider_parse_response(self, response: Mapping[str, Any]) -> Answer:  # type: ignore[empty-body]
        """The answer in a whole response, or in what a stream's reader gathered. Runs once for each answer.

        Raises `ask.ProviderError` (best by way of `provider_parse_error`) where the response is or holds an
        error, with what was said before it as the error's `answer`.
        """

    @hookspec(firstresult=True)
    def provider_parse_error(  # type: ignore[empty-body]
        self, status: int, headers: Mapping[str, str], body: str
    ) -> ProviderError:
        """The error in an HTTP answer of 400 and up, with its remedy. Returned, not raised.

        Runs once for each such answer, and for one of 200 that cannot be read, such as a page of HTML.
        """

    @hookspec(firstresult=True)
    def provider_notice(self, request: ChatRequest, answer: Answer) -> str:  # type: ignore[empty-body]
        """What the user should know about an answer though it is no error, one line; "", the default, for nothing.

        Runs after each answer, also one that was empty.
        """

    @hookspec(firstresult=True)
    def provider_models_request(self, key: str) -> HttpRequest | None:
        """The request for the models list, or None, the default, where there is none. Runs for `ask models`."""

    @hookspec(firstresult=True)
    def provider_parse_models(self, body: Any) -> list[ModelInfo]:  # type: ignore[empty-body]
        """The models in the answer to that request; `body` is its parsed JSON. Runs for `ask models`."""
