"""Prompts of servers: listing them, and getting one with its arguments filled in.

https://modelcontextprotocol.io/specification/2025-11-25/server/prompts
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ask.mcp.connection import RequestError, iterate_pages
from ask.mcp.resources import ResourceContent, decode_base64, read_resource, to_content
from ask.text import repair_surrogates

if TYPE_CHECKING:
    from mcp import Client


class PromptArgument(NamedTuple):
    """An argument of a prompt."""

    name: str
    required: bool
    description: str


class PromptListing(NamedTuple):
    """A prompt as listed by its server."""

    name: str
    description: str
    arguments: Sequence[PromptArgument]


class PromptContent(NamedTuple):
    """A prompt with its arguments filled in: its text, and its images, audio and resources."""

    text: str
    resources: Sequence[ResourceContent]


async def list_prompts(client: Client) -> list[PromptListing]:
    """List the prompts of a server."""
    if client.server_capabilities.prompts is None:
        return []
    return [
        PromptListing(
            prompt.name,
            prompt.description or prompt.title or "",
            [
                PromptArgument(argument.name, bool(argument.required), argument.description or "")
                for argument in prompt.arguments or ()
            ],
        )
        async for page in iterate_pages(client.list_prompts)
        for prompt in page.prompts
    ]


async def get_prompt(client: Client, name: str, arguments: Mapping[str, str]) -> PromptContent:
    """Get a prompt, whose messages become one; linked resources are read.

    Raises:
        RequestError: it contains a message of an assistant, which the user cannot send.
    """
    messages = (await client.get_prompt(name, dict(arguments))).messages
    if any(message.role != "user" for message in messages):
        raise RequestError("it contains assistant messages, and a template is sent as one user message")
    texts = []
    resources: list[ResourceContent] = []
    for message in messages:
        if message.content.type == "text":
            texts.append(repair_surrogates(message.content.text))
        else:
            resources += await read_media(client, message.content, f"{name}-{len(resources) + 1}")
    return PromptContent("\n\n".join(texts), resources)


async def read_media(client: Client, block: Any, name: str) -> list[ResourceContent]:
    """Return the content of an image, audio, resource or link; `name` is for those that have none."""
    if block.type == "resource_link":
        return await read_resource(client, block.uri)
    if block.type == "resource":
        return [to_content(block.resource)]
    return [ResourceContent(name, decode_base64(block.data))]
