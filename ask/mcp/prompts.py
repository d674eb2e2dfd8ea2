"""Prompts of servers: listing them, and getting one with its arguments filled in.

https://modelcontextprotocol.io/specification/2025-11-25/server/prompts
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ask.mcp.connection import RequestError, iterate_pages, read_entries
from ask.mcp.resources import ResourceContent, decode_base64, read_resource, to_content
from ask.mcp.tool_results import format_content_block
from ask.parsing import read_dict, read_list, read_str
from ask.records import NamedTuple
from ask.text import repair_surrogates

if TYPE_CHECKING:
    from mcp import Client


MEDIA_TYPES = ("image", "audio", "resource", "resource_link")


class PromptArgument(NamedTuple):
    name: str
    required: bool
    description: str


class PromptListing(NamedTuple):
    """A prompt as listed by its server."""

    name: str
    description: str
    """The description, or else the title; "" if it has neither."""
    arguments: Sequence[PromptArgument] = ()


class PromptMessage(NamedTuple):
    """A message of a prompt with its arguments filled in: its text, and its images, audio and resources."""

    role: Literal["user", "assistant"]
    text: str
    resources: Sequence[ResourceContent] = ()


async def list_prompts(client: Client) -> list[PromptListing]:
    """List the prompts of a server. One without a name could not be used and is left out."""
    if client.server_capabilities.prompts is None:
        return []
    entries = [
        read_dict(entry) async for page in iterate_pages(client.list_prompts) for entry in read_entries(page, "prompts")
    ]
    prompts: dict[str, PromptListing] = {}
    for entry in entries:
        if name := read_str(entry.get("name")):
            description = read_str(entry.get("description")) or read_str(entry.get("title"))
            prompts.setdefault(name, PromptListing(name, description, _parse_arguments(entry.get("arguments"))))
    return list(prompts.values())


def _parse_arguments(entries: Any) -> list[PromptArgument]:
    """Parse the arguments of a prompt; those without a name are left out."""
    return [
        PromptArgument(name, entry.get("required") is True, read_str(entry.get("description")))
        for entry in map(read_dict, read_list(entries))
        if (name := read_str(entry.get("name")))
    ]


async def get_prompt(client: Client, name: str, arguments: Mapping[str, str]) -> list[PromptMessage]:
    """Get a prompt; consecutive messages of the same role become one, and linked resources are read.

    Raises:
        RequestError: a message of the assistant contains something other than text.
    """
    messages: list[PromptMessage] = []
    resource_count = 0
    for entry in map(read_dict, read_entries(await client.get_prompt(name, dict(arguments)), "messages")):
        role: Literal["user", "assistant"] = "assistant" if entry.get("role") == "assistant" else "user"
        content = entry.get("content")
        for block in content if isinstance(content, list) else [content]:
            text, resources = "", []
            kind = read_dict(block).get("type")
            if kind not in MEDIA_TYPES:
                text = repair_surrogates(format_content_block(block))
            elif role == "assistant":
                raise RequestError(f"it contains an assistant message of type {kind}, not text")
            else:
                resources = await _read_media(client, read_dict(block), f"{name}-{resource_count + 1}")
                resource_count += len(resources)
            previous = messages.pop() if messages and messages[-1].role == role else PromptMessage(role, "")
            texts = filter(None, (previous.text, text))
            messages.append(PromptMessage(role, "\n\n".join(texts), [*previous.resources, *resources]))
    return messages


async def _read_media(client: Client, block: Mapping[str, Any], name: str) -> list[ResourceContent]:
    """Return the content of an image, audio, resource or link; `name` is for those that have none."""
    if block["type"] == "resource_link":
        return await read_resource(client, read_str(block.get("uri")))
    if block["type"] == "resource":
        return [to_content(block.get("resource"), name)]
    return [ResourceContent(name, decode_base64(block.get("data")))]
