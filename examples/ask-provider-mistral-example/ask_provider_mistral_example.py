"""A provider for Mistral: Chat Completions, except for call ids, thinking in the content, and `stream_options`."""

from ask import ChatCompletions


class Mistral(ChatCompletions):
    call_id_pattern = "[a-zA-Z0-9]{9}"  # other ids are refused, also those of calls that another model made
    state_fields = ("content",)  # a list if it contains thinking, which reasoning models need back
    requests_usage = False  # stream_options is refused, and the usage is sent anyway


provider = Mistral(
    name="mistral",
    base_url="https://api.mistral.ai/v1",
    key_env="MISTRAL_API_KEY",
    default_model="mistral-medium-latest",
    attachments=("image/png", "image/jpeg", "image/webp", "image/gif"),
)
