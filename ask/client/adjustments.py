"""Changes to requests that a model's refusals have shown to be necessary, so that the next requests avoid them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from ask.client.error_classification import find_rejected_option
from ask.client.stated_limits import calculate_output_limit, find_stated_limit
from ask.errors import ProviderError
from ask.profiles import TOKEN_LIMIT_OPTIONS, format_left_out

if TYPE_CHECKING:
    from ask.client.refused_fields import RequestChange


class RequestAdjustments:
    """The changes to requests to one model, and the options to leave out or lower.

    The clients of several threads may share an instance.

    Args:
        notify: called with a line for the user about each change.
    """

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self._notices: set[str] = set()
        self.changes: list[RequestChange] = []
        """The changes without which the service has refused a request."""
        self.is_schema_refused = False
        """Whether the service has refused the schema of answers, which is then only in the prompt."""
        self._left_out: set[str] = set()
        self._output_limit: int | None = None

    def notify(self, text: str) -> None:
        """Print a notice, unless another row has printed it or is printing it, which a cache would not know."""
        if text not in self._notices:
            self._notices.add(text)
            self._notify(text)

    def add_change(self, needed: RequestChange, error: ProviderError) -> None:
        """Change the next requests because of a refusal, unless another thread has found the same change."""
        if all(change.description != needed.description for change in self.changes):
            self.changes.append(needed)
            self.notify(f"{error.summary}; trying once more {needed.description}")

    def leave_out_schema(self, error: ProviderError) -> None:
        """Send the next requests without the schema of answers, because the service has refused it."""
        self.is_schema_refused = True
        self.notify(f"{error.summary}; trying once more with the schema in the prompt")

    def apply(self, options: Mapping[str, Any], given_options: Collection[str] | None) -> dict[str, Any]:
        """Return options without those that the model refused.

        `given_options`, those on the command line (None for all), stay unchanged.
        """
        given_options = options if given_options is None else given_options
        adjusted = {
            name: value for name, value in options.items() if name not in self._left_out or name in given_options
        }
        if self._output_limit is not None and not any(name in given_options for name in TOKEN_LIMIT_OPTIONS):
            for name in TOKEN_LIMIT_OPTIONS:
                adjusted.pop(name, None)
            adjusted["max_tokens"] = self._output_limit
        return adjusted

    def learn(self, error: ProviderError, options: Mapping[str, Any], given_options: Collection[str] | None) -> None:
        """Learn from the refusal of a request with these options."""
        given_options = options if given_options is None else given_options
        limit = find_stated_limit(error)
        if limit is not None:
            if not any(name in given_options for name in TOKEN_LIMIT_OPTIONS):
                self._lower_output_limit(error, calculate_output_limit(limit, options))
            return
        option = find_rejected_option(error, options)
        if option and option not in given_options and option not in self._left_out:
            self._left_out.add(option)
            self.notify(f"{error.summary}; {format_left_out(option)}")

    def _lower_output_limit(self, error: ProviderError, limit: int | None) -> None:
        if limit is not None and (self._output_limit is None or limit < self._output_limit):
            self._output_limit = limit
            self.notify(f"{error.summary}; limiting answers to {limit:,} tokens (-o max_tokens=N sets another limit)")
