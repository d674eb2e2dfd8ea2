"""Messages of servers, repaired before the SDK validates them.

The SDK rejects a complete result because of one unusual tool or content block. It therefore gets an empty, valid
result, with the original attached, whose parts are then validated one by one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from ask.parsing import parse_json, read_dict, read_list

INTERNAL_ERROR = -32603
"""JSON-RPC's error code, for errors without a valid one."""
RESULT_KEYS = {
    "tools/list": "tools",
    "tools/call": "content",
    "prompts/list": "prompts",
    "prompts/get": "messages",
    "resources/list": "resources",
    "resources/read": "contents",
    "resources/templates/list": "resourceTemplates",
}
"""The list in the result of each method."""
RAW_RESULT_KEY = "ask/raw-result"
CAPABILITIES = ("tools", "prompts", "resources")
METADATA_FOR_PEOPLE = ("service_documentation", "op_policy_uri", "op_tos_uri", "resource_documentation")
"""Members of metadata that ask does not use. Some servers give no valid URL there."""


def parse_messages(data: bytes) -> list[dict[str, Any]]:
    """Return the JSON-RPC messages in a line, an event or a body; [] if there are none, as in a heartbeat.

    A batch, as in protocol revision 2025-03-26, contains several. A response may follow a text without a line end, such
    as the escape sequence for a terminal's title: https://github.com/anomalyco/opencode/issues/17282
    """
    text = data.decode(errors="replace").removeprefix("\ufeff")
    value = parse_json(text, strict=True)
    if value is None and (start := text.find('{"')) > 0:
        value = parse_json(text[start:], strict=True)
        # A line of a log may contain a request of ask's, or other JSON.
        value = value if "jsonrpc" in read_dict(value) and "method" not in value else None
    messages = map(_repair_message, value if isinstance(value, list) else [value])
    return [message for message in messages if message]


def _repair_message(value: Any) -> dict[str, Any] | None:
    """Return a JSON-RPC message in a valid form; None if the value is not one."""
    message = read_dict(value)
    message_id = message.get("id")
    if isinstance(message_id, float) and message_id.is_integer():
        message_id = int(message_id)
    has_id = isinstance(message_id, str | int) and not isinstance(message_id, bool)
    repaired: dict[str, Any] = {"jsonrpc": "2.0"} | ({"id": message_id} if has_id else {})
    if isinstance(message.get("method"), str):
        params = message.get("params")
        return repaired | {"method": message["method"]} | ({"params": params} if isinstance(params, dict) else {})
    if (error := message.get("error")) is not None:
        return {"id": None} | repaired | {"error": _repair_error(error)}
    if "result" not in message or not has_id:
        return None
    result = message["result"]
    return repaired | {"result": result if isinstance(result, dict) else {"content": result}}


def _repair_error(error: Any) -> dict[str, Any]:
    """Return the error of a response in a valid form; a text becomes its message."""
    fields = error if isinstance(error, dict) else {"message": error}
    code, message = fields.get("code"), fields.get("message")
    return {
        "code": code if isinstance(code, int) else INTERNAL_ERROR,
        "message": message if isinstance(message, str) else json.dumps(message),
        "data": fields.get("data"),
    }


def replace_result(method: str, result: dict[str, Any], *, keep_schemas: bool) -> dict[str, Any]:
    """Return the result to pass to the SDK instead of the original.

    With `keep_schemas`, the tools of a list stay, because the SDK sends some of their arguments as headers.
    """
    if method in ("initialize", "server/discover"):
        return _repair_handshake(result)
    key = RESULT_KEYS.get(method)
    if key is None or result.get("resultType") == "input_required":
        return result
    lifetime = result.get("ttlMs")
    # The SDK does not validate the structured content of an error, so no schema of the server is evaluated: a regular
    # expression in it could take years. A result that does not match its schema is still useful.
    no_validation = {"isError": True} if method == "tools/call" else {}
    return no_validation | {
        key: _list_tool_headers(read_list(result.get(key))) if key == "tools" and keep_schemas else [],
        "resultType": "complete",
        "cacheScope": "private",
        "ttlMs": max(lifetime, 0) if type(lifetime) is int else 0,
        "_meta": {RAW_RESULT_KEY: AttachedResult(result)},
    }


def _list_tool_headers(entries: list[Any]) -> list[dict[str, Any]]:
    """Return the names and schemas of tools, in which the SDK looks for `x-mcp-header`."""
    return [
        {"name": entry["name"], "inputSchema": {**schema, "type": "object", "$schema": None}}
        for entry in map(read_dict, entries)
        if isinstance(entry.get("name"), str) and isinstance(schema := entry.get("inputSchema"), dict)
    ]


def _repair_handshake(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of the first request with only what ask uses, in a valid form.

    A server without a list of capabilities may have any.
    """
    declared = result.get("capabilities")
    capabilities = declared if isinstance(declared, dict) else dict.fromkeys(CAPABILITIES, True)
    info = read_dict(result.get("serverInfo"))
    texts = {name: text if isinstance(text := info.get(name), str) else "" for name in ("name", "version")}
    used: dict[str, Any] = {name: {} for name in CAPABILITIES if capabilities.get(name) not in (None, False)}
    return {**result, "capabilities": used, "serverInfo": texts, "instructions": None}


def parse_sign_in_response(body: bytes) -> dict[str, Any]:
    """Return the fields in a response of an authorization server; GitHub sends tokens as a form (python-sdk#1511)."""
    try:
        return read_dict(json.loads(body))
    except (ValueError, RecursionError):
        fields = dict(parse_qsl(body.decode(errors="replace")))
        return fields if fields.keys() & {"access_token", "error"} else {}


def repair_sign_in_response(body: bytes, advertised_issuers: Sequence[str], server_url: str) -> bytes:
    """Return a response of an authorization server with tokens and metadata that the SDK accepts.

    For one member of a wrong type, it would ignore all metadata, and use addresses that do not exist. Slack sends
    another type of token, and Entra the lifetime as a text. The issuer may differ from that which the MCP server names:
    see `find_advertised_issuer`.
    """
    fields = parse_sign_in_response(body)
    repaired = dict(fields)
    if fields.keys() & {"access_token", "client_id"}:
        scope = fields.get("scope")
        texts = map(str, scope) if isinstance(scope, list) else [scope] if isinstance(scope, str) else []
        repaired["scope"] = " ".join(texts) or None
    if isinstance(fields.get("client_id"), int):
        repaired["client_id"] = str(fields["client_id"])
    if isinstance(fields.get("access_token"), str):
        repaired |= {"token_type": "Bearer", "expires_in": _read_lifetime(fields.get("expires_in"))}
    if fields.keys() & {"issuer", "authorization_endpoint", "authorization_servers"}:
        metadata = {name: value for name, value in fields.items() if _is_usable_metadata(name, value)}
        repaired = {name: secure_urls(value, server_url) for name, value in metadata.items()}
    if "authorization_endpoint" in repaired and advertised_issuers:
        issuer = repaired.get("issuer", advertised_issuers[0])
        repaired["issuer"] = find_advertised_issuer(issuer, advertised_issuers)
    return json.dumps(repaired).encode() if fields else body


def find_advertised_issuer(issuer: Any, advertised_issuers: Sequence[str]) -> Any:
    """Return the issuer that an MCP server names for the one in metadata or a redirect; unchanged if there is none.

    Google's MCP servers write it with a slash at its end, but its authorization server without one (python-sdk#1919).
    Atlassian's leaves out the path.
    """
    if not isinstance(issuer, str) or issuer in advertised_issuers:
        return issuer
    bare = issuer.removesuffix("/")
    origins = {each: "/".join(each.split("/", 3)[:3]) for each in advertised_issuers}
    return next((each for each, origin in origins.items() if bare in (each.removesuffix("/"), origin)), issuer)


def secure_urls(value: Any, server_url: str) -> Any:
    """Return a URL, or a list of them, with https for the host of a server with https.

    Behind a proxy that ends TLS, many servers know only that they were reached with http.
    """
    if isinstance(value, list):
        return [secure_urls(each, server_url) for each in value]
    host = server_url.removeprefix("https://").partition("/")[0]
    is_insecure = (
        server_url.startswith("https://") and isinstance(value, str) and f"{value}/".startswith(f"http://{host}/")
    )
    return value.replace("http://", "https://", 1) if is_insecure else value


def _is_usable_metadata(name: str, value: Any) -> bool:
    """Check whether a member of an authorization server's metadata has its type, and is not only for people."""
    is_text_for_list = name.endswith("_supported") and isinstance(value, str)
    return value not in (None, "") and not is_text_for_list and name not in METADATA_FOR_PEOPLE


def _read_lifetime(value: Any) -> int | None:
    """Return the lifetime of a token in seconds; None if it is unknown. Some servers send -1 for one without end."""
    try:
        return lifetime if (lifetime := int(float(value))) > 0 else None
    except (TypeError, ValueError, OverflowError):
        return None


class AttachedResult(str):
    """A result that passes through the SDK as an empty string, because the SDK limits how deeply others are nested."""

    result: Mapping[str, Any]

    def __new__(cls, result: Mapping[str, Any]) -> AttachedResult:
        attached = super().__new__(cls)
        attached.result = result
        return attached


def read_raw_result(result: Any) -> Mapping[str, Any]:
    """Return the original of a result that `replace_result` replaced."""
    attached = read_dict(result.meta).get(RAW_RESULT_KEY)
    return attached.result if isinstance(attached, AttachedResult) else {}
