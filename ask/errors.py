"""The error tree, and the exit code of each branch.

    AskError                    1   an unexpected error
    ├── UsageError              2   invalid command line
    ├── MissingDependencyError  3   a program or package is not installed
    ├── ConfigError             4   no key, unknown or broken provider, invalid TOML
    ├── NetworkError            5   connection refused, DNS, TLS, timeout
    │   └── IncompleteStreamError  10  the connection ended in the middle of a response
    ├── ProviderError           6   the provider answered with an error
    ├── ParameterError          7   a parameter is out of range, or the provider rejects it
    ├── SafetyError             8   safe mode is not available, or a call was denied because nobody could be asked
    ├── FileError               9   a file (or stdin) cannot be read or written
    ├── IncompleteResponseError 10  token limit, content filter, empty response
    ├── LimitReachedError       11  the tool round or cost limit
    ├── BrokenOutputError       0   the reader of stdout has gone away
    └── RunInterruptedError     130 Ctrl-C

Any code may raise them; only `ask.__main__` turns them into a message and an exit code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ask.messages import Answer


class AskError(Exception):
    """Something that ends the run.

    Args:
        message: what happened, one line, without a full stop.
        advice: what to do about it, one line; "" where nothing can be said.
    """

    exit_code: int = 1

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    @property
    def brief(self) -> str:
        """What happened, without what to do about it."""
        return self.message

    def take_out(self, redact: Callable[[str], str]) -> None:
        """Take the keys out of what it says, by a function that does so with a text."""
        self.message, self.advice = redact(self.message), redact(self.advice)

    def __str__(self) -> str:
        return f"{self.brief}: {self.advice}" if self.advice else self.brief


def walk_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, then everything it wraps or was raised from."""
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


def to_ask_error(error: Exception) -> AskError:
    """The error for an exception that nobody expected."""
    if isinstance(error.__cause__, KeyboardInterrupt):  # as Python 3.11 wraps one that comes while a class is made
        return RunInterruptedError("interrupted")
    if isinstance(error, ModuleNotFoundError):
        return MissingDependencyError(f"the package {error.name} is not installed", "install ask again")
    if isinstance(error, OSError) and error.strerror:
        place = f" {error.filename}" if error.filename else ""
        return FileError(f"cannot read or write{place} ({error.strerror})")
    return AskError(f"unforeseen {type(error).__name__}: {error}", "please report this; -v shows where it arose")


class UsageError(AskError):
    """The command line makes no sense."""

    exit_code = 2


class MissingDependencyError(AskError):
    """A program or package that the work needs is not installed."""

    exit_code = 3


class ConfigError(AskError):
    """No key, an unknown or broken provider, or a configuration file that cannot be understood."""

    exit_code = 4


class NetworkError(AskError):
    """The provider could not be reached, or stopped talking.

    Args:
        retryable: whether the same request may be sent once more.
        offline: whether the server may not be running, so that the provider's `offline_advice` fits.
    """

    exit_code = 5

    def __init__(self, message: str, advice: str = "", *, retryable: bool = False, offline: bool = False) -> None:
        super().__init__(message, advice)
        self.retryable = retryable
        self.offline = offline


class IncompleteStreamError(NetworkError):
    """The connection ended before the answer did."""

    exit_code = 10


class _Remedy(NamedTuple):
    action: str = "none"
    after: float | None = None


class Remedy(_Remedy):
    """What may help against a `ProviderError`.

    Attributes:
        action: "none"; "retry" the same request; "next_key": with another key, where one is set;
            "without_tools": once more without tools; "without_schema": without the answer's schema;
            "shorter": with less of the conversation.
        after: seconds to wait before a retry, where the provider named them.
    """

    NONE: ClassVar[Remedy]
    NEXT_KEY: ClassVar[Remedy]
    WITHOUT_TOOLS: ClassVar[Remedy]
    WITHOUT_SCHEMA: ClassVar[Remedy]
    SHORTER: ClassVar[Remedy]

    @staticmethod
    def RETRY(after: float | None = None) -> Remedy:  # noqa: N802 - reads like its siblings
        """A retry, `after` seconds from now where that is known."""
        return Remedy("retry", after)


Remedy.NONE = Remedy("none")
Remedy.NEXT_KEY = Remedy("next_key")
Remedy.WITHOUT_TOOLS = Remedy("without_tools")
Remedy.WITHOUT_SCHEMA = Remedy("without_schema")
Remedy.SHORTER = Remedy("shorter")


class ProviderError(AskError):
    """What a provider answered in place of an answer.

    Args:
        message: the provider's own words, one line.
        status: the HTTP status, or the one an error inside a 200 names; None where there is none.
        remedy: what may help.
        advice: what the user can do; "" leaves it to the host, which knows what each status means.
        parameter: the request parameter that the provider complains about, where it names one.

    Attributes:
        answer: what had been said before the error came, if anything.
        provider: the provider's name, filled in by the host.
    """

    exit_code = 6
    answer: Answer | None = None
    provider: str = ""

    def __init__(
        self,
        message: str,
        status: int | None = None,
        remedy: Remedy = Remedy.NONE,
        *,
        advice: str = "",
        parameter: str | None = None,
    ) -> None:
        super().__init__(message, advice)
        self.status = status
        self.remedy = remedy
        self.parameter = parameter

    @property
    def brief(self) -> str:
        """What the provider said, with its name and the status."""
        where = ", ".join(str(part) for part in (self.provider, self.status) if part)
        return f"{self.message.rstrip('. ')} ({where})" if where else self.message


class ParameterError(AskError):
    """A model parameter that is out of range, or that the provider refuses."""

    exit_code = 7


class SafetyError(AskError):
    """Safe mode cannot be had, or a tool call was denied because nobody could be asked."""

    exit_code = 8


class FileError(AskError):
    """A file, or standard input, that cannot be read or written."""

    exit_code = 9


class IncompleteResponseError(AskError):
    """The answer is not whole: the token limit, a filter, or nothing at all."""

    exit_code = 10


class LimitReachedError(AskError):
    """The round limit was reached; the answer is what the model could say until then."""

    exit_code = 11


class BrokenOutputError(AskError):
    """Whoever read the output has closed it, as `head` does: the run ends, and nothing is said."""

    exit_code = 0


class RunInterruptedError(AskError):
    """The user pressed Ctrl-C, or a signal asked for the end, as whose exit code `exit_code` is then."""

    exit_code = 130

    def __init__(self, message: str, *, exit_code: int = 130) -> None:
        super().__init__(message)
        self.exit_code = exit_code

    @staticmethod
    def from_exception(exception: KeyboardInterrupt | SystemExit) -> RunInterruptedError:
        """The error for what Python raises at Ctrl-C, and at a signal that ends the run."""
        if isinstance(exception, KeyboardInterrupt):
            return RunInterruptedError("interrupted")
        return RunInterruptedError("interrupted", exit_code=exception.code if isinstance(exception.code, int) else 1)
