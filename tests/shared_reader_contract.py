"""The contract for providers that read streams as their base class does."""

from __future__ import annotations

from ask import ChatCompletions, Responses
from ask.testing import ProviderContract


class SharedReaderContract(ProviderContract):
    """The contract without damaged streams, on which the reader is tested where it is implemented.

    `TestChatCompletions` in `tests/test_testing.py` and `TestResponses` in `tests/plugin_api/test_responses.py` do it.
    """

    test_values_of_wrong_types_in_a_stream_are_handled = None  # type: ignore[assignment]

    def test_the_reader_is_that_of_the_base_class(self) -> None:
        readers = (ChatCompletions.provider_stream_reader, Responses.provider_stream_reader)
        assert type(self.provider).provider_stream_reader in readers  # type: ignore[union-attr]
