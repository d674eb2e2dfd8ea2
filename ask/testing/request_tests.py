# ruff: noqa: S101 - the contract is checked by assertions
"""Contract tests for building requests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from ask import Batch, BatchRequest, ChatRequest, Message, ProviderState, ToolCall
from ask.testing.base import ContractBase, fail
from ask.testing.conversation import (
    ATTACHMENTS,
    FOREIGN_STATE,
    FOREIGN_TEXT,
    KEY,
    LONG_CONVERSATION,
    OBJECT_SCHEMA,
    SHORT_CONVERSATION,
    SYSTEM_MESSAGE,
    TOOL_CALLS,
    TOOL_CONVERSATION,
    TOOL_RESULTS,
    TOOLS,
    USER_MESSAGE,
    change_arguments,
    check_once,
    find_occurrences,
    is_prefix,
    iterate_leaves,
    iterate_parts,
    remove_cache_markers,
)
from ask.testing.samples import ADD_2_3, find_second_call_ids, sends_object, sends_text

BATCH_TAG = "ask-0123456789abcdef"


class RequestTests(ContractBase):
    """The contract for `provider_build_request`, the tool formats, the models request and the requests of a batch."""

    def test_request_contains_each_message_once(self) -> None:
        for stream in (True, False):
            body = self.build(stream=stream).body
            for message in SHORT_CONVERSATION:
                check_once(body, message.content)

    def test_request_names_the_model(self) -> None:
        request = self.build(model="model-1")
        assert "model-1" in request.path or find_occurrences("model-1", request.body), (
            "The request for the model 'model-1' does not contain this name. Send ChatRequest.model."
        )

    def test_request_is_a_post_to_a_path(self) -> None:
        request = self.build()
        assert request.method == "POST", f"The chat request's method is {request.method}. Use POST."
        assert request.path.startswith("/"), (
            f"The path is {request.path!r}. Begin it with a slash: it is appended to the base URL."
        )

    def test_request_depends_on_stream(self) -> None:
        if self.has_own_transport:
            return  # its own transport yields events in either case
        streamed, unstreamed = self.build(stream=True), self.build(stream=False)
        assert (streamed.path, streamed.body) != (unstreamed.path, unstreamed.body), (
            "The request is the same with stream=True and stream=False. Request a stream only if request.stream "
            "is True."
        )

    def test_tools_of_the_service_are_sent_beside_others(self) -> None:
        available = self.call("provider_server_tools", model=self.model_name)
        for name, tool in available.items():
            assert re.fullmatch("[a-z][a-z0-9_]*", name), (
                f"provider_server_tools names a tool {name!r}. Use lower-case letters, digits and _."
            )
            for tools, choice in (((), "auto"), (TOOLS, "auto"), (TOOLS, "none")):
                body = self.build(tools=tools, tool_choice=choice, server_tools={name: tool}).body
                assert any(part == tool for _, part in iterate_parts(body)), (
                    f"The request lacks the service's tool {name!r} with {len(tools)} other tools and tool_choice "
                    f"{choice!r}. Add ChatRequest.server_tools to the tools of the body."
                )
        body = self.build(tools=TOOLS).body
        for name, tool in available.items():
            assert not any(part == tool for _, part in iterate_parts(body)), (
                f"The request contains the service's tool {name!r}, although ChatRequest.server_tools is empty."
            )

    def test_unknown_attachments_are_not_supported(self) -> None:
        assert not self.takes("application/x-unknown"), (
            "provider_supports_attachment accepts application/x-unknown. Return True only for types the model accepts."
        )

    def test_supported_attachments_are_sent_once(self) -> None:
        for attachment in filter(lambda attachment: self.takes(attachment.media_type), ATTACHMENTS):
            data = attachment.base64
            message = USER_MESSAGE._replace(attachments=(attachment,))
            body = self.build((SYSTEM_MESSAGE, message)).body
            check_once(body, data)
            check_once(body, USER_MESSAGE.content)
            longer = self.build((SYSTEM_MESSAGE, message, *LONG_CONVERSATION[2:]), tools=TOOLS).body
            check_once(longer, data)
            shorter = remove_cache_markers(self.build((SYSTEM_MESSAGE, message), tools=TOOLS).body)
            assert is_prefix(shorter, remove_cache_markers(longer)), (
                f"A message with {attachment.media_type} changes when messages follow. Build every message the "
                f"same way."
            )
            check_once(self.build((SYSTEM_MESSAGE, message._replace(content=""))).body, data)

    def test_several_attachments_keep_their_order(self) -> None:
        accepted = [attachment for attachment in ATTACHMENTS if self.takes(attachment.media_type)]
        for pair in pairwise(accepted):
            body = self.build((SYSTEM_MESSAGE, USER_MESSAGE._replace(attachments=pair))).body
            check_once(body, *(attachment.base64 for attachment in pair))

    def test_files_of_tool_results_are_sent_once(self) -> None:
        """Files are in the tool result if the provider says so, otherwise in a user message after the results."""
        self.require_tools()
        if not self.passes("test_longer_conversation_extends_the_shorter_one"):
            return
        for attachment in filter(lambda attachment: self.takes(attachment.media_type), ATTACHMENTS):
            *earlier, first, second = TOOL_CONVERSATION
            results: tuple[Message, ...] = (first, second)
            if self.takes_in_result(attachment.media_type):
                results = (first._replace(attachments=(attachment,)), second)
                texts = ("lundi", attachment.base64, second.content)
            else:
                results = (*results, Message("user", "The file.", attachments=(attachment,)))
                texts = (first.content, second.content, attachment.base64)
            body = self.build((*earlier, *results), tools=TOOLS).body
            if not find_occurrences(attachment.base64, body) and results[0].attachments:
                fail(
                    f"provider_supports_result_attachment returns True for {attachment.media_type}, but the request "
                    "lacks the file of the tool result. Add message.attachments to the result, or return False."
                )
            check_once(body, first.content)
            check_once(body, *texts)

    def test_formatted_tools_are_complete(self) -> None:
        tools = self.format_tools(TOOLS)
        json.dumps(tools, allow_nan=False)
        for tool in TOOLS:
            for field, text in (("name", tool.name), ("description", tool.description)):
                assert find_occurrences(text, tools), (
                    f"provider_format_tools dropped the {field} of the tool {tool.name}. Include {text!r}."
                )
        assert '"word"' in json.dumps(tools), (
            "provider_format_tools dropped the parameters of the tool look_up. Include tool.parameters."
        )

    def test_tools_are_sent_only_when_offered(self) -> None:
        self.require_tools()
        assert find_occurrences("Explains a word.", self.build(tools=TOOLS).body), (
            "The request does not contain the tool look_up. Put request.tools into the body."
        )
        assert not find_occurrences("Explains a word.", self.build().body), (
            "A request without tools contains the tool look_up. Send request.tools, and keep no tools in the provider."
        )

    def test_formatted_tools_are_sent_unchanged(self) -> None:
        """Only the result of `provider_format_tools` is sent, not tools that were formatted again."""
        self.require_tools()
        request = ChatRequest(self.model_name, SHORT_CONVERSATION, self.format_tools(TOOLS))
        marked_tools = json.loads(json.dumps(request.tools).replace("Explains a word.", "Marked by the contract."))
        body = self.build_formatted(request._replace(tools=marked_tools)).body
        assert find_occurrences("Marked by the contract.", body), (
            "The tools in the request are not those that provider_format_tools returned. Put request.tools into the "
            "body unchanged: ask calls provider_format_tools."
        )

    def test_formatted_results_are_sent_unchanged(self) -> None:
        """Only the result of `provider_format_tool_result` is sent, not results that were formatted again."""
        self.require_tools()
        messages = self.format_results(TOOL_CONVERSATION)
        marked = [
            message._replace(
                formatted_result=json.loads(json.dumps(message.formatted_result).replace("seabird", "marked bird"))
            )
            if message.role == "tool"
            else message
            for message in messages
        ]
        body = self.build_formatted(ChatRequest(self.model_name, marked, self.format_tools(TOOLS))).body
        assert find_occurrences("marked bird", body), (
            "The tool result in the request is not what provider_format_tool_result returned. Put "
            "message.formatted_result into the body unchanged: ask calls provider_format_tool_result."
        )

    def test_tool_choice_changes_the_request(self) -> None:
        self.require_tools()
        auto, none = (self.build(TOOL_CONVERSATION, tools=TOOLS, tool_choice=choice) for choice in ("auto", "none"))
        assert auto.body != none.body, (
            'The request is the same with tool_choice "auto" and "none". Tell the service not to call tools if '
            'request.tool_choice is "none".'
        )

    def test_schema_changes_the_request(self) -> None:
        if "schema" in self.unsupported:
            return
        assert self.build().body != self.build(schema=OBJECT_SCHEMA).body, (
            "The request is the same with and without a schema. Send request.schema or, if the service has no "
            'structured output, set unsupported = {"schema"} in the test class.'
        )

    def test_schema_changes_nothing_else(self) -> None:
        if not self.passes("test_each_tool_result_is_sent_once"):
            return
        for schema in (OBJECT_SCHEMA, {"type": "array", "items": {}}):
            for choice in ("auto", "none"):
                body = self.build(TOOL_CONVERSATION, tools=TOOLS, tool_choice=choice, schema=schema).body
                check_once(body, SYSTEM_MESSAGE.content)
                check_once(body, USER_MESSAGE.content, *TOOL_RESULTS)
            if self.has_tools:
                body = self.build(tools=TOOLS, schema=schema).body
                assert find_occurrences("Explains a word.", body), (
                    "A request with a schema does not contain the tools. Send request.tools; if the service does not "
                    "accept both, leave out the schema."
                )

    def test_tool_result_names_its_call(self) -> None:
        call, text = TOOL_CALLS[0], TOOL_RESULTS[0]
        result = self.call("provider_format_tool_result", tool_call_id=call.id, tool_name=call.name, result=text)
        assert len(find_occurrences(text, result)) == 1, (
            f"provider_format_tool_result returned {result!r} for the result {text!r}. Include the complete "
            f"result once."
        )
        names_call, names_tool = self.contains_id(result, call), bool(find_occurrences(call.name, result))
        has_ids = bool(find_second_call_ids(self.responses))
        assert names_call or (names_tool and not has_ids), (
            f"provider_format_tool_result names {call.name!r} instead of the call."
            if names_tool
            else "provider_format_tool_result does not name the call."
        ) + f" Include tool_call_id, which is {call.id!r} here: parallel calls of a tool differ only in their ids."

    def contains_id(self, result: dict[str, Any], call: ToolCall) -> bool:
        """Check whether a formatted result contains the call's id, or the one that is sent in its place."""
        if find_occurrences(call.id, result):
            return True
        other = self.call("provider_format_tool_result", tool_call_id="other", tool_name=call.name, result="")
        ids = {leaf for leaf in iterate_leaves(result) if isinstance(leaf, str)} - {*TOOL_RESULTS}
        ids -= set(iterate_leaves(other))
        body = self.build((*SHORT_CONVERSATION, Message("assistant", "", (call,))), tools=TOOLS).body
        return bool(ids) and ids <= set(iterate_leaves(body))

    def test_each_tool_result_is_sent_once(self) -> None:
        self.require_tools()
        check_once(self.build(TOOL_CONVERSATION, tools=TOOLS).body, USER_MESSAGE.content, *TOOL_RESULTS)

    def test_tool_calls_are_sent_back(self) -> None:
        """Calls are in the request once, with arguments in the form in which the service sends them."""
        self.require_tools()
        if not self.passes("test_each_tool_result_is_sent_once"):
            return
        body = self.build(TOOL_CONVERSATION, tools=TOOLS).body
        check_once(body, USER_MESSAGE.content, "lundi", "rostungur", *TOOL_RESULTS)
        response, arguments = self.responses.get("call", {}), {"word": "lundi"}
        if sends_text(response, ADD_2_3[1]):
            assert sends_text(body, arguments), (
                "The arguments of a tool call are not JSON text in the request, as they are in the service's answers. "
                "Send call.arguments, or {} if it is not valid JSON."
            )
        elif sends_object(response, ADD_2_3[1]):
            assert sends_object(body, arguments), (
                "The arguments of a tool call are not an object in the request, as they are in the service's answers. "
                "Send ask.parsing.decode_arguments(call.arguments) or {}."
            )

    def test_malformed_arguments_in_the_history_are_accepted(self) -> None:
        if not self.passes("test_each_tool_result_is_sent_once"):
            return
        for arguments in ("", '{"word": ', '{"a": 1}{"a": 2}', "[1]", "null", '"lundi"', "no JSON", "\ud800"):
            check_once(self.build(change_arguments(arguments), tools=TOOLS).body, *TOOL_RESULTS)

    def test_options_are_sent(self) -> None:
        values = list(iterate_leaves(self.build(options={"temperature": 0.25, "max_tokens": 1234}).body))
        for name, value in (("temperature", 0.25), ("max_tokens", 1234)):
            assert value in values, (
                f"The request does not contain {value}, the value of the option {name}. Add request.options to "
                f"the body."
            )

    def test_state_is_not_sent_to_another_provider(self) -> None:
        for state, texts in self.list_states():
            sent = self.find_sent_state(
                state._replace(provider="another-provider", model=self.model_name), self.model_name, texts
            )
            assert not sent, (
                f"The request contains {sent}, the provider_state of another provider. Use "
                "self.find_provider_state(message, request.model), or compare message.provider_state.provider."
            )

    def test_state_is_not_sent_to_another_model_family(self) -> None:
        for state, texts in self.list_states():
            sent = self.find_sent_state(state._replace(model="alpha/one"), "beta/two", texts)
            assert not sent, (
                f"The request to beta/two contains {sent}, the provider_state of alpha/one, another model family. Use "
                "self.find_provider_state(message, request.model)."
            )

    def list_states(self) -> Iterator[tuple[ProviderState, set[str]]]:
        """Yield a made-up provider state and those of the samples, each with the texts that identify it."""
        yield ProviderState(self.info.name, self.model_name, FOREIGN_STATE), {FOREIGN_TEXT}
        for kind in sorted({"reasoning", "reasoning_and_call", "call"} & set(self.streams)):
            state = self.read_stream(kind)[0].provider_state
            if state:
                ordinary = self.build(LONG_CONVERSATION, model="beta/two", tools=TOOLS).body
                texts = {leaf for leaf in iterate_leaves(state.data) if isinstance(leaf, str) and len(leaf) > 3}
                yield state, {text for text in texts if not find_occurrences(text, ordinary)}

    def find_sent_state(self, state: ProviderState, model: str, texts: set[str]) -> list[str]:
        """Return those texts in the request for a conversation whose assistant messages have a provider state."""
        messages = [
            message._replace(provider_state=state) if message.role == "assistant" else message
            for message in LONG_CONVERSATION
        ]
        body = self.build(messages, model=model, tools=TOOLS).body
        return sorted(text for text in texts if find_occurrences(text, body))

    def test_key_is_sent_only_in_a_header(self) -> None:
        requests = [self.build(TOOL_CONVERSATION, tools=TOOLS), self.call("provider_models_request", key=KEY)]
        for request in filter(None, requests):
            assert KEY not in request.path, (
                f"The API key is in the path {request.path.replace(KEY, '<key>')!r}, which may be logged. Send it in a "
                "header."
            )
            assert KEY not in json.dumps(request.body), "The API key is in the body. Send it in a header."
            if self.info.needs_key:
                assert any(KEY in value for value in request.headers.values()), (
                    "The API key is in no header. Send it, or set needs_key=False in ProviderInfo."
                )

    def test_no_header_is_sent_for_an_empty_key(self) -> None:
        headers_with_key, headers_without_key = self.build().headers, self.build(key="").headers
        for name, value in headers_with_key.items():
            if KEY in value:
                token = headers_without_key.get(name, "no such header").strip()
                if token in ("", value.replace(KEY, "").strip()):
                    fail(f"Without a key, the header {name} is {token!r}. Leave the header out if key is empty.")

    def test_same_conversation_builds_the_same_request(self) -> None:
        first, second = (self.build(TOOL_CONVERSATION, tools=TOOLS, options={"temperature": 0.25}) for _ in range(2))
        assert json.dumps(first.body) == json.dumps(second.body), (
            "Two requests for the same conversation differ. Leave out times, counters and random values: services "
            "cache by prefix."
        )
        assert (first.path, first.headers) == (second.path, second.headers), (
            "The path or the headers of two requests for the same conversation differ. Build both from the arguments."
        )

    def test_longer_conversation_extends_the_shorter_one(self) -> None:
        conversations = [SHORT_CONVERSATION, TOOL_CONVERSATION, LONG_CONVERSATION]
        bodies = [remove_cache_markers(self.build(conversation, tools=TOOLS).body) for conversation in conversations]
        for shorter, longer in pairwise(bodies):
            assert is_prefix(shorter, longer), (
                "The request for a conversation is not a prefix of the request for its continuation. Format each "
                "message independently of those that follow: services cache by prefix."
            )

    def test_models_request_is_a_get(self) -> None:
        request = self.call("provider_models_request", key=KEY)
        if request is None:  # the default: there is no models list
            return
        assert request.method == "GET", f"The models request is a {request.method}. Set method='GET'."
        assert request.body is None, f"The models request has the body {request.body!r}. Leave it out."
        assert request.path.startswith("/"), (
            f"The path of the models request is {request.path!r}. Begin it with a slash: it is appended to the "
            f"base URL."
        )

    def test_batch_requests_contain_the_chat_requests_and_the_key(self) -> None:
        api = self.get_batch_api()
        if api is None:
            return
        built = self.build(stream=False)
        assert built.body is not None, "a provider with a batch API sends JSON"
        requests = [BatchRequest(f"{BATCH_TAG}-{number}", built.path, built.body) for number in range(2)]
        upload = api.build_upload_request(requests, BATCH_TAG, KEY)
        created = [upload] if upload else []
        created.append(api.build_create_request(requests, BATCH_TAG, "file-1" if upload else "", KEY))
        sent = b"".join(request.content or json.dumps(request.body).encode() for request in created)
        for request in requests:
            assert request.custom_id.encode() in sent, "each request is sent with its custom_id"
        others = [api.build_poll_request("batch-1", KEY), api.build_list_request("", KEY)]
        others += [results.request for results in api.build_results_requests(Batch("batch-1", is_complete=True), KEY)]
        others += filter(None, [api.build_cancel_request("batch-1", KEY)])
        for http_request in (*created, *others):
            assert KEY in f"{http_request.path} {http_request.headers}", "each batch request contains the key"
        assert api.max_requests > 0
        assert api.max_bytes > 0
