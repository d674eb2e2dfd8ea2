"""A provider for an imaginary service, as anybody could write one.

The service speaks OpenAI's Chat Completions, as most do, so `ChatCompletions` does all the work. It differs
in one thing: it calls the longest answer `max_output_tokens`. For a service that differs in nothing, the
last statement is all that is needed, with `ChatCompletions` in place of `Example`.
"""

from typing import Any

from ask import ChatCompletions, ChatRequest


class Example(ChatCompletions):
    """Chat Completions, with the service's own name for one parameter."""

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        body = super().build_body(request)
        if "max_tokens" in body:  # set by the user: ask -o max_tokens=500
            body["max_output_tokens"] = body.pop("max_tokens")
        return body


# pyproject.toml names this object as an entry point; that is all the registration there is.
provider = Example(
    name="example",
    title="Example",
    base_url="https://api.example.com/v1",
    key_env="EXAMPLE_API_KEY",
    default_model="example-1",
    docs="https://example.com/docs",
)
