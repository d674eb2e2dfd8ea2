"""One prompt answered by several models at once; a judge that names the best answer, or one answer made from all."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from operator import itemgetter
from queue import SimpleQueue

from ask.agent.request import RunRequest, check_attachments_supported
from ask.agent.run import run_request
from ask.agent.system_prompt import read_prompt
from ask.app import AppContext
from ask.client.cost import Cost
from ask.client.endpoint import ModelEndpoint
from ask.errors import AskError, RunInterruptedError, to_ask_error
from ask.events import Event, MessageAdded
from ask.messages import EMPTY_MAPPING, Citation, DecisionAnswer, DecisionQuestion, Usage
from ask.records import NamedTuple
from ask.schemas.decision_questions import make_object_schema
from ask.schemas.schema import ResponseSchema
from ask.text import format_block


class ModelAnswer(NamedTuple):
    """The answer of one model.

    Attributes:
        endpoint: the model.
        text: the answer, incomplete if there is an error.
        usage: the tokens.
        cost: the cost, reported or estimated.
        seconds: the time from the request to the end of the answer.
        error: why the model did not answer; None if it did.
        citations: the sources of the answer.
    """

    endpoint: ModelEndpoint
    text: str
    usage: Usage
    cost: Cost
    seconds: float
    error: AskError | None
    citations: tuple[Citation, ...] = ()

    def check(self) -> None:
        """Raise the error, with the name of the model, if there is one."""
        if self.error:
            self.error.message = f"{self.endpoint.full_name}: {self.error.message}"
            raise self.error


NumberedEvent = tuple[int, Event | ModelAnswer]
"""An event of one of several models, with the position of the model; the last one of each is its answer."""


def ask_models(requests: Sequence[RunRequest], app: AppContext) -> Generator[list[NumberedEvent]]:
    """Send all requests at once and yield events as they arrive, several at a time if they arrive together.

    Closing the iterator cancels the requests that are not answered yet.
    """
    events: SimpleQueue[NumberedEvent] = SimpleQueue()
    is_canceled = threading.Event()

    def run(number: int) -> None:
        def on_event(event: Event) -> None:
            if is_canceled.is_set():
                raise RunInterruptedError("canceled")
            events.put((number, event))

        events.put((number, ask_model(requests[number], app, on_event)))

    for number in range(len(requests)):
        threading.Thread(target=run, args=(number,), daemon=True).start()
    pending = len(requests)
    try:
        while pending:
            batch = [events.get()]
            while not events.empty():
                batch.append(events.get())
            pending -= sum(isinstance(event, ModelAnswer) for _, event in batch)
            yield batch
    finally:
        is_canceled.set()


def ask_model(request: RunRequest, app: AppContext, on_event: Callable[[Event], None]) -> ModelAnswer:
    """Answer a request; errors are in the result."""
    start = time.monotonic()
    text, usage, cost, error = "", Usage(), Cost(), None
    citations: tuple[Citation, ...] = ()
    try:
        check_attachments_supported(request.user_message.attachments, request.endpoint)
        result = run_request(request, app, on_event)
        text, usage, error = result.answer, result.usage, result.error
        cost, citations = result.cost, result.citations
    except Exception as exception:  # noqa: BLE001 - the other models still answer
        error = to_ask_error(exception)
        error.redact(request.secrets.redact)
    return ModelAnswer(request.endpoint, text, usage, cost, time.monotonic() - start, error, citations)


def judge_answers(
    request: RunRequest, answers: Sequence[ModelAnswer], app: AppContext, on_event: Callable[[Event], None]
) -> tuple[ModelAnswer, ModelAnswer]:
    """Have a model name the best of several answers; return that, and the judge's own, whose text is the reason.

    It sees the answers without names and in random order.

    Args:
        request: the question, with the judge as its endpoint.
        answers: the answers, at least two.
        app: the user's installation.
        on_event: receives the events of the request.

    Raises:
        AskError: the judge did not answer.
    """
    can_decide = bool(request.endpoint.provider.find_profile(request.endpoint.model).decisions)
    shuffled = random.SystemRandom().sample(answers, len(answers))
    labeled = {f"#{number}": answer for number, answer in enumerate(shuffled, start=1)}
    if can_decide:
        return _decide_best(request, labeled, app, on_event)
    properties = {"reason": {"type": "string"}, "best": {"type": "string", "enum": [*labeled]}}
    schema = ResponseSchema(make_object_schema(properties))
    judge_request = _quote_answers(request, ("judge", "judge_reason"), labeled)
    judge_request = judge_request._replace(output_format="schema", response_schema=schema)
    response = ask_model(judge_request, app, on_event)
    response.check()
    verdict = json.loads(schema.extract_json(response.text))

    def name_model(match: re.Match[str]) -> str:
        return labeled[match[0]].endpoint.full_name if match[0] in labeled else match[0]

    return labeled[verdict["best"]], response._replace(text=re.sub(r"#\d+", name_model, verdict["reason"]))


def _decide_best(
    request: RunRequest, labeled: Mapping[str, ModelAnswer], app: AppContext, on_event: Callable[[Event], None]
) -> tuple[ModelAnswer, ModelAnswer]:
    """Have a decisions API choose the best answer; the reason is its probability.

    Raises:
        AskError: the judge did not answer.
    """
    question = DecisionQuestion("best", "choice", (*labeled,), read_prompt("judge"))
    # The options of the configuration are for text.
    settings = request.settings._replace(options=EMPTY_MAPPING, stream=False)
    judge_request = _quote_answers(request, (), labeled)._replace(settings=settings, questions=(question,))
    decisions: list[DecisionAnswer] = []

    def collect_decisions(event: Event) -> None:
        if isinstance(event, MessageAdded) and event.answer:
            decisions.extend(event.answer.decisions)
        on_event(event)

    response = ask_model(judge_request, app, collect_decisions)
    response.check()
    [decision] = decisions
    named = zip((answer.endpoint.full_name for answer in labeled.values()), decision.probabilities, strict=False)
    ranked = sorted(named, key=itemgetter(1), reverse=True)
    text = ", ".join(f"{name} {probability:.2f}" for name, probability in ranked)
    return labeled[str(decision.value)], response._replace(text=text and f"Probability of being the best: {text}.")


def combine_answers(request: RunRequest, answers: Sequence[ModelAnswer]) -> RunRequest:
    """Return the request for one answer that is made from several, with the model that writes it as its endpoint."""
    return _quote_answers(
        request, ("combine",), {f"#{number}": answer for number, answer in enumerate(answers, start=1)}
    )


def _quote_answers(request: RunRequest, prompt_names: Sequence[str], labeled: Mapping[str, ModelAnswer]) -> RunRequest:
    """Return a request with instructions, the question of `request`, and the answers to it."""
    blocks = [*map(read_prompt, prompt_names), format_block("question", request.user_message.content, "")]
    blocks += [format_block("answer", answer.text, f' label="{label}"') for label, answer in labeled.items()]
    return request._replace(user_message=request.user_message._replace(content="\n\n".join(blocks)))
