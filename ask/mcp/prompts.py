"""Prompts of servers: listing them, and getting one with its arguments filled in.

https://modelcontextprotocol.io/specification/2025-11-25/server/prompts
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ask.mcp.connection import RequestError, iterate_pages
from ask.mcp.resources import ResourceContent, decode_base64, read_resource, to_content
from ask.records import NamedTuple
from ask.text import repair_surrogates

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Prompt


class PromptMessage(NamedTuple):
    """A message of a prompt with its arguments filled in: its text, and its images, audio and resources."""

    role: Literal["user", "assistant"]
    text: str
    resources: Sequence[ResourceContent] = ()


async def list_prompts(client: Client) -> list[Prompt]:
    """List the prompts of a server."""
    if client.server_capabilities.prompts is None:
        return []
    return [prompt async for page in iterate_pages(client.list_prompts) for prompt in page.prompts]


def describe_prompt(prompt: Prompt) -> str:
    """Return the description of a prompt, or else its title; "" if it has neither."""
    return prompt.description or prompt.title or ""


async def get_prompt(client: Client, name: str, arguments: Mapping[str, str]) -> list[PromptMessage]:
    """Get a prompt; consecutive messages of the same role become one, and linked resources are read.

    Raises:
        RequestError: a message of the assistant contains something other than text.
    """
    messages: list[PromptMessage] = []
    resource_count = 0
    for message in (await client.get_prompt(name, dict(arguments))).messages:
        text, resources = "", []
        if message.content.type == "text":
            text = repair_surrogates(message.content.text)
        elif message.role == "assistant":
            raise RequestError(f"it contains an assistant message of type {message.content.type}, not text")
        else:
            resources = await read_media(client, message.content, f"{name}-{resource_count + 1}")
            resource_count += len(resources)
        previous = messages.pop() if messages and messages[-1].role == message.role else PromptMessage(message.role, "")
        texts = filter(None, (previous.text, text))
        messages.append(PromptMessage(message.role, "\n\n".join(texts), [*previous.resources, *resources]))
    return messages


async def read_media(client: Client, block: Any, name: str) -> list[ResourceContent]:
    """Return the content of an image, audio, resource or link; `name` is for those that have none."""
    if block.type == "resource_link":
        return await read_resource(client, block.uri)
    if block.type == "resource":
        return [to_content(block.resource)]
    return [ResourceContent(name, decode_base64(block.data))]
