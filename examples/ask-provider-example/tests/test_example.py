"""The example meets the provider contract and renames `max_tokens`."""

from ask_provider_example import provider as example

from ask import ChatRequest, Message
from ask.testing import ProviderContract


class TestExample(ProviderContract):
    provider = example
    unsupported = {"attachments"}

    def test_max_tokens_is_renamed(self) -> None:
        request = ChatRequest("example-1", [Message("user", "Hi.")], options={"max_tokens": 500})
        body = example.build_body(request)
        assert body["max_output_tokens"] == 500
        assert "max_tokens" not in body
