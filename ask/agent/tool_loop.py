"""The tool loop: ask, run what the model calls, send the results back, until there is an answer.

It knows no command line, no HTTP and no terminal; what it is given does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ask.agent.tool_runner import ToolRunner
from ask.client.provider_client import ProviderClient, RequestResult
from ask.context_window import (
    ContextWindow,
    ReportedUsage,
    calculate_input_limit,
    estimate_text_tokens,
    estimate_tool_tokens,
    format_removed_messages,
    format_too_long,
    no_context_limit,
)
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
from ask.messages import EMPTY_MAPPING, Finish, Message, ToolCall, ToolSpec, Usage
from ask.plugin_api.provider import ChatRequest

MAX_CORRECTIONS = 2
"""How often a model is asked again for an answer that does not fit."""
CORRECTION_PROMPT = """\
Your answer cannot be used: {problem}

Answer again, with the JSON value that the schema asks for and nothing else."""


def get_reported_cost(usage: Usage) -> float:
    """The cost in US dollars as the provider told it."""
    return usage.cost or 0.0


def skip_validation(_: str) -> str:
    """Nothing is wrong with any answer."""
    return ""


class RunParameters(NamedTuple):
    """What is the same for all requests of a run.

    Attributes:
        model: the model to ask.
        build_system_prompt: writes the system prompt, for the tools that are really offered.
        tools: the tools to offer.
        options: model parameters.
        stream: whether to stream.
        max_rounds: how many rounds of tool calls there may be.
        max_cost: US dollars after which there are no more rounds; None for no limit.
        calculate_cost: what usage costs in US dollars; raises AskError where that cannot be told.
        reported_usage: what is known of the conversation's size.
        find_context_limit: the model's context in tokens, given about how many a request has; None where it is not known.
        truncation_hint: what to say to the user when a part of the conversation is left out.
        tool_calls_disabled: whether to let no tools be called at all.
        schema: the JSON Schema that the answer must fit, of which `build_system_prompt` tells; None for free text.
        validate_answer: what is wrong with an answer, one line; "" for nothing. It is asked for again then.
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
    """What a run came to.

    Attributes:
        messages: the whole conversation, without the system prompt, which is every run's own.
        usage: of all requests together.
        rounds: how many rounds of tool calls there were.
        finish_reason: why the last answer ended; CUT as long as one is waited for.
        corrections: how often an answer was asked for again since it did not fit.
        error: why the run did not end well; None where it did.
        saved_run_number: the number of its run in the history; None if it is not saved.
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
        """Whether the model said anything."""
        return self.messages[-1].role != "user"


class Agent:
    """Runs conversations.

    Args:
        exchange: asks the model.
        calls: carries out tool calls.
        show: takes the events.
    """

    def __init__(self, client: ProviderClient, tool_runner: ToolRunner, on_event: Callable[[Event], None]) -> None:
        self._client = client
        self._tool_runner = tool_runner
        self._on_event = on_event
        self._truncation_reported = False

    def run(self, messages: Sequence[Message], parameters: RunParameters) -> RunResult:
        """Bring a conversation that ends with the user's message to the model's answer. It does not raise.

        `messages` holds no system prompt.
        """
        outcome = RunResult(list(messages))
        try:
            self._run_loop(outcome, parameters, self._select_tools(parameters))
        except (KeyboardInterrupt, SystemExit) as ending:  # what a signal raises is not to keep the end from being told
            outcome.error = RunInterruptedError.from_exception(ending)
        except AskError as failure:
            outcome.error = failure
        unasked = self._tool_runner.unattended_denial
        if unasked and not isinstance(outcome.error, RunInterruptedError):
            message = f"a tool call was denied by {unasked.rule}, as there is no terminal"
            outcome.error = SafetyError(message, unasked.hint)
        return outcome

    def _select_tools(self, parameters: RunParameters) -> Sequence[ToolSpec]:
        """The tools, if the model takes any."""
        provider = self._client.provider
        with provider.call_guard:
            supported = not parameters.tools or provider.hooks.provider_supports_tools(model=parameters.model)
        if not supported:
            self._on_event(Notice(f"{parameters.model} cannot call tools; asking without"))
        return parameters.tools if supported else ()

    def _replace_unsupported_attachments(self, messages: Sequence[Message], model: str) -> Sequence[Message]:
        """The messages as this model can be shown them: what it does not take of earlier ones' files is a note."""
        if not any(message.attachments for message in messages):
            return messages
        from ask.attachments import replace_unsupported_attachments

        return replace_unsupported_attachments(messages, partial(self._client.provider.supports_attachment, model))

    def _run_loop(self, result: RunResult, parameters: RunParameters, tools: Sequence[ToolSpec]) -> None:
        system = Message("system", parameters.build_system_prompt(tools))
        window = ContextWindow(estimate_text_tokens(system.content) + estimate_tool_tokens(tools))
        window.calibrate(result.messages[: parameters.reported_usage.message_count], parameters.reported_usage.tokens)
        while True:
            limit = find_reached_limit(result, parameters)
            last = limit is not None or parameters.tool_calls_disabled or result.corrections > 0
            self._truncate_context(window, result, parameters)
            request = ChatRequest(
                model=parameters.model,
                messages=(
                    system,
                    *self._replace_unsupported_attachments(window.select_messages(result.messages), parameters.model),
                ),
                tools=tools,
                tool_choice="none" if last else "auto",
                options=parameters.options,
                stream=parameters.stream,
                schema=parameters.schema,
            )
            self._on_event(RequestStarted())
            result.finish_reason = Finish.CUT
            turn = self._client.send(request, self._on_event)
            refused = turn.error if isinstance(turn.error, ProviderError) else ProviderError("")
            if less := self._find_fallback(refused, parameters, tools):
                return self._run_loop(result, *less)
            silent = not (turn.answer.text or turn.answer.reasoning)
            if refused.remedy is Remedy.SHORTER and silent and (gone := window.halve(result.messages)):
                self._on_event(Notice(f"{refused.brief}; asking once more {format_removed_messages(gone)}"))
                continue
            result.usage += turn.answer.usage
            result.finish_reason = turn.answer.finish
            window.calibrate(result.messages, turn.answer.usage.input_tokens)
            self._add_answer(result, turn, () if last else turn.tool_calls)
            if turn.error is not None:
                raise turn.error
            done = last or (not turn.tool_calls and turn.answer.finish is not Finish.CONTINUE)
            if done and self._request_correction(result, parameters):
                continue
            if limit:
                raise limit
            if done:
                return None
            result.rounds += 1
            self._execute_calls(result, turn.tool_calls)

    def _find_fallback(
        self, error: ProviderError, parameters: RunParameters, tools: Sequence[ToolSpec]
    ) -> tuple[RunParameters, Sequence[ToolSpec]] | None:
        """What to ask once more with, where a provider refuses the schema or the tools; None where it does not."""
        if parameters.schema is not None and error.remedy is Remedy.WITHOUT_SCHEMA:
            self._on_event(Notice(f"{error.brief}; asking once more with the schema in words alone"))
            return parameters._replace(schema=None), tools
        if tools and error.remedy is Remedy.WITHOUT_TOOLS:
            self._on_event(Notice(f"{error}; asking once more without tools"))
            return parameters, ()
        return None

    def _request_correction(self, result: RunResult, parameters: RunParameters) -> bool:
        """Ask for the answer again, if it does not fit; returns whether that is to be done.

        Raises:
            IncompleteAnswer: that was done often enough, or costs too much.
        """
        problem = parameters.validate_answer(get_last_answer(result.messages))
        if not problem:
            return False
        dear = parameters.max_cost is not None and parameters.calculate_cost(result.usage) >= parameters.max_cost
        if dear or result.corrections == MAX_CORRECTIONS:
            advice = "ask again, or try another model or a simpler schema"
            raise IncompleteResponseError(f"the answer does not fit the schema ({problem})", advice)
        result.corrections += 1
        again = f"asking again ({result.corrections} of {MAX_CORRECTIONS})"
        self._on_event(Notice(f"the answer does not fit the schema ({problem}); {again}"))
        self._add_message(result, MessageAdded(Message("user", CORRECTION_PROMPT.format(problem=problem))))
        return True

    def _truncate_context(self, context_window: ContextWindow, result: RunResult, parameters: RunParameters) -> None:
        """Leave out of requests what the model's context cannot hold; the conversation stays whole."""
        limit = parameters.find_context_limit(context_window.estimate_size(result.messages))
        gone = context_window.shrink(result.messages, calculate_input_limit(limit, parameters.options)) if limit else 0
        if gone and not self._truncation_reported:
            self._truncation_reported = True
            self._on_event(
                Notice(
                    f"{format_too_long(limit)}; going on {format_removed_messages(gone)}{parameters.truncation_hint}"
                )
            )

    def _add_answer(self, result: RunResult, request_result: RequestResult, tool_calls: tuple[ToolCall, ...]) -> None:
        answer = request_result.answer
        if answer.text or tool_calls or (answer.native and request_result.error is None):
            redacted = tuple(map(self._client.redactor.redact_call, tool_calls))
            message = Message("assistant", answer.text, redacted, native=answer.native)
            self._add_message(result, MessageAdded(message, request_result.error is None, answer))

    def _execute_calls(self, result: RunResult, tool_calls: Sequence[ToolCall]) -> None:
        """Answer every call, in order.

        Raises:
            Interrupted: the user stopped one; the rest are answered without being run.
        """
        asking = len(result.messages) - 1
        for place, call in enumerate(tool_calls):
            finished = self._tool_runner.execute(call)
            asked = result.messages[asking].tool_calls[place]
            if finished.call.arguments != asked.arguments:  # the user edited the command
                asked = asked._replace(arguments=finished.call.arguments)
                result.messages[asking] = replace_tool_call(result.messages[asking], place, asked)
            message = Message("tool", finished.result, tool_call_id=asked.id, tool_name=asked.name)
            self._add_message(result, MessageAdded(message))
        if self._tool_runner.interruption:
            raise self._tool_runner.interruption

    def _add_message(self, result: RunResult, event: MessageAdded) -> None:
        result.messages.append(event.message)
        self._on_event(event)


def replace_tool_call(message: Message, index: int, tool_call: ToolCall) -> Message:
    """Replace one tool call of a message. Its native parts stay as the model wrote and possibly signed them."""
    return message._replace(tool_calls=(*message.tool_calls[:index], tool_call, *message.tool_calls[index + 1 :]))


def get_last_answer(messages: Sequence[Message]) -> str:
    """The text of the last answer, which may have come in several messages."""
    said: list[str] = []
    for message in reversed(messages):
        if message.role != "assistant" or message.tool_calls:
            break
        said.insert(0, message.content)
    return "".join(said)


def find_reached_limit(result: RunResult, parameters: RunParameters) -> LimitReachedError | None:
    """The limit that a run has come to, after which only an answer without calls is asked for.

    Raises:
        AskError: it cannot be told what was spent.
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
