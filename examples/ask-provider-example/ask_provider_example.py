"""A provider for a service that uses OpenAI's Chat Completions API, except for the name of one parameter.

The service does not exist. For one without any difference, the last statement is enough, with `ChatCompletions` in
place of `Example`.
"""

from typing import Any

from ask import ChatCompletions, ChatRequest


class Example(ChatCompletions):
    """Chat Completions with `max_output_tokens` in place of `max_tokens`."""

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        body = super().build_body(request)
        if "max_tokens" in body:  # set by the user: ask -o max_tokens=500
            body["max_output_tokens"] = body.pop("max_tokens")
        return body


# The entry point in pyproject.toml names this object.
provider = Example(
    name="example",
    title="Example",
    base_url="https://api.example.com/v1",
    key_env="EXAMPLE_API_KEY",
    default_model="example-1",
)
