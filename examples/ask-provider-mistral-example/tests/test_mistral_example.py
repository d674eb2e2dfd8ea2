"""The example meets the provider contract; thinking and the calls of other models are sent as Mistral wants them."""

import re

from ask_provider_mistral_example import provider as mistral

from ask import ChatRequest, Message, ToolCall
from ask.testing import ProviderContract

THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "closed": True}


class TestMistral(ProviderContract):
    provider = mistral

    def test_thinking_is_sent_back(self) -> None:
        content = [THINKING, {"type": "text", "text": "Hello."}]
        answer, _ = self.read({"model": "magistral", "choices": [{"message": {"content": content}}]})
        assert (answer.text, answer.reasoning) == ("Hello.", "Hm.")
        message = Message("assistant", answer.text, provider_state=answer.provider_state)
        assert mistral.build_body(ChatRequest("magistral", [message]))["messages"][0]["content"] == content

    def test_call_ids_of_other_models_are_replaced(self) -> None:
        call = ToolCall("toolu_01", "add", "{}")
        messages = [Message("assistant", tool_calls=(call,)), Message("tool", "5", (), call.id, "add")]
        calling, result = mistral.build_body(ChatRequest("magistral", self.format_results(messages)))["messages"]
        assert calling["tool_calls"][0]["id"] == result["tool_call_id"]
        assert re.fullmatch("[a-zA-Z0-9]{9}", result["tool_call_id"])

    def test_stream_options_are_left_out(self) -> None:
        assert "stream_options" not in mistral.build_body(ChatRequest("magistral", [Message("user", "Hi.")]))
