"""The tool loop: ask, run what the model calls, send the results back, until there is an answer.

It knows no command line, no HTTP and no terminal; what it is given does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ask.calls import CallRunner
from ask.errors import AskError, Interrupted, LimitReached, ProviderError, Remedy, SafetyError
from ask.events import Event, MessageAdded, Notice
from ask.exchange import Exchange, Turn
from ask.messages import NOTHING, Finish, Message, ToolCall, ToolSpec, Usage
from ask.provider import ChatRequest


def told_cost(usage: Usage) -> float:
    """The cost in US dollars as the provider told it."""
    return usage.cost or 0.0


class Job(NamedTuple):
    """What is the same for all requests of a run.

    Attributes:
        model: the model to ask.
        system: writes the system prompt, for the tools that are really offered.
        tools: the tools to offer.
        options: model parameters.
        stream: whether to stream.
        max_rounds: how many rounds of tool calls there may be.
        max_cost: US dollars after which there are no more rounds; None for no limit.
        cost: what usage costs in US dollars.
    """

    model: str
    system: Callable[[Sequence[ToolSpec]], str]
    tools: Sequence[ToolSpec] = ()
    options: Mapping[str, Any] = NOTHING
    stream: bool = True
    max_rounds: int = 10
    max_cost: float | None = None
    cost: Callable[[Usage], float] = told_cost


@dataclass
class Outcome:
    """What a run came to.

    Attributes:
        messages: the whole conversation, without the system prompt, which is every run's own.
        usage: of all requests together.
        rounds: how many rounds of tool calls there were.
        finish: why the last answer ended.
        failure: why the run did not end well; None where it did.
    """

    messages: list[Message]
    usage: Usage = field(default_factory=Usage)
    rounds: int = 0
    finish: Finish = Finish.STOP
    failure: AskError | None = None


class Agent:
    """Runs conversations.

    Args:
        exchange: asks the model.
        calls: carries out tool calls.
        show: takes the events.
    """

    def __init__(self, exchange: Exchange, calls: CallRunner, show: Callable[[Event], None]) -> None:
        self._exchange = exchange
        self._calls = calls
        self._show = show

    def run(self, messages: Sequence[Message], job: Job) -> Outcome:
        """Bring a conversation that ends with the user's message to the model's answer. It does not raise.

        `messages` holds no system prompt.
        """
        outcome = Outcome(list(messages))
        try:
            self._loop(outcome, job, self._offered(job))
        except KeyboardInterrupt:
            outcome.failure = Interrupted("interrupted")
        except AskError as failure:
            outcome.failure = failure
        if self._calls.nobody_to_ask and not isinstance(outcome.failure, Interrupted):
            outcome.failure = SafetyError("a tool call was denied by --confirm, as there is no terminal", "use --yes")
        return outcome

    def _offered(self, job: Job) -> Sequence[ToolSpec]:
        """The tools, if the model takes any."""
        provider = self._exchange.provider
        with provider.faults:
            supported = not job.tools or provider.hooks.provider_supports_tools(model=job.model)
        if not supported:
            self._show(Notice(f"{job.model} cannot call tools; asking without"))
        return job.tools if supported else ()

    def _loop(self, outcome: Outcome, job: Job, tools: Sequence[ToolSpec]) -> None:
        system = Message("system", job.system(tools))
        while True:
            limit = limit_reached(outcome, job)
            request = ChatRequest(
                model=job.model,
                messages=(system, *outcome.messages),
                tools=tools,
                tool_choice="none" if limit else "auto",
                options=job.options,
                stream=job.stream,
            )
            turn = self._exchange.ask(request, self._show)
            if tools and isinstance(turn.failure, ProviderError) and turn.failure.remedy is Remedy.WITHOUT_TOOLS:
                self._show(Notice(f"{turn.failure}; asking once more without tools"))
                return self._loop(outcome, job, ())
            outcome.usage += turn.answer.usage
            outcome.finish = turn.answer.finish
            self._keep_answer(outcome, turn, () if limit else turn.calls)
            if turn.failure is not None:
                raise turn.failure
            if limit:
                raise limit
            if not turn.calls and turn.answer.finish is not Finish.CONTINUE:
                return None
            outcome.rounds += 1
            self._carry_out(outcome, turn.calls)

    def _keep_answer(self, outcome: Outcome, turn: Turn, calls: tuple[ToolCall, ...]) -> None:
        answer = turn.answer
        if answer.text or calls or (answer.native and turn.failure is None):
            message = Message("assistant", answer.text, calls, native=answer.native)
            self._keep(outcome, message, whole=turn.failure is None)

    def _carry_out(self, outcome: Outcome, calls: Sequence[ToolCall]) -> None:
        """Answer every call, in order.

        Raises:
            Interrupted: the user stopped one; the rest are answered without being run.
        """
        for call in calls:
            result = self._calls.carry_out(call)
            self._keep(outcome, Message("tool", result, tool_call_id=call.id, tool_name=call.name))
        if self._calls.interrupted:
            raise Interrupted("interrupted")

    def _keep(self, outcome: Outcome, message: Message, *, whole: bool = True) -> None:
        outcome.messages.append(message)
        self._show(MessageAdded(message, whole))


def limit_reached(outcome: Outcome, job: Job) -> LimitReached | None:
    """The limit that a run has come to, after which only an answer without calls is asked for."""
    if outcome.rounds >= job.max_rounds:
        return LimitReached(f"stopped after {job.max_rounds} rounds of tool calls", "--max-rounds allows more")
    cost = job.cost(outcome.usage)
    if job.max_cost is not None and outcome.rounds and cost >= job.max_cost:
        return LimitReached(f"stopped at a cost of ${cost:.4f}", "--max-cost allows more")
    return None
