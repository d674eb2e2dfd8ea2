"""The tool loop: send a request, run the tools that the model calls, send their results, until there is an answer.

It is independent of the command line and the terminal: questions to the user are asked by a callback.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING

from ask.agent.model_requests import ModelRequests
from ask.agent.provider_selection import check_decision_model
from ask.agent.request import RunRequest, check_attachments_supported
from ask.agent.system_prompt import build_system_prompt, read_prompt
from ask.app import AppContext
from ask.client.answers import discard_delta
from ask.client.endpoint import ModelEndpoint, create_client, fetch_first_model
from ask.client.provider_client import ProviderClient, RequestResult
from ask.client.reasoning_tags import has_tag
from ask.errors import (
    AskError,
    ConfigError,
    IncompleteResponseError,
    LimitReachedError,
    ProviderError,
    RefusedQuestionsError,
    RunInterruptedError,
    SafetyError,
    to_ask_error,
)
from ask.events import Event, FallbackStarted, MessageAdded, Notice, RequestStarted
from ask.messages import (
    INTERRUPTED_REASON,
    Attachment,
    Citation,
    DecisionAnswer,
    Delta,
    FinishReason,
    Message,
    ModelResponse,
    ReportedUsage,
    TextDelta,
    ToolCall,
    Usage,
)
from ask.plugin_api.types import ChatRequest

if TYPE_CHECKING:
    from ask.agent.tool_runner import ToolRunner
    from ask.client.cost import Cost
    from ask.history.daily_cost import DailyCostLimit
    from ask.safety.approval import ApprovalResponse
    from ask.safety.tool_policy import PendingToolCall
    from ask.schemas.schema import ResponseSchema
    from ask.traces.tracer import Tracer

    ApprovalRequester = Callable[
        [PendingToolCall, RunRequest, Callable[[PendingToolCall], str]], ApprovalResponse | None
    ]

MAX_REPEATED_CALLS = 3
"""The same call with the same arguments is rejected when it is made this many times in a row."""


class RunResult:
    """The result of a run.

    Attributes:
        messages: the complete conversation, without the system prompt.
        question_index: the index of the question in `messages`.
        requests: the endpoint and the usage of each request.
        rounds: the number of tool rounds.
        finish_reason: why the last response ended; CUT while one is incomplete.
        corrections: how often the model was asked to correct an answer that does not match the schema.
        commentary: the beginning of the last answer that is no part of its value, see `ModelResponse`.
        citations: the sources of the last answer; the positions are those in `answer`.
        decisions: the answers to the questions of `--decide`, with all probabilities.
        error: why the run failed; None if it succeeded.
        is_refused: whether the provider refused the messages since the last answer.
        saved_run_number: the number of the run in the history; None if it is not saved.
    """

    def __init__(self, messages: list[Message], app: AppContext) -> None:
        self.messages = messages
        self.question_index = len(messages) - 1
        self.requests: list[tuple[ModelEndpoint, Usage]] = []
        self._app = app
        self.rounds = 0
        self.finish_reason = FinishReason.STREAM_INCOMPLETE
        self.corrections = 0
        self.commentary = ""
        self.citations: tuple[Citation, ...] = ()
        self.decisions: tuple[DecisionAnswer, ...] = ()
        self.error: AskError | None = None
        self.is_refused = False
        self.saved_run_number: int | None = None

    @property
    def answer(self) -> str:
        """The text of the last answer, which may consist of several messages, without the commentary before it."""
        parts: list[str] = []
        for message in reversed(self.messages):
            if message.role != "assistant" or message.tool_calls:
                break
            parts.insert(0, message.content)
        return "".join(parts).removeprefix(self.commentary)

    @property
    def usage(self) -> Usage:
        return sum(map(itemgetter(1), self.requests), start=Usage())

    @property
    def cost(self) -> Cost:
        """The cost of all requests. Prices are loaded only now, and only if a cost was not reported."""
        reported = [usage.cost for _, usage in self.requests if usage.cost is not None]
        if len(reported) == len(self.requests):
            from ask.client.cost import Cost

            return sum(map(Cost.from_report, reported), start=Cost())
        from ask.client.run_costs import calculate_run_cost

        return calculate_run_cost(self._app, self.requests)

    @property
    def has_answer(self) -> bool:
        """Whether the model has answered, at least in part."""
        return len(self.messages) > self.question_index + 1

    @property
    def is_saved(self) -> bool:
        """Whether the run is in the history."""
        return self.saved_run_number is not None


class ToolLoop:
    """Answers one request.

    Args:
        request: the request.
        app: the user's installation.
        on_event: receives the events.
        client: sends requests to the request's model; None to create one.
        request_approval: asks the user about a call of the request, which the last argument explains; returns None if
            nobody can be asked.
        confirm_more_rounds: asks the user whether the run, which has had the first number of tool rounds, may have the
            second number of further ones.
        calls_tools: whether the model may call tools; without, it only answers.
        system_prompt: the complete system prompt of a request whose conversation is never shortened; None to build
            one from the request and the tools that are actually offered.
        save_files: saves the images of an answer, and returns them with the names of their files.
        daily_limit: the limit on the costs of all runs of a day; None for none.
    """

    def __init__(
        self,
        request: RunRequest,
        app: AppContext,
        on_event: Callable[[Event], None],
        *,
        client: ProviderClient | None = None,
        request_approval: ApprovalRequester = lambda *_: None,
        confirm_more_rounds: Callable[[int, int], bool] = lambda *_: False,
        calls_tools: bool = True,
        system_prompt: str | None = None,
        save_files: Callable[[Sequence[Attachment]], tuple[Attachment, ...]] = tuple,
        daily_limit: DailyCostLimit | None = None,
    ) -> None:
        self._request = request
        self._app = app
        self._on_event = on_event
        self._first_client = client
        self._request_approval = request_approval
        self._confirm_more_rounds = confirm_more_rounds
        self._max_rounds = request.settings.max_rounds
        self._may_ask_for_rounds = calls_tools
        self._calls_tools = calls_tools
        self._system_prompt = system_prompt
        self._save_files = save_files
        self._daily_limit = daily_limit
        self._tool_runner: ToolRunner | None = None
        self._tracer = open_run_tracer(request, app)
        self._result = RunResult([*request.message_history, request.user_message], app)
        self._reported_usage = request.reported_usage
        self._recent_calls: list[tuple[str, str]] = []
        self._fallbacks = [*request.fallbacks]
        """The models that have not been tried yet."""
        self._tried_endpoints: list[ModelEndpoint] = []
        self._model: ModelRequests
        """The requests to the model that is asked now; created by `run`, whose result has the error if that fails."""
        self._estimate_reported = False
        self._has_shown_text = False
        """Whether text of an answer that is still in progress has been shown."""
        self._held_deltas: list[Delta] = []
        """Without streaming, the answer to the last request, until it is certain that no other model replaces it."""

    def run(self) -> RunResult:
        """Run the loop to its end. Errors are in the result: nothing is raised."""
        if self._tracer is None:
            return self._run()
        request, endpoint = self._request, self._request.endpoint
        with self._tracer.trace_run(
            endpoint.provider_name, endpoint.model, request.conversation_id, request.secrets
        ) as span:
            result = self._run()
            span.end(result.usage, result.error, result.finish_reason, result.messages, result.question_index)
        return result

    def _run(self) -> RunResult:
        result, endpoint = self._result, self._request.endpoint
        try:
            self._use_model(endpoint, self._first_client or self._connect(endpoint))
            self._run_rounds()
        except (KeyboardInterrupt, SystemExit, AskError) as error:
            # A signal must not prevent the end of the run from being reported.
            result.error = to_ask_error(error)
        finally:
            if self._tool_runner:
                self._tool_runner.backups.close()
        denial = self._tool_runner.unattended_denial if self._tool_runner else None
        if denial and not isinstance(result.error, RunInterruptedError):
            from ask.safety.tool_policy import NO_TERMINAL

            message = f"a tool call was denied: {NO_TERMINAL} (rule: {denial.rule})"
            # Another row may need no approval, so that the error is not one of all rows.
            error_type = AskError if self._request.settings.is_row else SafetyError
            result.error = error_type(message, denial.hint)
        if result.error is not None:
            result.error.redact(self._request.secrets.redact)  # before the error is saved
            self._add_missing_results()
        return result

    def _add_missing_results(self) -> None:
        """Add a result for each call that Ctrl-C left without one, because providers reject such a conversation.

        The results are not saved: reading the history adds its own.
        """
        messages = self._result.messages
        result_count = len(list(takewhile(lambda message: message.role == "tool", reversed(messages))))
        for call in messages[-1 - result_count].tool_calls[result_count:]:
            from ask.agent.tool_runner import make_error_result

            text = make_error_result(INTERRUPTED_REASON).text
            messages.append(Message("tool", text, tool_call_id=call.id, tool_name=call.name, is_error=True))

    def _notify(self, text: str) -> None:
        self._on_event(Notice(text))

    def _connect(self, endpoint: ModelEndpoint) -> ProviderClient:
        """Create the client for a model.

        Raises:
            ConfigError: the cost limit cannot be checked.
            ParameterError: the model makes only decisions, or none.
        """
        request = self._request
        check_decision_model(endpoint, request.questions, request.settings.options)
        has_limit = request.settings.max_cost is not None or self._daily_limit
        if has_limit and not endpoint.provider.info.reports_cost:
            self._require_price(endpoint)
        return create_client(
            endpoint,
            self._notify,
            request.settings,
            request.secrets,
            output_format=request.output_format,
            shows_text=request.shows_text and not request.output_format,
            questions=request.questions,
        )

    def _require_price(self, endpoint: ModelEndpoint) -> None:
        """Raise an AskError unless the price of a model is known, for a limit on costs."""
        from ask.client.run_costs import require_price

        settings, makes_decisions = self._request.settings, bool(self._request.questions)
        require_price(self._app, endpoint, settings, makes_decisions=makes_decisions)

    def _use_model(self, endpoint: ModelEndpoint, client: ProviderClient) -> None:
        """Send the following requests to this model."""
        self._tried_endpoints.append(endpoint)
        self._model = ModelRequests(
            self._request,
            self._app,
            endpoint,
            client,
            messages=self._result.messages,
            question_index=self._result.question_index,
            reported_usage=self._reported_usage,
            system_prompt=self._system_prompt,
            notify=self._notify,
        )

    def _run_rounds(self) -> None:
        """Send requests and run tools until the model has answered or a limit is reached."""
        result = self._result
        if self._daily_limit and (error := self._daily_limit.find_excess()):
            raise error
        while True:
            limit = self._find_reached_limit() if result.rounds else None
            is_final = limit is not None or not self._calls_tools or result.corrections > 0
            chat_request = self._model.build_request(tool_choice="none" if is_final else "auto")
            self._on_event(RequestStarted())
            result.finish_reason, self._held_deltas = FinishReason.STREAM_INCOMPLETE, []
            on_delta = discard_delta if self._on_event is discard_event else self._show_delta
            response = self._model.client.send(chat_request, on_delta, self._model.tools)
            if isinstance(response.error, ProviderError) and self._model.adapt_request(response.error, response):
                continue
            usages = response.usages or (response.answer.usage,)
            result.requests += zip(repeat(self._model.endpoint), usages)
            if response.error is not None and (
                self._correct_model(response.error) or self._switch_model(response.error)
            ):
                continue
            if self._held_deltas:
                response = self._show_held_deltas(response)
            result.finish_reason = response.answer.finish_reason
            self._model.handle_answer(response.answer.usage)
            has_content = self._add_answer(response, () if is_final else response.tool_calls)
            if response.error is not None:
                result.is_refused = not has_content and _is_refusal(response)
                raise response.error
            is_done = is_final or (
                not response.tool_calls and response.answer.finish_reason is not FinishReason.CONTINUE
            )
            if is_done and self._request.response_schema and self._request_correction(self._request.response_schema):
                continue
            if limit:
                raise limit
            if is_done:
                return
            result.rounds += 1
            self._execute_calls(response.tool_calls)

    def _find_reached_limit(self) -> LimitReachedError | None:
        """Return the limit that the run has reached after a round, if any. The model may then only answer.

        The user can agree to more rounds, but not to more costs.

        Raises:
            AskError: the cost is unknown.
        """
        result = self._result
        if limit := self._find_reached_cost_limit():
            return limit
        if result.rounds < self._max_rounds:
            return None
        settings = self._request.settings
        if self._may_ask_for_rounds and self._confirm_more_rounds(result.rounds, settings.max_rounds):
            self._max_rounds += settings.max_rounds
            return None
        # Only once: the same limit is looked up again for each correction and for each model that takes over.
        self._may_ask_for_rounds = False
        is_continuable = settings.save and not settings.is_row
        return LimitReachedError(
            f"reached the limit of {format_rounds(self._max_rounds)}",
            f"{'continue with ask -c, or ' if is_continuable else ''}raise it with --max-rounds",
        )

    def _find_reached_cost_limit(self) -> LimitReachedError | None:
        """Return the limit on costs that is reached, if any. The first estimate of a run is reported.

        Raises:
            AskError: there is a limit, and the cost is unknown.
        """
        max_cost, result = self._request.settings.max_cost, self._result
        if max_cost is None and not self._daily_limit:
            return None
        cost, endpoint = result.cost, self._model.endpoint
        if cost.dollars is None:  # the provider reports it, but for example a proxy removed it
            self._require_price(endpoint)
            cost = result.cost
        if cost.dollars is None:
            from ask.client.prices import is_prepaid
            from ask.client.run_costs import format_leave_out_hint, get_cost_option

            option = get_cost_option(self._request.settings)
            message = f"{endpoint.provider_name} reports neither costs nor tokens, which {option} needs"
            if is_prepaid(endpoint.provider_name, tier := result.usage.service_tier):
                message = f"{option} does not work with the prepaid service tier {tier}, which served the request"
            raise ConfigError(message, format_leave_out_hint(option))
        if max_cost is not None and cost.is_estimated and not self._estimate_reported:
            self._estimate_reported = True
            self._notify(f"{endpoint.provider_name} reports no costs; --max-cost uses an estimate")
        if max_cost is not None and cost.dollars >= max_cost:
            mark = "~" if cost.is_estimated else ""
            message = f"reached the cost limit ({mark}${cost.dollars:.4f} spent)"
            return LimitReachedError(message, "raise it with --max-cost")
        return self._daily_limit.find_excess(cost.dollars) if self._daily_limit else None

    def _show_delta(self, delta: Delta) -> None:
        """Show a part of the answer, or hold it back if another model may still replace the answer."""
        if self._fallbacks and not self._request.settings.stream:
            self._held_deltas.append(delta)
            return
        if isinstance(delta, TextDelta) and delta.text:
            self._has_shown_text = True
        self._on_event(delta)

    def _show_held_deltas(self, response: RequestResult) -> RequestResult:
        """Show what was held back; return the response, with the error if the output has been closed."""
        try:
            for delta in self._held_deltas:
                self._on_event(delta)
        except AskError as error:
            return response._replace(error=response.error or error)
        return response

    def _switch_model(self, error: AskError) -> bool:
        """Continue with the next usable fallback if the model cannot answer; return whether there is one.

        If all models have failed, the error is changed to say so. No model continues a text that has been shown.
        """
        if self._has_shown_text or not self._request.fallbacks:
            return False
        from ask.client.error_classification import can_other_model_help

        if not can_other_model_help(error):
            return False
        failed_model = self._model.endpoint.full_name
        while self._fallbacks:
            endpoint = self._fallbacks.pop(0)
            address = (endpoint.full_name, endpoint.base_url)
            if any((tried.full_name, tried.base_url) == address for tried in self._tried_endpoints):
                continue
            try:
                if not endpoint.model:
                    model = fetch_first_model(endpoint, self._notify, self._request.settings)
                    endpoint = endpoint._replace(model=model)
                client = self._connect(endpoint)
                check_attachments_supported(self._request.user_message.attachments, endpoint)
            except AskError as skip_reason:
                self._notify(f"skipping the fallback {endpoint.full_name}: {skip_reason}")
                continue
            self._reported_usage = ReportedUsage()
            self._notify(f"{failed_model} cannot answer: {error.summary}; continuing with {endpoint.full_name}")
            self._on_event(FallbackStarted(endpoint.provider_name, endpoint.model))
            self._use_model(endpoint, client)
            return True
        if len(self._tried_endpoints) > 1:
            names = ", ".join(endpoint.full_name for endpoint in self._tried_endpoints)
            error.message = f"none of {names} can answer: {error.message}"
        return False

    def _correct_model(self, error: AskError) -> bool:
        """Continue with the listed model that is meant by an unknown name; return whether there is one."""
        from ask.client.models_list import find_intended_model

        endpoint, settings = self._model.endpoint, self._request.settings
        cache, aliases = self._app.app_dirs.cache, self._app.config.aliases
        if settings.replay or not (model := find_intended_model(error, endpoint, cache, settings, aliases)):
            return False
        self._notify(format_model_correction(endpoint, model))
        self._on_event(FallbackStarted(endpoint.provider_name, model))
        self._use_model(endpoint._replace(model=model), self._model.client)
        return True

    def _request_correction(self, schema: ResponseSchema) -> bool:
        """Add a request to correct the answer if it does not match the schema; return whether it is needed.

        Raises:
            IncompleteResponseError: there were enough corrections, or the cost limit is reached.
        """
        result = self._result
        problem = schema.find_problem(result.answer)
        if not problem:
            return False
        from ask.schemas.response_schema import MAX_CORRECTIONS

        has_files = bool(result.messages[-1].attachments)  # images, which would be generated and paid again
        if result.corrections == MAX_CORRECTIONS or has_files or self._find_reached_cost_limit():
            other_advice = "try again, or use another model or a simpler schema"
            advice = "the model generates images; use another one" if has_files else other_advice
            raise IncompleteResponseError(f"the answer does not match the schema ({problem})", advice)
        result.corrections += 1
        progress = f"trying again ({result.corrections} of {MAX_CORRECTIONS})"
        self._notify(f"the answer does not match the schema ({problem}); {progress}")
        self._add_message(MessageAdded(Message("user", read_prompt("correct").replace("{{problem}}", problem))))
        return True

    def _add_answer(self, response: RequestResult, tool_calls: tuple[ToolCall, ...]) -> bool:
        """Add an answer to the conversation, unless it has no content; return whether it was added."""
        answer = response.answer
        if answer.finish_reason is not FinishReason.CONTINUE:
            self._has_shown_text = False
        redacted = tuple(map(self._request.secrets.redact_call, tool_calls))
        files = self._save_files(answer.attachments) if answer.attachments else ()
        message = Message("assistant", answer.text, redacted, attachments=files, provider_state=answer.provider_state)
        # Reasoning in tags is not saved: only this run sends it back, see `ModelRequests.tagged_answers`.
        if response.tagged_text and answer.provider_state and has_tag(answer.provider_state.data):
            message = message._replace(provider_state=None)
        self._result.decisions = answer.decisions
        if answer.citations or self._result.citations:
            self._add_citations(answer)
        self._result.commentary = answer.commentary
        if answer.text.strip() or tool_calls or files or (answer.provider_state and response.error is None):
            if response.tagged_text:
                self._model.tagged_answers[len(self._result.messages)] = response.tagged_text, answer.provider_state
            is_complete = response.error is None or isinstance(response.error, RefusedQuestionsError)
            self._add_message(MessageAdded(message, is_complete, answer, self._model.mark_refused_files()))
            return True
        if answer.reasoning:  # for the history, and not for the conversation
            message = message._replace(content="", provider_state=None)
            self._on_event(MessageAdded(message, complete=False, answer=answer))
        return False

    def _add_citations(self, answer: ModelResponse) -> None:
        """Add the citations of an answer to those of the text before it, if the service paused there."""
        from ask.client.citations import select_final_citations, shift_citations

        earlier_text = self._result.answer
        earlier_citations = self._result.citations if earlier_text else ()
        citations = shift_citations(select_final_citations(answer), len(earlier_text))
        self._result.citations = (*earlier_citations, *citations)

    def _execute_calls(self, tool_calls: Sequence[ToolCall]) -> None:
        """Execute tool calls in order and add their results.

        Raises:
            RunInterruptedError: the user interrupted one; the others get results without being run.
        """
        if self._tool_runner is None:
            from ask.agent.tool_runner import ToolRunner

            self._tool_runner = ToolRunner(
                self._request,
                self._app,
                self._on_event,
                lambda pending_call: self._request_approval(pending_call, self._request, self._explain_call),
            )
        tool_runner = self._tool_runner
        messages = self._result.messages
        answer_index = len(messages) - 1
        for call_index, call in enumerate(tool_calls):
            self._recent_calls = [*self._recent_calls, (call.name, call.arguments)][-MAX_REPEATED_CALLS:]
            is_repeated = self._recent_calls.count((call.name, call.arguments)) == MAX_REPEATED_CALLS
            execute = partial(tool_runner.execute, repetitions=MAX_REPEATED_CALLS if is_repeated else 0)
            if self._tracer is None:
                finished = execute(call)
            else:
                finished = self._tracer.trace_tool_call(self._request.secrets, call, execute)
            calls = [*messages[answer_index].tool_calls]
            if finished.call.arguments != calls[call_index].arguments:  # edited by the user, or repaired
                calls[call_index] = calls[call_index]._replace(arguments=finished.call.arguments)
                # The provider state stays unchanged, since the model may have signed it.
                messages[answer_index] = messages[answer_index]._replace(tool_calls=tuple(calls))
            call_id, name, _ = calls[call_index]
            message = Message(
                "tool", finished.result, (), call_id, name, finished.attachments, is_error=finished.failed
            )
            self._add_message(MessageAdded(message))
        if tool_runner.interruption:
            raise tool_runner.interruption

    def _explain_call(self, pending_call: PendingToolCall) -> str:
        """Ask the model to explain a call to the user, without the conversation that led to it.

        Raises:
            AskError: the model did not answer.
        """
        description = {"tool": pending_call.tool_name, "arguments": dict(pending_call.arguments)}
        prompt = f"{read_prompt('explain_call')}\n\n{json.dumps(description, ensure_ascii=False, indent=2)}"
        request = self._request._replace(output_format="", response_schema=None)
        system_prompt = build_system_prompt(request, self._app.environment, ())
        messages = (Message("system", system_prompt), Message("user", prompt))
        endpoint = self._model.endpoint
        chat_request = ChatRequest(endpoint.model, messages, is_own_url=endpoint.is_own_url)
        result = self._model.client.send(chat_request, lambda delta: None)
        if result.error is not None:
            raise result.error
        return result.answer.text

    def _add_message(self, event: MessageAdded) -> None:
        self._result.messages.append(event.message)
        self._on_event(event)


def open_run_tracer(request: RunRequest, app: AppContext) -> Tracer | None:
    """Return what traces the runs of this process; None if traces are off."""
    if not request.settings.traces:
        return None
    from ask.traces.lifecycle import open_tracer

    return open_tracer(request.settings, app.notify)


def discard_event(_: Event) -> None:
    """Ignore an event: events are for displaying and recording a run."""


def format_rounds(count: int) -> str:
    return "1 tool round" if count == 1 else f"{count} tool rounds"


def _is_refusal(response: RequestResult) -> bool:
    """Check whether a provider refused the messages of a request, instead of failing to answer them."""
    from ask.client.error_classification import is_message_refused

    if response.error is None:
        return False
    # Some report a blocked prompt as an answer without text, such as Gemini's promptFeedback.blockReason.
    is_filtered = response.answer.finish_reason is FinishReason.CONTENT_FILTER
    return is_filtered or is_message_refused(response.error)


def format_model_correction(endpoint: ModelEndpoint, model: str) -> str:
    """Return the notice that a listed model replaces one that the service does not know."""
    return f"{endpoint.provider_name} has no model {endpoint.model!r}; continuing with {model}"
