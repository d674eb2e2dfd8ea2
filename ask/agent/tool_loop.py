"""The tool loop: ask, run what the model calls, send the results back, until there is an answer.

It knows no command line, no HTTP and no terminal; what it is given does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ask.agent.tool_runner import CallRunner
from ask.client.provider_client import Exchange, Turn
from ask.context_window import Told, Window, no_limit, room, tokens_in, too_long_for, weight_of_tools, without_oldest
from ask.errors import AskError, IncompleteAnswer, Interrupted, LimitReached, ProviderError, Remedy, SafetyError
from ask.events import Asking, Event, MessageAdded, Notice
from ask.messages import NOTHING, Finish, Message, ToolCall, ToolSpec, Usage
from ask.plugin_api.provider import ChatRequest

CORRECTIONS = 2
"""How often a model is asked again for an answer that does not fit."""
CORRECTION = """\
Your answer cannot be used: {problem}

Answer again, with the JSON value that the schema asks for and nothing else."""


def told_cost(usage: Usage) -> float:
    """The cost in US dollars as the provider told it."""
    return usage.cost or 0.0


def no_problem(_: str) -> str:
    """Nothing is wrong with any answer."""
    return ""


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
        cost: what usage costs in US dollars; raises AskError where that cannot be told.
        told: what is known of the conversation's size.
        context_limit: the model's context in tokens, given about how many a request has; None where it is not known.
        cut_advice: what to say to the user when a part of the conversation is left out.
        only_answer: whether to let no tools be called at all.
        schema: the JSON Schema that the answer must fit, of which `system` tells; None for free text.
        problem: what is wrong with an answer, one line; "" for nothing. It is asked for again then.
    """

    model: str
    system: Callable[[Sequence[ToolSpec]], str]
    tools: Sequence[ToolSpec] = ()
    options: Mapping[str, Any] = NOTHING
    stream: bool = True
    max_rounds: int = 10
    max_cost: float | None = None
    cost: Callable[[Usage], float] = told_cost
    told: Told = Told()
    context_limit: Callable[[int], int | None] = no_limit
    cut_advice: str = ""
    only_answer: bool = False
    schema: Mapping[str, Any] | None = None
    problem: Callable[[str], str] = no_problem


class Outcome:
    """What a run came to.

    Attributes:
        messages: the whole conversation, without the system prompt, which is every run's own.
        usage: of all requests together.
        rounds: how many rounds of tool calls there were.
        finish: why the last answer ended; CUT as long as one is waited for.
        corrections: how often an answer was asked for again since it did not fit.
        failure: why the run did not end well; None where it did.
        saved_run: the number of its run in the history; None if it is not saved.
    """

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages
        self.usage = Usage()
        self.rounds = 0
        self.finish = Finish.CUT
        self.corrections = 0
        self.failure: AskError | None = None
        self.saved_run: int | None = None

    @property
    def answered(self) -> bool:
        """Whether the model said anything."""
        return self.messages[-1].role != "user"


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
        self._told_of_cut = False

    def run(self, messages: Sequence[Message], job: Job) -> Outcome:
        """Bring a conversation that ends with the user's message to the model's answer. It does not raise.

        `messages` holds no system prompt.
        """
        outcome = Outcome(list(messages))
        try:
            self._loop(outcome, job, self._offered(job))
        except (KeyboardInterrupt, SystemExit) as ending:  # what a signal raises is not to keep the end from being told
            outcome.failure = Interrupted.by(ending)
        except AskError as failure:
            outcome.failure = failure
        unasked = self._calls.unasked
        if unasked and not isinstance(outcome.failure, Interrupted):
            message = f"a tool call was denied by {unasked.rule}, as there is no terminal"
            outcome.failure = SafetyError(message, unasked.remedy)
        return outcome

    def _offered(self, job: Job) -> Sequence[ToolSpec]:
        """The tools, if the model takes any."""
        provider = self._exchange.provider
        with provider.faults:
            supported = not job.tools or provider.hooks.provider_supports_tools(model=job.model)
        if not supported:
            self._show(Notice(f"{job.model} cannot call tools; asking without"))
        return job.tools if supported else ()

    def _shown(self, messages: Sequence[Message], model: str) -> Sequence[Message]:
        """The messages as this model can be shown them: what it does not take of earlier ones' files is a note."""
        if not any(message.attachments for message in messages):
            return messages
        from ask.attachments import with_notes

        return with_notes(messages, partial(self._exchange.provider.takes, model))

    def _loop(self, outcome: Outcome, job: Job, tools: Sequence[ToolSpec]) -> None:
        system = Message("system", job.system(tools))
        window = Window(tokens_in(system.content) + weight_of_tools(tools))
        window.learn(outcome.messages[: job.told.messages], job.told.tokens)
        while True:
            limit = limit_reached(outcome, job)
            last = limit is not None or job.only_answer or outcome.corrections > 0
            self._fit(window, outcome, job)
            request = ChatRequest(
                model=job.model,
                messages=(system, *self._shown(window.view(outcome.messages), job.model)),
                tools=tools,
                tool_choice="none" if last else "auto",
                options=job.options,
                stream=job.stream,
                schema=job.schema,
            )
            self._show(Asking())
            outcome.finish = Finish.CUT
            turn = self._exchange.ask(request, self._show)
            refused = turn.failure if isinstance(turn.failure, ProviderError) else ProviderError("")
            if less := self._with_less(refused, job, tools):
                return self._loop(outcome, *less)
            silent = not (turn.answer.text or turn.answer.reasoning)
            if refused.remedy is Remedy.SHORTER and silent and (gone := window.halve(outcome.messages)):
                self._show(Notice(f"{refused.brief}; asking once more {without_oldest(gone)}"))
                continue
            outcome.usage += turn.answer.usage
            outcome.finish = turn.answer.finish
            window.learn(outcome.messages, turn.answer.usage.input_tokens)
            self._keep_answer(outcome, turn, () if last else turn.calls)
            if turn.failure is not None:
                raise turn.failure
            done = last or (not turn.calls and turn.answer.finish is not Finish.CONTINUE)
            if done and self._correct(outcome, job):
                continue
            if limit:
                raise limit
            if done:
                return None
            outcome.rounds += 1
            self._carry_out(outcome, turn.calls)

    def _with_less(
        self, refused: ProviderError, job: Job, tools: Sequence[ToolSpec]
    ) -> tuple[Job, Sequence[ToolSpec]] | None:
        """What to ask once more with, where a provider refuses the schema or the tools; None where it does not."""
        if job.schema is not None and refused.remedy is Remedy.WITHOUT_SCHEMA:
            self._show(Notice(f"{refused.brief}; asking once more with the schema in words alone"))
            return job._replace(schema=None), tools
        if tools and refused.remedy is Remedy.WITHOUT_TOOLS:
            self._show(Notice(f"{refused}; asking once more without tools"))
            return job, ()
        return None

    def _correct(self, outcome: Outcome, job: Job) -> bool:
        """Ask for the answer again, if it does not fit; returns whether that is to be done.

        Raises:
            IncompleteAnswer: that was done often enough, or costs too much.
        """
        problem = job.problem(last_said(outcome.messages))
        if not problem:
            return False
        dear = job.max_cost is not None and job.cost(outcome.usage) >= job.max_cost
        if dear or outcome.corrections == CORRECTIONS:
            advice = "ask again, or try another model or a simpler schema"
            raise IncompleteAnswer(f"the answer does not fit the schema ({problem})", advice)
        outcome.corrections += 1
        again = f"asking again ({outcome.corrections} of {CORRECTIONS})"
        self._show(Notice(f"the answer does not fit the schema ({problem}); {again}"))
        self._keep(outcome, MessageAdded(Message("user", CORRECTION.format(problem=problem))))
        return True

    def _fit(self, window: Window, outcome: Outcome, job: Job) -> None:
        """Leave out of requests what the model's context cannot hold; the conversation stays whole."""
        limit = job.context_limit(window.size(outcome.messages))
        gone = window.shrink(outcome.messages, room(limit, job.options)) if limit else 0
        if gone and not self._told_of_cut:
            self._told_of_cut = True
            self._show(Notice(f"{too_long_for(limit)}; going on {without_oldest(gone)}{job.cut_advice}"))

    def _keep_answer(self, outcome: Outcome, turn: Turn, calls: tuple[ToolCall, ...]) -> None:
        answer = turn.answer
        if answer.text or calls or (answer.native and turn.failure is None):
            redacted = tuple(map(self._exchange.redactor.redact_call, calls))
            message = Message("assistant", answer.text, redacted, native=answer.native)
            self._keep(outcome, MessageAdded(message, turn.failure is None, answer))

    def _carry_out(self, outcome: Outcome, calls: Sequence[ToolCall]) -> None:
        """Answer every call, in order.

        Raises:
            Interrupted: the user stopped one; the rest are answered without being run.
        """
        asking = len(outcome.messages) - 1
        for place, call in enumerate(calls):
            finished = self._calls.carry_out(call)
            asked = outcome.messages[asking].tool_calls[place]
            if finished.call.arguments != asked.arguments:  # the user edited the command
                asked = asked._replace(arguments=finished.call.arguments)
                outcome.messages[asking] = replace_call(outcome.messages[asking], place, asked)
            message = Message("tool", finished.result, tool_call_id=asked.id, tool_name=asked.name)
            self._keep(outcome, MessageAdded(message))
        if self._calls.interrupted:
            raise self._calls.interrupted

    def _keep(self, outcome: Outcome, added: MessageAdded) -> None:
        outcome.messages.append(added.message)
        self._show(added)


def replace_call(message: Message, place: int, call: ToolCall) -> Message:
    """Replace one tool call of a message. Its native parts stay as the model wrote and possibly signed them."""
    return message._replace(tool_calls=(*message.tool_calls[:place], call, *message.tool_calls[place + 1 :]))


def last_said(messages: Sequence[Message]) -> str:
    """The text of the last answer, which may have come in several messages."""
    said: list[str] = []
    for message in reversed(messages):
        if message.role != "assistant" or message.tool_calls:
            break
        said.insert(0, message.content)
    return "".join(said)


def limit_reached(outcome: Outcome, job: Job) -> LimitReached | None:
    """The limit that a run has come to, after which only an answer without calls is asked for.

    Raises:
        AskError: it cannot be told what was spent.
    """
    if outcome.rounds >= job.max_rounds:
        return LimitReached(f"stopped after {job.max_rounds} rounds of tool calls", "--max-rounds allows more")
    if job.max_cost is not None and outcome.rounds:
        cost = job.cost(outcome.usage)
        if cost >= job.max_cost:
            return LimitReached(f"stopped at a cost of ${cost:.4f}", "--max-cost allows more")
    return None
