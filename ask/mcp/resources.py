"""Resources of servers: listing and reading them.

https://modelcontextprotocol.io/specification/2025-11-25/server/resources
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from typing import TYPE_CHECKING

from ask.mcp.connection import RequestError, iterate_pages
from ask.records import NamedTuple
from ask.text import repair_surrogates

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import BlobResourceContents, Resource, ResourceTemplate, TextResourceContents

METHOD_NOT_FOUND = -32601
"""JSON-RPC's error code for a request that the server does not support."""


class ResourceListing(NamedTuple):
    """A resource as listed by its server."""

    uri: str
    """The URI, or the URI template of RFC 6570."""
    name: str
    media_type: str
    description: str
    size: int | None = None
    """The size in bytes; None if the server does not say."""
    is_template: bool = False


class ResourceContent(NamedTuple):
    """A resource, or a part of one: text, or bytes of any type."""

    name: str
    data: str | bytes


async def list_resources(client: Client) -> list[ResourceListing]:
    """List the resources of a server, then the templates for others."""
    if client.server_capabilities.resources is None:
        return []
    resources = [
        to_listing(each, each.uri, each.size)
        async for page in iterate_pages(client.list_resources)
        for each in page.resources
    ]
    try:
        return resources + [
            to_listing(each, each.uri_template)._replace(is_template=True)
            async for page in iterate_pages(client.list_resource_templates)
            for each in page.resource_templates
        ]
    except Exception as error:
        if getattr(error, "code", None) != METHOD_NOT_FOUND:  # templates are optional
            raise
        return resources


def to_listing(listed: Resource | ResourceTemplate, uri: str, size: int | None = None) -> ResourceListing:
    """Convert a resource or a template of the SDK."""
    return ResourceListing(uri, listed.title or listed.name, listed.mime_type or "", listed.description or "", size)


async def read_resource(client: Client, uri: str) -> list[ResourceContent]:
    """Read a resource. A URI that the server does not list may match one of its templates.

    Raises:
        RequestError: the server has no resources, or returned none.
    """
    if client.server_capabilities.resources is None:
        raise RequestError("the server has no resources")
    contents = (await client.read_resource(uri)).contents
    if not contents:
        raise RequestError("the server returned no content")
    return [to_content(each) for each in contents]


def to_content(contents: TextResourceContents | BlobResourceContents) -> ResourceContent:
    """Convert contents of the SDK.

    Raises:
        RequestError: they are not valid Base64.
    """
    name = repair_surrogates(contents.uri)
    if hasattr(contents, "text"):
        return ResourceContent(name, repair_surrogates(contents.text))
    return ResourceContent(name, decode_base64(contents.blob))


def decode_base64(text: str) -> bytes:
    """Decode the data of an image, of audio or of a resource.

    Raises:
        RequestError: it is not valid.
    """
    try:
        return a2b_base64(text)
    except (Base64Error, ValueError):
        raise RequestError("the server returned invalid Base64") from None
