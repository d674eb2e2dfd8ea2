"""A `RunRequest` for tests of what happens after it is prepared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ask.agent.request import RunRequest
from ask.client.endpoint import ModelEndpoint
from ask.config.secrets import Secrets
from ask.config.settings import Settings
from ask.messages import Message
from ask.plugin_api.loaded_provider import LoadedProvider
from ask.plugin_api.provider_loading import check_provider
from providers.demo import provider as demo


def make_request(
    directory: Path, *, provider: LoadedProvider | None = None, model: str = "demo", **fields: Any
) -> RunRequest:
    """Return a request without tools and secrets; `fields` replace its other fields."""
    provider = provider or check_provider(demo, "demo", "")
    request = RunRequest(
        conversation_id="conversation",
        message_history=(),
        user_message=Message("user", "Go."),
        extra_system_prompt="",
        directory=directory,
        tools=(),
        settings=Settings(),
        endpoint=ModelEndpoint(provider, model, "", ""),
        secrets=Secrets((), (), (), {}),
    )
    return request._replace(**fields)
