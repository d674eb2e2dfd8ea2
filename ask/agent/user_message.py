"""The user message: words, files and piped text, and whether the model takes the attachments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ask.agent.model_selection import (
    ModelEndpoint,
)
from ask.attachments import describe_media_type, format_supported_types
from ask.errors import ParameterError
from ask.inputs.prompt_inputs import PromptInputs
from ask.messages import Attachment, Message
from ask.prompt_blocks import compose_prompt, format_blocks

if TYPE_CHECKING:
    from ask.agent.template_selection import SelectedTemplate


def compose_message(words: str, inputs: PromptInputs, selected_template: SelectedTemplate | None = None) -> Message:
    """Compose the user's message from text and inputs, or a template and inputs.

    Raises:
        UsageError: there is no prompt.
    """
    attachment_names = f"[attached: {', '.join(attachment.name for attachment in inputs.attachments)}]"
    is_attachment_only = inputs.attachments and not (words or inputs.texts or inputs.stdin_text.strip())
    prompt_text = attachment_names if is_attachment_only else words
    if selected_template and selected_template.has_prompt:
        text = selected_template.render_prompt(format_blocks(prompt_text, inputs.texts, inputs.stdin_text))
    else:
        text = compose_prompt(prompt_text, inputs.texts, inputs.stdin_text)
    if len(inputs.attachments) > 1 and not is_attachment_only:
        text = f"{text}\n\n{attachment_names}"
    return Message("user", text, attachments=inputs.attachments)


def check_attachments_supported(attachments: Sequence[Attachment], endpoint: ModelEndpoint) -> None:
    """Reject attachments that the model does not accept.

    Raises:
        ParameterError: there is one.
    """
    is_supported = partial(endpoint.provider.supports_attachment, endpoint.model)
    for attachment in attachments:
        if not is_supported(attachment.media_type):
            description = f"{describe_media_type(attachment.media_type)} ({attachment.name})"
            supported_types = format_supported_types(is_supported)
            advice = "it accepts only text; choose another model with -m"
            if supported_types:
                advice = f"it accepts {supported_types}"
            raise ParameterError(f"{endpoint.model} of {endpoint.provider_name} does not accept {description}", advice)
