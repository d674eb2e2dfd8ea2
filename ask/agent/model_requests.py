"""The requests of a run to one model: what they contain, and what is left out of them after refusals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from ask.agent.context_window import (
    ContextWindow,
    calculate_input_limit,
    estimate_text_tokens,
    estimate_tool_tokens,
    format_reduction,
    should_read_listed_limit,
)
from ask.agent.request import RunRequest
from ask.agent.system_prompt import build_system_prompt
from ask.app import AppContext
from ask.client.endpoint import ModelEndpoint
from ask.client.provider_client import TOOL_SEARCH, ProviderClient, RequestResult
from ask.errors import PluginError, ProviderError, RetryAction
from ask.messages import EMPTY_MAPPING, Attachment, Message, ProviderState, ReportedUsage, ToolSpec, Usage
from ask.plugin_api.types import ChatRequest
from ask.tools.definitions import describe_for_model

if TYPE_CHECKING:
    from ask.client.stated_limits import StatedLimit

MAX_SHORTER_REQUESTS = 2
"""How often a request that was refused as too long is sent again with less."""
REFUSED_FILE_REASON = "left out, because the service refused a request with it"


class ModelRequests:
    """Builds the requests of a run to one model.

    Args:
        request: the request of the run.
        app: the user's installation.
        endpoint: the model.
        client: sends the requests.
        messages: the conversation, which grows during the run.
        question_index: the index of the question in it.
        reported_usage: the known size of its beginning.
        system_prompt: the complete system prompt of a conversation that is never shortened; None to build one.
        notify: called with notices for the user.

    Attributes:
        tools: the tools that the next request offers.
        tagged_answers: the text and provider state of answers with reasoning in tags, by their position in the
            conversation. Only this model's next requests contain that reasoning: models that reason between tool calls
            need it there, and vendors ask to leave it out of later questions. See
            https://github.com/MiniMax-AI/MiniMax-M2 and https://huggingface.co/Qwen/QwQ-32B#usage-guidelines.
    """

    def __init__(
        self,
        request: RunRequest,
        app: AppContext,
        endpoint: ModelEndpoint,
        client: ProviderClient,
        *,
        messages: list[Message],
        question_index: int,
        reported_usage: ReportedUsage,
        system_prompt: str | None,
        notify: Callable[[str], None],
    ) -> None:
        self._request = request
        self._app = app
        self.endpoint = endpoint
        self.client = client
        self._messages = messages
        self._question_index = question_index
        self._reported_usage = reported_usage
        self._system_prompt = system_prompt
        self._notify = notify
        self.tagged_answers: dict[int, tuple[str, ProviderState | None]] = {}
        schema = request.response_schema
        is_refused = client.adjustments is not None and client.adjustments.is_schema_refused
        self._schema = schema.value if schema and not is_refused else None
        """None also once the provider has rejected it; then only the system prompt contains it."""
        self._dropped_positions: set[int] = set()
        """The positions of messages without whose files a refused request is sent again."""
        self._listed_limits: list[int | None] = []
        """The model's context limit according to the provider's list, once that was read."""
        self._stated_limit: int | None = None
        """The context limit that the service stated when it refused a request."""
        self._refusal_count = 0
        """How often requests were refused as too long since the last answer."""
        self._accepted_count = 0
        """How many messages the conversation had when the model last answered."""
        self._truncation_reported = False
        self._file_check_failed = False
        """Whether the user was told that the provider's hook for types of files failed."""
        self.tools: Sequence[ToolSpec] = ()
        self._system_message = Message("system")
        self._context_window = ContextWindow(0)
        self._accepts_file = cache(self._check_file_type)
        self._server_tools: list[str] = []
        tools = self._describe_tools()
        if tools and not client.provider.supports_tools(endpoint.model):
            notify(f"{endpoint.model} cannot call tools; continuing without them")
            tools = []
        self._offer_tools(tools)

    def _describe_tools(self) -> list[ToolSpec]:
        """Return the tools of the run that can be offered together with the service's own."""
        request, endpoint = self._request, self.endpoint
        if not request.settings.server_tools:
            return [describe_for_model(tool.spec, self._accepts_file) for tool in request.tools]
        from ask.tools.server_tools import defer_tool, get_server_tools, limit_tools

        server_tools = self._server_tools = get_server_tools(request.settings)
        can_be_combined = endpoint.provider.find_profile(endpoint.model).server_tools_with_tools is not False
        tools = limit_tools(
            request.tools, server_tools, can_be_combined=can_be_combined, model=endpoint.model, notify=self._notify
        )
        specs = [describe_for_model(tool.spec, self._accepts_file) for tool in tools]
        return list(map(defer_tool, tools, specs)) if TOOL_SEARCH in server_tools else specs

    def _offer_tools(self, tools: Sequence[ToolSpec]) -> None:
        """Offer these tools in the following requests. The system prompt lists them too."""
        self.tools = tools
        request = self._request
        system_prompt = self._system_prompt
        if system_prompt is None:
            system_prompt = build_system_prompt(request, self._app.environment, tools)
        self._system_message = Message("system", system_prompt)
        overhead_tokens = estimate_text_tokens(self._system_message.content) + estimate_tool_tokens(tools)
        self._context_window = ContextWindow(overhead_tokens)
        reported = self._reported_usage
        self._context_window.calibrate(self._list_sent_messages()[: reported.message_count], reported.tokens)

    def build_request(self, tool_choice: Literal["auto", "none"]) -> ChatRequest:
        """Build the next request, with as much of the conversation as the model's context has room for."""
        if self._system_prompt is None:
            self._truncate_context()
        settings = self._request.settings
        return ChatRequest(
            model=self.endpoint.model,
            messages=(self._system_message, *self._select_messages()),
            tool_choice=tool_choice,
            options=settings.options,
            stream=settings.stream,
            schema=self._schema,
            conversation_id=self._request.conversation_id if self.endpoint.is_own_url else "",
            show_reasoning=settings.verbose,
            is_own_url=self.endpoint.is_own_url,
            server_tools=dict.fromkeys(self._server_tools, EMPTY_MAPPING),
        )

    def handle_answer(self, usage: Usage) -> None:
        """Correct the estimated size of requests after one was answered."""
        self._refusal_count, self._accepted_count = 0, len(self._messages)
        self._context_window.calibrate(self._list_sent_messages(), usage.input_tokens)

    def mark_refused_files(self) -> tuple[str, ...]:
        """Remember which files the service refused, now that it has answered without them; return their digests.

        Files whose content it accepted at another place are not returned: there were only too many.
        """
        if not self._dropped_positions:
            return ()
        question_index, name = self._question_index, self.endpoint.full_name
        sent = [each for position, each in enumerate(self._list_sent_messages()) if position != question_index]
        accepted = {file.digest for message in sent for file in message.attachments}
        digests: list[str] = []
        for position in sorted(self._dropped_positions):
            message = self._messages[position]
            digests += [file.digest for file in message.attachments if name not in file.refused_by]
            marked = (file._replace(refused_by=(*file.refused_by, name)) for file in message.attachments)
            self._messages[position] = message._replace(attachments=tuple(marked))
        self._dropped_positions.clear()
        return tuple(digest for digest in dict.fromkeys(digests) if digest not in accepted)

    def _select_messages(self) -> list[Message]:
        """Return the part of the conversation that the next request contains."""
        return self._context_window.select_messages(self._list_sent_messages())

    def _check_file_type(self, media_type: str) -> bool:
        """Check whether the model accepts a type of file. It does not if the provider's hook fails.

        The run goes on without such files: the user attached none, as those of the question were checked before.
        """
        try:
            return self.client.provider.supports_attachment(self.endpoint.model, media_type)
        except PluginError as error:
            if not self._file_check_failed:
                self._file_check_failed = True
                self._notify(f"{error.summary}; continuing without the types of files for which it fails")
            return False

    def _truncate_context(self) -> None:
        """Leave messages out of requests if they exceed the lowest of the limits that are known."""
        window, settings, messages = self._context_window, self._request.settings, self._list_sent_messages()
        num_ctx = settings.options.get("num_ctx")  # Ollama's and LM Studio's option
        documented = self.endpoint.provider.find_profile(self.endpoint.model).context_length
        values = (settings.context_limit, num_ctx, self._stated_limit, None if self._listed_limits else documented)
        limits = [limit for limit in values if isinstance(limit, int) and limit > 0]
        is_unknown = not self._listed_limits and self._stated_limit is None
        is_continued = bool(self._request.message_history)
        if is_unknown and should_read_listed_limit(window.estimate_size(messages), limits, is_continued=is_continued):
            from ask.client.models_list import read_listed_limit

            self._listed_limits = [read_listed_limit(self.endpoint, self._app.app_dirs.cache, settings)]
        limits += filter(None, self._listed_limits)
        if not limits:
            return
        notice = window.fit(messages, min(limits), settings.options, is_saved=settings.save)
        if notice and not self._truncation_reported:
            self._truncation_reported = True
            self._notify(notice)

    def adapt_request(self, error: ProviderError, response: RequestResult) -> bool:
        """Drop from the next request what the provider rejected; return whether it should be sent."""
        if self._schema is not None and error.retry_action is RetryAction.WITHOUT_SCHEMA:
            self.client.get_adjustments().leave_out_schema(error)
            self._schema = None
            return True
        if response.answer.text or response.answer.reasoning:
            return False
        if self.tools and error.retry_action is RetryAction.WITHOUT_TOOLS:
            self._notify(f"{error}; trying once more without tools")
            self._offer_tools(())
            return True
        return self._reduce_request(error)

    def _reduce_request(self, error: ProviderError) -> bool:
        """Drop or shorten messages and tools that exceed a limit; return whether the request should be sent."""
        from ask.client.stated_limits import find_stated_limit

        if error.retry_action is RetryAction.WITHOUT_REASONING:
            return self._drop_reasoning(error)
        limit = find_stated_limit(error)
        if limit is not None and limit.kind == "tools":
            return self._drop_tools(error, limit.limit)
        if error.retry_action is not RetryAction.SHORTER:
            return self._drop_earlier_files(error, limit.limit if limit and limit.kind == "images" else 0)
        is_size = error.status == 413 and (limit is None or limit.kind == "bytes")
        return (is_size and self._drop_earlier_files(error)) or self._shorten_conversation(error, limit)

    def _shorten_conversation(self, error: ProviderError, limit: StatedLimit | None) -> bool:
        """Leave messages out, and shorten results, after a request was refused as too long.

        It is done twice in a row at most. Returns whether the next request is shorter.
        """
        window, messages = self._context_window, self._list_sent_messages()
        self._refusal_count += 1
        if self._refusal_count > MAX_SHORTER_REQUESTS:
            return False
        removed_count, shortened_count, hint = 0, window.shortened_count, ""
        if limit is not None and limit.kind != "bytes":
            window.calibrate(messages, limit.input or limit.requested)
        size_before = window.estimate_size(messages)
        if limit is not None and limit.kind != "bytes":
            input_limit = calculate_input_limit(limit.limit, self._request.settings.options)
            removed_count = window.shrink(messages, input_limit)
            self._stated_limit = min(limit.limit, self._stated_limit or limit.limit)
            hint = f" (context_limit = {self._stated_limit} in config.toml avoids this)"
        if not removed_count and window.shortened_count == shortened_count:
            removed_count = window.halve(messages)
        reduction = format_reduction(removed_count, max(window.shortened_count - shortened_count, 0))
        if reduction:
            self._notify(f"{error.summary}; trying once more {reduction}{hint}")
            return True
        if window.estimate_size(messages) < size_before:  # results that were already shortened
            return True
        error.hint = f"what cannot be left out has about {size_before:,} tokens: {error.hint}"
        return False

    def _drop_tools(self, error: ProviderError, limit: int) -> bool:
        """Offer only as many tools as a service accepts; return whether there are more."""
        if len(self.tools) <= limit:
            return False
        left_out = len(self.tools) - limit
        hint = "tools.disabled in config.toml chooses which"
        self._notify(f"{error.summary}; trying once more without the last {left_out} of the tools ({hint})")
        self._offer_tools(self.tools[:limit])
        return True

    def _drop_reasoning(self, error: ProviderError) -> bool:
        """Drop the reasoning of earlier answers from this run's messages; return whether there was any."""
        messages, service = self._messages, self.client.provider.info.name
        states = [message.provider_state for message in self._select_messages() if message.provider_state]
        # "openai:responses" is of openai; what is of another service was not sent.
        if not (self.tagged_answers or any(state.provider.partition(":")[0] == service for state in states)):
            return False
        endpoint = self.endpoint
        setting = f"efforts = [] for {endpoint.model} in [[providers.{endpoint.provider_name}.models]]"
        self._notify(f"{error.summary}; trying once more without earlier reasoning ({setting} always leaves it out)")
        messages[:] = [message._replace(provider_state=None) for message in messages]
        self.tagged_answers = {}
        return True

    def _drop_earlier_files(self, error: ProviderError, limit: int = 0) -> bool:
        """Drop the files of messages other than the question; return whether there were any.

        Another model may have accepted them, or a tool returned them. If the results since the last answer have files
        and the request was not too large, only those are dropped, because the model has answered with the others. With
        a `limit` on the number of files, the newest messages keep theirs.
        """
        from ask.client.error_classification import is_message_refused

        messages, question_index = self._messages, self._question_index
        if not any(message.attachments for message in messages) or not is_message_refused(error):
            return False
        sent_files = {id(file) for message in self._select_messages() for file in message.attachments}
        has_limit = limit > 0 or error.retry_action is RetryAction.SHORTER
        for start in (0,) if has_limit else dict.fromkeys((self._accepted_count, 0)):
            file_count, dropped = len(messages[question_index].attachments), set()
            for position in reversed(range(start, len(messages))):
                files = messages[position].attachments if position != question_index else ()
                count = sum(id(file) in sent_files for file in files)
                file_count += count
                if count and file_count > limit:
                    dropped.add(position)
            if dropped:
                self._dropped_positions |= dropped
                place = "the last results" if start else "earlier messages and results"
                self._notify(f"{error.summary}; trying once more without the files of {place}")
                return True
        return False  # the request did not contain them, for example because it was shortened

    def _list_sent_messages(self) -> list[Message]:
        """Return the conversation as requests contain it.

        Answers of this run have their reasoning in the text. Files that the model does not accept are left out, and
        those with which its service refused a request.
        """
        messages = [*self._messages]
        for position, (text, provider_state) in self.tagged_answers.items():
            messages[position] = messages[position]._replace(content=text, provider_state=provider_state)
        if any(map(attrgetter("attachments"), messages)):
            from ask.attachments import replace_attachments, replace_unsupported_attachments

            for position, message in enumerate(messages):
                if position != self._question_index:
                    messages[position] = replace_attachments(message, partial(self._explain_refusal, position))
            messages = replace_unsupported_attachments(messages, self.endpoint.model, self._accepts_file)
        return messages

    def _explain_refusal(self, position: int, file: Attachment) -> str:
        """Return why requests do not contain a file; "" if they do."""
        is_refused = position in self._dropped_positions or self.endpoint.full_name in file.refused_by
        return REFUSED_FILE_REASON if is_refused else ""
