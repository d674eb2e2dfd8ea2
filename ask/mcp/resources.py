"""Resources of servers: listing and reading them.

https://modelcontextprotocol.io/specification/2025-11-25/server/resources
"""

from __future__ import annotations

from binascii import a2b_base64
from typing import TYPE_CHECKING, Any

from ask.mcp.connection import RequestError, iterate_pages, read_entries
from ask.parsing import read_dict, read_str
from ask.records import NamedTuple
from ask.text import repair_surrogates

if TYPE_CHECKING:
    from mcp import Client


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
    """List the resources of a server, then the templates for others. One without a URI is left out."""
    if client.server_capabilities.resources is None:
        return []
    listings = [
        _parse_listing(entry, "uri")
        async for page in iterate_pages(client.list_resources)
        for entry in read_entries(page, "resources")
    ]
    listings += [
        _parse_listing(entry, "uriTemplate")._replace(is_template=True)
        async for page in iterate_pages(client.list_resource_templates)
        for entry in read_entries(page, "resourceTemplates")
    ]
    return [listing for listing in listings if listing.uri]


def _parse_listing(entry: Any, uri_key: str) -> ResourceListing:
    """Parse a resource or a template of a server's list."""
    fields = read_dict(entry)
    name, title, media_type, description = (
        read_str(fields.get(key)) for key in ("name", "title", "mimeType", "description")
    )
    size = fields.get("size")
    size = size if type(size) is int else None
    return ResourceListing(read_str(fields.get(uri_key)), title or name, media_type, description, size)


async def read_resource(client: Client, uri: str) -> list[ResourceContent]:
    """Read a resource. A URI that the server does not list may match one of its templates.

    Raises:
        RequestError: the server has no resources, or returned none.
    """
    if client.server_capabilities.resources is None:
        raise RequestError("the server has no resources")
    contents = read_entries(await client.read_resource(uri), "contents")
    if not contents:
        raise RequestError("the server returned no content")
    return [to_content(each, uri) for each in contents]


def to_content(entry: Any, name: str) -> ResourceContent:
    """Convert contents of a server; `name` is for those without a URI.

    Raises:
        RequestError: they are neither text nor valid Base64.
    """
    fields = read_dict(entry)
    name = repair_surrogates(read_str(fields.get("uri")) or name)
    if isinstance(fields.get("text"), str):
        return ResourceContent(name, repair_surrogates(fields["text"]))
    return ResourceContent(name, decode_base64(fields.get("blob")))


def decode_base64(text: Any) -> bytes:
    """Decode the data of an image, of audio or of a resource, which may lack its padding.

    Raises:
        RequestError: it is not valid.
    """
    try:
        return a2b_base64(f"{text.rstrip('=')}===")
    except (ValueError, AttributeError):
        raise RequestError("the server returned invalid Base64") from None
