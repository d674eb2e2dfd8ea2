"""The error tree, and the exit code of each branch.

    AskError                    1   an unexpected error
    ├── UsageError              2   invalid command line
    ├── MissingDependencyError  3   a program or package is not installed
    ├── ConfigError             4   no key, unknown or broken provider, invalid TOML
    │   └── PluginError         4   a plugin does not do what its hooks specify
    ├── NetworkError            5   connection refused, DNS, TLS, timeout
    │   └── IncompleteStreamError  10  the connection ended in the middle of a response
    ├── ProviderError           6   the provider answered with an error
    ├── ParameterError          7   a parameter is out of range, or the provider rejects it
    ├── SafetyError             8   safe mode is not available, or a call was denied because nobody could be asked
    ├── FileError               9   a file (or stdin) cannot be read or written
    ├── IncompleteResponseError 10  token limit, content filter, empty response
    │   └── RefusedQuestionsError  10  the model refused questions of --decide
    ├── LimitReachedError       11  the tool round or cost limit
    ├── RowsFailedError         12  rows of `ask map` failed or are missing
    ├── UnrecordedRequestError  13  the recording in ASK_REPLAY has no answer to a request
    ├── BrokenOutputError       0   the reader of stdout has gone away
    └── RunInterruptedError     130 Ctrl-C

Any code may raise them; only `ask.__main__` turns them into a message and an exit code.
"""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any, ClassVar

from ask.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ask.messages import ModelResponse


class AskError(Exception):
    """An error that ends the run (exit code 1, unless a subclass has another).

    Args:
        message: what happened, on one line without a trailing period.
        hint: what the user can do about it, on one line; "" if there is nothing to suggest.
    """

    exit_code: int = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.is_in_result = False
        """Whether a `result` event contains the error."""

    @property
    def summary(self) -> str:
        """What happened, without the hint."""
        return self.message

    def redact(self, redact: Callable[[str], str]) -> None:
        """Redact API keys in the message and the hint, using `redact` on each."""
        self.message, self.hint = redact(self.message), redact(self.hint)

    def __str__(self) -> str:
        return f"{self.summary}: {self.hint}" if self.hint else self.summary

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what was redacted, not the arguments, which subclasses take in different forms."""
        return copyreg.__newobj__, (type(self), self.message, self.hint), self.__dict__  # type: ignore[attr-defined]


def walk_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and every exception that it wraps or was raised from."""
    pending: list[object] = [error]
    seen: set[int] = set()
    while pending:
        cause = pending.pop(0)
        if isinstance(cause, BaseException) and id(cause) not in seen:
            seen.add(id(cause))
            yield cause
            # requests wraps what urllib3 raised, and urllib3 keeps its own cause in `reason`.
            pending += [*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__]
            pending += cause.exceptions if isinstance(cause, BaseExceptionGroup) else ()


def to_ask_error(error: BaseException) -> AskError:
    """Return an `AskError` unchanged, and convert any other exception to one."""
    if isinstance(error, AskError):
        return error
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return RunInterruptedError.from_exception(error)
    if isinstance(error.__cause__, KeyboardInterrupt):  # Python 3.11 wraps one that is raised while a class is created
        return RunInterruptedError("interrupted")
    if isinstance(error, ModuleNotFoundError):
        return MissingDependencyError(f"the package {error.name} is not installed", "reinstall ask")
    if isinstance(error, OSError) and error.strerror:
        path = f" {error.filename}" if error.filename else ""
        return FileError(f"cannot read or write{path} ({error.strerror})")
    return AskError(
        f"internal error ({type(error).__name__}: {error})",
        "please report this bug; -v with a question shows the traceback",
    )


class UsageError(AskError):
    """The command line is invalid."""

    exit_code = 2


class MissingDependencyError(AskError):
    """A required program or package is not installed."""

    exit_code = 3


class ConfigError(AskError):
    """A missing key, an unknown or broken provider, or an invalid configuration file."""

    exit_code = 4


class PluginError(ConfigError):
    """A hook of a plugin failed, took too long, or returned something else than it should."""


class NetworkError(AskError):
    """The provider cannot be reached, or the connection failed.

    Args:
        message: what happened.
        hint: what the user can do.
        retryable: whether the same request may be sent again.
        offline: whether the server may not be running, so that the provider's `offline_hint` applies.
        permanent: whether all requests fail until the user changes something, such as trusted certificates.
    """

    exit_code = 5

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        retryable: bool = False,
        offline: bool = False,
        permanent: bool = False,
    ) -> None:
        super().__init__(message, hint)
        self.retryable = retryable
        self.offline = offline
        self.permanent = permanent


class IncompleteStreamError(NetworkError):
    """The connection ended in the middle of a response."""

    exit_code = 10


class _RetryAction(NamedTuple):
    kind: str = "none"
    delay: float | None = None


RETRY_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 507, *range(520, 528), 529, 530, 599})
"""HTTP statuses that are worth a retry of the same request.

409 is among them in the SDKs of OpenAI and Anthropic. 520 to 527 and 530 are Cloudflare's, when the server behind it
fails: https://github.com/earendil-works/pi/issues/9627
"""
OVERLOADED_STATUS = 529
"""Anthropic's HTTP status for an overload of its service: https://platform.claude.com/docs/en/api/errors"""


class RetryAction(_RetryAction):
    """What ask does after a `ProviderError`. Use `RetryAction.retry()` or one of the constants.

    ask does each of these at most a few times; if the request then still fails, or the action is not possible (there is
    no second key), the error ends the run. A request is not retried after a part of the answer was shown. ask itself
    recognizes common messages about unsupported tools, rejected schemas and full context windows.

    Attributes:
        NONE: report the error.
        NEXT_KEY: send the request with the next key, if the user has set several. ask also does this for the statuses
            401, 402 and 429.
        WITHOUT_TOOLS: send it without tools.
        WITHOUT_SCHEMA: send it without the response schema.
        WITHOUT_REASONING: send it without the provider state of earlier answers.
        SHORTER: send it with less of the conversation.
        kind: the action: "none", "retry", "next_key" and so on.
        delay: the seconds to wait before a retry, if the provider specified them.
    """

    NONE: ClassVar[RetryAction]
    NEXT_KEY: ClassVar[RetryAction]
    WITHOUT_TOOLS: ClassVar[RetryAction]
    WITHOUT_SCHEMA: ClassVar[RetryAction]
    WITHOUT_REASONING: ClassVar[RetryAction]
    SHORTER: ClassVar[RetryAction]

    @staticmethod
    def retry(delay: float | None = None) -> RetryAction:
        """Return the action that sends the same request again.

        `delay` is in seconds, as the service specified it. Without it, ask waits for half a second before the first
        retry, and twice as long before each further one. By default, there are at most four attempts in total, and a
        delay of more than a minute ends the run.
        """
        return RetryAction("retry", delay)


RetryAction.NONE = RetryAction("none")
RetryAction.NEXT_KEY = RetryAction("next_key")
RetryAction.WITHOUT_TOOLS = RetryAction("without_tools")
RetryAction.WITHOUT_SCHEMA = RetryAction("without_schema")
RetryAction.WITHOUT_REASONING = RetryAction("without_reasoning")
RetryAction.SHORTER = RetryAction("shorter")


class ProviderError(AskError):
    """An error response of a provider (exit code 6).

    `provider_parse_error` returns it; other hooks raise it.

    Args:
        message: the provider's error message, on one line.
        status: the HTTP status, or the status given in the body of a 200 response; None if there is none.
        retry_action: what ask does next.
        hint: what the user can do; "" to let ask choose a hint for the status.
        parameter: the request parameter that the provider rejects, if it names one.

    Attributes:
        partial_response: the part of the answer that arrived before the error, which is saved; None for none. Set it,
            or use `Provider.check_answer`.
        provider: the provider's name, set by ask.
        is_from_api: whether the API sent the response; set by ask. A proxy's page is not from the API.
        is_overload: whether the request was refused because the service, or the upstream provider behind it, is
            overloaded, not because of a limit of the user's own. True for status 529; a provider that can tell sets it
            for 429 and 503.
    """

    exit_code = 6
    partial_response: ModelResponse | None = None
    provider: str = ""
    is_from_api: bool = True

    def __init__(
        self,
        message: str,
        status: int | None = None,
        retry_action: RetryAction = RetryAction.NONE,
        *,
        hint: str = "",
        parameter: str | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.status = status
        self.retry_action = retry_action
        self.parameter = parameter
        self.is_overload = status == OVERLOADED_STATUS

    @property
    def summary(self) -> str:
        """The provider's message, with the provider's name and the status."""
        source = ", ".join(str(part) for part in (self.provider, self.status) if part)
        return f"{self.message.rstrip('. ')} ({source})" if source else self.message


class ParameterError(AskError):
    """A model parameter is out of range, or the provider rejects it."""

    exit_code = 7


class SafetyError(AskError):
    """Safe mode is not available, or nobody could approve a tool call."""

    exit_code = 8


class FileError(AskError):
    """A file or standard input cannot be read or written."""

    exit_code = 9


class IncompleteResponseError(AskError):
    """The response is incomplete: token limit, content filter, or no text at all."""

    exit_code = 10


class RefusedQuestionsError(IncompleteResponseError):
    """The model refused questions of `--decide`; the answers to the others are complete."""


class LimitReachedError(AskError):
    """The tool round or cost limit was reached. The model was then asked to answer without tools."""

    exit_code = 11


class RowsFailedError(AskError):
    """Some rows of `ask map` failed while others were answered, or are missing in the outputs of shards."""

    exit_code = 12


class UnrecordedRequestError(AskError):
    """A request is not in the recording that answers all requests."""

    exit_code = 13


class BrokenOutputError(AskError):
    """The reader of stdout has closed it, as `head` does. The run ends without a message."""

    exit_code = 0


class RunInterruptedError(AskError):
    """Ctrl-C, or a signal that ends the run and sets the exit code."""

    exit_code = 130

    def __init__(self, message: str, *, exit_code: int = 130) -> None:
        super().__init__(message)
        self.exit_code = exit_code

    @staticmethod
    def from_exception(exception: KeyboardInterrupt | SystemExit) -> RunInterruptedError:
        """Convert the exception that Ctrl-C or a signal handler raised."""
        if isinstance(exception, KeyboardInterrupt):
            return RunInterruptedError("interrupted")
        return RunInterruptedError("interrupted", exit_code=exception.code if isinstance(exception.code, int) else 1)


FIRST_SIGNAL_EXIT_CODE = 128
"""Exit codes from this one on mean that a signal ended the run."""


class SignalExit(SystemExit):
    """A signal such as SIGTERM ends the process; `sys.exit` in a plugin does not."""
