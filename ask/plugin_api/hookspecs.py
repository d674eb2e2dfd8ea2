"""The hooks that a provider plugin implements: what each returns and when it runs.

An implementation is any callable attribute of an instance of `ask.Provider`, or of a module, whose name begins with
`provider_`. A module must define every hook except `provider_send` and `provider_takes_attachment`. All hooks except
`provider_send` must be pure: no I/O, no waiting, no printing. Any exception other than an `ask.AskError` is
reported as a bug in the plugin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pluggy

from ask.messages import Answer, ToolCall, ToolSpec
from ask.plugin_api.provider import ChatRequest, HttpRequest, ModelInfo, ProviderInfo, ServerEvent, StreamReader

if TYPE_CHECKING:
    from ask.errors import ProviderError

PROJECT_NAME = "ask"

hookspec = pluggy.HookspecMarker(PROJECT_NAME)
hookimpl = pluggy.HookimplMarker(PROJECT_NAME)


class ProviderHooks:
    """The specification of every provider hook. Hooks are called with keywords, and only on the selected provider."""

    @hookspec(firstresult=True)
    def provider_info(self) -> ProviderInfo:  # type: ignore[empty-body]
        """Return the provider's description. Runs at any time, also to list providers."""

    @hookspec(firstresult=True)
    def provider_supports_tools(self, model: str) -> bool:  # type: ignore[empty-body]
        """Check whether the model accepts tools.

        Runs before a request that would contain them.
        """

    @hookspec(firstresult=True)
    def provider_takes_attachment(self, model: str, media_type: str) -> bool:  # type: ignore[empty-body]
        """Check whether a message to this model may contain a file of this MIME type.

        Runs before a request whose messages contain such files, and to list what the user can attach. The default is
        False. Return False only if the type is known to be unsupported: the user then gets an error before anything is
        sent, and files attached earlier in the conversation are replaced by a note. So `provider_build_request` finds
        only accepted types in `Message.attachments`, and only in messages with the role "user".
        """

    @hookspec(firstresult=True)
    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:  # type: ignore[empty-body]
        """Return the tools array in the provider's own format.

        Runs inside `provider_build_request`.
        """

    @hookspec(firstresult=True)
    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:  # type: ignore[empty-body]
        """Return the tool calls in a response, in the model's order and with unique ids.

        Runs after `provider_parse_response`. Must generate ids if the provider sends none. Arguments are returned
        exactly as the model wrote them, even if they are not valid JSON.
        """

    @hookspec(firstresult=True)
    def provider_format_tool_result(  # type: ignore[empty-body]
        self, tool_call_id: str, tool_name: str, result: str
    ) -> dict[str, Any]:
        """Return a tool result in the provider's own format.

        Runs inside `provider_build_request`, once per result.
        """

    @hookspec(firstresult=True)
    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:  # type: ignore[empty-body]
        """Return the HTTP request, including authentication headers.

        Runs once per tool round, and again for a retry. The same messages must produce the same bytes, except for
        cache markers, because providers cache by prefix.
        """

    @hookspec(firstresult=True)
    def provider_send(self, request: HttpRequest, timeout: float) -> Iterator[ServerEvent] | None:
        """Send a request without HTTP, and yield the events of the answer as they arrive.

        For a provider that runs a program, calls an SDK or answers by itself. Runs after `provider_build_request` in
        place of ask's own transport, also for the models list, whose JSON is the data of the events. ask interrupts an
        event that takes longer than `timeout` seconds, and closes the iterator when the run is interrupted. A
        `FileNotFoundError` means that a program is not installed. The default, None, sends requests over HTTP.
        """

    @hookspec(firstresult=True)
    def provider_stream_reader(self) -> StreamReader:  # type: ignore[empty-body]
        """Return a new stream reader. Runs before each streamed answer is read."""

    @hookspec(firstresult=True)
    def provider_parse_response(self, response: Mapping[str, Any]) -> Answer:  # type: ignore[empty-body]
        """Parse the answer in a response, or in what `StreamReader.response` returned.

        Runs once per answer. Raises `ask.ProviderError`, preferably made by `provider_parse_error`, if the response is
        or contains an error. Any text that came before the error belongs in the error's `answer`.
        """

    @hookspec(firstresult=True)
    def provider_parse_error(  # type: ignore[empty-body]
        self, status: int, headers: Mapping[str, str], body: str
    ) -> ProviderError:
        """Return (do not raise) the error for an HTTP response, with its remedy.

        Runs for each response with an error status, and for a response with status 200 that cannot be parsed, such
        as an HTML page.
        """

    @hookspec(firstresult=True)
    def provider_notice(self, request: ChatRequest, answer: Answer) -> str:  # type: ignore[empty-body]
        """Return a one-line notice for the user about an answer; "" for none.

        Runs after each answer, even an empty one. It reports what is not an error. The default is "".
        """

    @hookspec(firstresult=True)
    def provider_models_request(self, key: str) -> HttpRequest | None:
        """Return the request for the models list; None, the default, if there is none.

        Runs whenever ask needs the list: for `ask models`, `ask doctor`, or to choose a model.
        """

    @hookspec(firstresult=True)
    def provider_parse_models(self, body: Any) -> list[ModelInfo]:  # type: ignore[empty-body]
        """Parse the response to the models request; `body` is its JSON.

        Runs once for each such response.
        """
