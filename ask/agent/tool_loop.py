"""The tool loop: send a request, run the tools that the model calls, send their results, until there is an answer.

It is independent of the command line, HTTP and the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ask.agent.context_window import (
    ContextWindow,
    calculate_input_limit,
    estimate_text_tokens,
    estimate_tool_tokens,
    format_removed_messages,
    format_too_long,
    no_context_limit,
)
from ask.agent.tool_runner import ToolRunner
from ask.client.provider_client import ProviderClient, RequestResult
from ask.errors import (
    AskError,
    IncompleteResponseError,
    LimitReachedError,
    ProviderError,
    Remedy,
    RunInterruptedError,
    SafetyError,
)
from ask.events import Event, MessageAdded, Notice, RequestStarted
from ask.messages import EMPTY_MAPPING, Finish, Message, ReportedUsage, ToolCall, ToolSpec, Usage
from ask.plugin_api.provider import ChatRequest

MAX_CORRECTIONS = 2
"""How often the model is asked to correct an answer that does not match the schema."""
CORRECTION_PROMPT = """\
Your answer cannot be used: {problem}

Answer again, with the JSON value that the schema asks for and nothing else."""


def get_reported_cost(usage: Usage) -> float:
    """Return the cost in US dollars as reported by the provider."""
    return usage.cost or 0.0


def skip_validation(_: str) -> str:
    """Accept any answer."""
    return ""


class RunParameters(NamedTuple):
    """The parameters that are the same for all requests of a run.

    Attributes:
        model: the model to ask.
        build_system_prompt: builds the system prompt for the tools that are actually offered.
        tools: the tools to offer.
        options: model options.
        stream: whether to stream.
        max_rounds: the maximum number of tool rounds.
        max_cost: the cost in US dollars after which there are no more rounds; None for no limit.
        calculate_cost: returns the cost of usage in US dollars; raises AskError if it is unknown.
        reported_usage: the known size of the conversation.
        find_context_limit: returns the model's context limit for an estimated request size, both in tokens; None if it
            is unknown.
        truncation_hint: what to tell the user when a part of the conversation is left out.
        tool_calls_disabled: whether tool calls are forbidden in all requests.
        schema: the JSON Schema of the answer, which the system prompt includes too; None for free text.
        validate_answer: returns why an answer must be corrected, on one line; "" if it is valid.
    """

    model: str
    build_system_prompt: Callable[[Sequence[ToolSpec]], str]
    tools: Sequence[ToolSpec] = ()
    options: Mapping[str, Any] = EMPTY_MAPPING
    stream: bool = True
    max_rounds: int = 10
    max_cost: float | None = None
    calculate_cost: Callable[[Usage], float] = get_reported_cost
    reported_usage: ReportedUsage = ReportedUsage()
    find_context_limit: Callable[[int], int | None] = no_context_limit
    truncation_hint: str = ""
    tool_calls_disabled: bool = False
    schema: Mapping[str, Any] | None = None
    validate_answer: Callable[[str], str] = skip_validation


class RunResult:
    """The result of a run.

    Attributes:
        messages: the complete conversation, without the system prompt.
        usage: the usage of all requests.
        rounds: the number of tool rounds.
        finish_reason: why the last response ended; CUT while one is incomplete.
        corrections: how often the model was asked to correct an answer that does not match the schema.
        error: why the run failed; None if it succeeded.
        saved_run_number: the number of the run in the history; None if it is not saved.
    """

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages
        self.usage = Usage()
        self.rounds = 0
        self.finish_reason = Finish.CUT
        self.corrections = 0
        self.error: AskError | None = None
        self.saved_run_number: int | None = None

    @property
    def has_answer(self) -> bool:
        """Whether the model has answered."""
        return self.messages[-1].role != "user"


class Agent:
    """Runs the tool loop of conversations."""

    def __init__(self, client: ProviderClient, tool_runner: ToolRunner, on_event: Callable[[Event], None]) -> None:
        self._client = client
        self._tool_runner = tool_runner
        self._on_event = on_event
        self._truncation_reported = False

    def run(self, messages: Sequence[Message], parameters: RunParameters) -> RunResult:
        """Answer the last user message of a conversation without a system prompt.

        Errors are in the result: nothing is raised.
        """
        result = RunResult(list(messages))
        try:
            self._run_loop(result, parameters, self._select_tools(parameters))
        except (KeyboardInterrupt, SystemExit) as error:
            # A signal must not prevent the end of the run from being reported.
            result.error = RunInterruptedError.from_exception(error)
        except AskError as error:
            result.error = error
        denial = self._tool_runner.unattended_denial
        if denial and not isinstance(result.error, RunInterruptedError):
            message = f"a tool call was denied by {denial.rule}, as there is no terminal"
            result.error = SafetyError(message, denial.hint)
        return result

    def _select_tools(self, parameters: RunParameters) -> Sequence[ToolSpec]:
        """Return the tools, or () if the model does not support tools."""
        provider = self._client.provider
        with provider.call_guard:
            supported = not parameters.tools or provider.hooks.provider_supports_tools(model=parameters.model)
        if not supported:
            self._on_event(Notice(f"{parameters.model} cannot call tools; asking without"))
        return parameters.tools if supported else ()

    def _replace_unsupported_attachments(self, messages: Sequence[Message], model: str) -> Sequence[Message]:
        """Replace attachments of earlier messages that this model does not support."""
        if not any(message.attachments for message in messages):
            return messages
        from ask.attachments import replace_unsupported_attachments

        return replace_unsupported_attachments(messages, partial(self._client.provider.supports_attachment, model))

    def _run_loop(self, result: RunResult, parameters: RunParameters, tools: Sequence[ToolSpec]) -> None:
        system = Message("system", parameters.build_system_prompt(tools))
        context_window = ContextWindow(estimate_text_tokens(system.content) + estimate_tool_tokens(tools))
        context_window.calibrate(
            result.messages[: parameters.reported_usage.message_count], parameters.reported_usage.tokens
        )
        while True:
            limit = find_reached_limit(result, parameters)
            is_final = limit is not None or parameters.tool_calls_disabled or result.corrections > 0
            self._truncate_context(context_window, result, parameters)
            request = ChatRequest(
                model=parameters.model,
                messages=(
                    system,
                    *self._replace_unsupported_attachments(
                        context_window.select_messages(result.messages), parameters.model
                    ),
                ),
                tools=tools,
                tool_choice="none" if is_final else "auto",
                options=parameters.options,
                stream=parameters.stream,
                schema=parameters.schema,
            )
            self._on_event(RequestStarted())
            result.finish_reason = Finish.CUT
            response = self._client.send(request, self._on_event)
            provider_error = response.error if isinstance(response.error, ProviderError) else ProviderError("")
            if fallback := self._find_fallback(provider_error, parameters, tools):
                return self._run_loop(result, *fallback)
            is_empty = not (response.answer.text or response.answer.reasoning)
            is_too_long = provider_error.remedy is Remedy.SHORTER
            if is_too_long and is_empty and (removed := context_window.halve(result.messages)):
                removal = format_removed_messages(removed)
                self._on_event(Notice(f"{provider_error.brief}; asking once more {removal}"))
                continue
            result.usage += response.answer.usage
            result.finish_reason = response.answer.finish
            context_window.calibrate(result.messages, response.answer.usage.input_tokens)
            self._add_answer(result, response, () if is_final else response.tool_calls)
            if response.error is not None:
                raise response.error
            is_done = is_final or (not response.tool_calls and response.answer.finish is not Finish.CONTINUE)
            if is_done and self._request_correction(result, parameters):
                continue
            if limit:
                raise limit
            if is_done:
                return None
            result.rounds += 1
            self._execute_calls(result, response.tool_calls)

    def _find_fallback(
        self, error: ProviderError, parameters: RunParameters, tools: Sequence[ToolSpec]
    ) -> tuple[RunParameters, Sequence[ToolSpec]] | None:
        """Return what to retry with if a provider rejects the schema or the tools. Otherwise return None."""
        if parameters.schema is not None and error.remedy is Remedy.WITHOUT_SCHEMA:
            self._on_event(Notice(f"{error.brief}; asking once more with the schema in words alone"))
            return parameters._replace(schema=None), tools
        if tools and error.remedy is Remedy.WITHOUT_TOOLS:
            self._on_event(Notice(f"{error}; asking once more without tools"))
            return parameters, ()
        return None

    def _request_correction(self, result: RunResult, parameters: RunParameters) -> bool:
        """Add a request to correct the answer if it is invalid; return whether it is.

        Raises:
            IncompleteResponseError: there were enough corrections, or the cost limit is reached.
        """
        problem = parameters.validate_answer(get_last_answer(result.messages))
        if not problem:
            return False
        is_over_budget = (
            parameters.max_cost is not None and parameters.calculate_cost(result.usage) >= parameters.max_cost
        )
        if is_over_budget or result.corrections == MAX_CORRECTIONS:
            advice = "ask again, or try another model or a simpler schema"
            raise IncompleteResponseError(f"the answer does not fit the schema ({problem})", advice)
        result.corrections += 1
        progress = f"asking again ({result.corrections} of {MAX_CORRECTIONS})"
        self._on_event(Notice(f"the answer does not fit the schema ({problem}); {progress}"))
        self._add_message(result, MessageAdded(Message("user", CORRECTION_PROMPT.format(problem=problem))))
        return True

    def _truncate_context(self, context_window: ContextWindow, result: RunResult, parameters: RunParameters) -> None:
        """Leave messages out of requests if they exceed the model's context."""
        limit = parameters.find_context_limit(context_window.estimate_size(result.messages))
        if not limit:
            return
        removed_count = context_window.shrink(result.messages, calculate_input_limit(limit, parameters.options))
        if removed_count and not self._truncation_reported:
            self._truncation_reported = True
            removal = format_removed_messages(removed_count)
            self._on_event(Notice(f"{format_too_long(limit)}; going on {removal}{parameters.truncation_hint}"))

    def _add_answer(self, result: RunResult, request_result: RequestResult, tool_calls: tuple[ToolCall, ...]) -> None:
        answer = request_result.answer
        if answer.text or tool_calls or (answer.native and request_result.error is None):
            redacted = tuple(map(self._client.redactor.redact_call, tool_calls))
            message = Message("assistant", answer.text, redacted, native=answer.native)
            self._add_message(result, MessageAdded(message, request_result.error is None, answer))

    def _execute_calls(self, result: RunResult, tool_calls: Sequence[ToolCall]) -> None:
        """Execute tool calls in order and add their results.

        Raises:
            RunInterruptedError: the user interrupted one; the others get results without being run.
        """
        answer_index = len(result.messages) - 1
        for call_index, call in enumerate(tool_calls):
            finished = self._tool_runner.execute(call)
            recorded_call = result.messages[answer_index].tool_calls[call_index]
            if finished.call.arguments != recorded_call.arguments:  # the user edited the command
                recorded_call = recorded_call._replace(arguments=finished.call.arguments)
                result.messages[answer_index] = replace_tool_call(
                    result.messages[answer_index], call_index, recorded_call
                )
            message = Message("tool", finished.result, tool_call_id=recorded_call.id, tool_name=recorded_call.name)
            self._add_message(result, MessageAdded(message))
        if self._tool_runner.interruption:
            raise self._tool_runner.interruption

    def _add_message(self, result: RunResult, event: MessageAdded) -> None:
        result.messages.append(event.message)
        self._on_event(event)


def replace_tool_call(message: Message, index: int, tool_call: ToolCall) -> Message:
    """Replace one tool call of a message. Its native parts stay unchanged, since the model may have signed them."""
    return message._replace(tool_calls=(*message.tool_calls[:index], tool_call, *message.tool_calls[index + 1 :]))


def get_last_answer(messages: Sequence[Message]) -> str:
    """Return the text of the last answer, which may consist of several messages."""
    parts: list[str] = []
    for message in reversed(messages):
        if message.role != "assistant" or message.tool_calls:
            break
        parts.insert(0, message.content)
    return "".join(parts)


def find_reached_limit(result: RunResult, parameters: RunParameters) -> LimitReachedError | None:
    """Return the limit that a run has reached, if any.

    The model may then only answer, without calling tools.

    Raises:
        AskError: the cost is unknown.
    """
    if result.rounds >= parameters.max_rounds:
        return LimitReachedError(
            f"stopped after {parameters.max_rounds} rounds of tool calls", "--max-rounds allows more"
        )
    if parameters.max_cost is not None and result.rounds:
        cost = parameters.calculate_cost(result.usage)
        if cost >= parameters.max_cost:
            return LimitReachedError(f"stopped at a cost of ${cost:.4f}", "--max-cost allows more")
    return None
