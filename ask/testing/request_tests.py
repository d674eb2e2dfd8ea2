# ruff: noqa: S101 - the contract is checked by assertions
"""Contract tests for building requests."""

from __future__ import annotations

import json
from itertools import pairwise

from ask import ChatRequest, HttpRequest, ProviderState
from ask.testing.base import TOOL_HOOKS, ContractBase
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
    check_once,
    find_occurrences,
    is_prefix,
    iterate_leaves,
    remove_cache_markers,
)


class RequestTests(ContractBase):
    """The contract for `provider_build_request`, the tool formats and the models request."""

    def test_request_holds_each_text_once(self) -> None:
        for stream in (True, False):
            body = self.build(stream=stream).body
            for message in SHORT_CONVERSATION:
                check_once(body, message.content)

    def test_request_names_the_model_and_a_path(self) -> None:
        request = self.build(model="model-1")
        named = "model-1" in request.path or find_occurrences("model-1", request.body)
        assert named, "the model asked for is in the request"
        assert request.method == "POST", "a chat request is a POST"
        assert request.path.startswith("/"), "the path is joined to the base URL"

    def test_supports_tools_says_yes_or_no(self) -> None:
        supported = self.call("provider_supports_tools", model=self.model)
        assert isinstance(supported, bool)
        assert self.has_tools or not supported, f"a provider that supports tools has {' and '.join(TOOL_HOOKS)}"

    def test_takes_attachment_says_yes_or_no(self) -> None:
        for media_type in ("image/png", "application/pdf", "audio/wav", "application/x-no-such-thing"):
            self.takes(media_type)
        assert not self.takes("application/x-no-such-thing"), "what nobody knows is not taken"

    def test_attachment_that_is_taken_is_sent_once_and_whole(self) -> None:
        for attachment in filter(lambda attachment: self.takes(attachment.media_type), ATTACHMENTS):
            data = attachment.base64
            message = USER_MESSAGE._replace(attachments=(attachment,))
            body = self.build((SYSTEM_MESSAGE, message)).body
            check_once(body, data)
            check_once(body, USER_MESSAGE.content)
            longer = self.build((SYSTEM_MESSAGE, message, *LONG_CONVERSATION[2:]), tools=TOOLS).body
            check_once(longer, data)
            shorter = remove_cache_markers(self.build((SYSTEM_MESSAGE, message), tools=TOOLS).body)
            assert is_prefix(shorter, remove_cache_markers(longer)), "as what was sent before"
            check_once(self.build((SYSTEM_MESSAGE, message._replace(content=""))).body, data)

    def test_several_attachments_stay_in_order(self) -> None:
        accepted = [attachment for attachment in ATTACHMENTS if self.takes(attachment.media_type)]
        for pair in pairwise(accepted):
            body = self.build((SYSTEM_MESSAGE, USER_MESSAGE._replace(attachments=pair))).body
            check_once(body, *(attachment.base64 for attachment in pair))

    def test_formatted_tools_keep_names_descriptions_and_parameters(self) -> None:
        tools = self.format_tools(TOOLS)
        json.dumps(tools, allow_nan=False)
        for tool in TOOLS:
            assert find_occurrences(tool.name, tools), f"the name {tool.name} is there"
            assert find_occurrences(tool.description, tools), f"the description of {tool.name} is there"
        assert '"word"' in json.dumps(tools), "the parameters are there"

    def test_tools_are_in_the_request_only_when_offered(self) -> None:
        if self.has_tools:
            assert find_occurrences("Explains a word.", self.build(tools=TOOLS).body), "tools on offer are in the body"
            assert not find_occurrences("Explains a word.", self.build().body), "tools not on offer are not"

    def test_formatted_tools_are_placed_in_the_request(self) -> None:
        """The descriptions are changed after formatting, so that only these dicts contain them."""
        if not self.has_tools:
            return
        text = json.dumps(self.format_tools(TOOLS)).replace("Explains a word.", "Explains a placed word.")
        request = ChatRequest(self.model, SHORT_CONVERSATION, json.loads(text))
        body = self.build_formatted(request).body
        assert len(find_occurrences("Explains a placed word.", body)) == 1, "ChatRequest.tools is in the body"
        lost = set(iterate_leaves(request.tools)) - set(iterate_leaves(body))
        assert not lost, f"what provider_format_tools returned is in the body, but not {lost}"

    def test_formatted_results_are_placed_in_the_request(self) -> None:
        """The results are formatted with other texts, so that only `formatted_result` contains these."""
        if not self.has_tools:
            return
        messages = list(TOOL_CONVERSATION)
        placed_texts = [f"placed: {message.content}" for message in messages if message.role == "tool"]
        for index, text in enumerate(placed_texts, len(messages) - len(placed_texts)):
            formatted_result = self.format_result(messages[index]._replace(content=text)).formatted_result
            messages[index] = messages[index]._replace(formatted_result=formatted_result)
        body = self.build_formatted(ChatRequest(self.model, messages, self.format_tools(TOOLS))).body
        for text in (*placed_texts, *TOOL_RESULTS):
            assert len(find_occurrences(text, body)) == 1, "the formatted_result is in the body, without the content"

    def test_tool_choice_none_changes_the_request(self) -> None:
        if not self.has_tools:
            return
        auto, none = (self.build(TOOL_CONVERSATION, tools=TOOLS, tool_choice=choice) for choice in ("auto", "none"))
        assert auto.body != none.body, 'tool_choice "none" keeps the model from calling'

    def test_formatted_result_keeps_its_text_and_names_its_call(self) -> None:
        call, text = TOOL_CALLS[0], TOOL_RESULTS[0]
        result = self.call("provider_format_tool_result", tool_call_id=call.id, tool_name=call.name, result=text)
        check_once(result, text)
        assert find_occurrences(call.id, result) or find_occurrences(call.name, result), (
            "so is the call's id or the tool's name"
        )

    def test_each_result_is_sent_once_and_after_the_calls(self) -> None:
        if not self.has_tools:
            return
        body = self.build(TOOL_CONVERSATION, tools=TOOLS).body
        check_once(body, USER_MESSAGE.content, "lundi", "rostungur", *TOOL_RESULTS)

    def test_malformed_arguments_in_the_history_do_no_harm(self) -> None:
        for arguments in ("", '{"word": ', '{"a": 1}{"a": 2}', "[1]", "null", '"lundi"', "no JSON", "\ud800"):
            calls = (TOOL_CALLS[0]._replace(arguments=arguments), TOOL_CALLS[1])
            messages = [
                message._replace(tool_calls=calls) if message.tool_calls else message for message in TOOL_CONVERSATION
            ]
            check_once(self.build(messages, tools=TOOLS).body, *TOOL_RESULTS)

    def test_options_are_passed_on(self) -> None:
        values = list(iterate_leaves(self.build(options={"temperature": 0.25, "max_tokens": 1234}).body))
        assert 0.25 in values, "the temperature is in the body"
        assert 1234 in values, "max_tokens is in the body, under whatever name"

    def test_a_schema_leaves_all_else_as_it_is(self) -> None:
        for schema in (OBJECT_SCHEMA, {"type": "array", "items": {}}):
            for choice in ("auto", "none"):
                body = self.build(TOOL_CONVERSATION, tools=TOOLS, tool_choice=choice, schema=schema).body
                check_once(body, SYSTEM_MESSAGE.content)
                check_once(body, USER_MESSAGE.content, *TOOL_RESULTS)
            if self.has_tools:
                body = self.build(tools=TOOLS, schema=schema).body
                assert find_occurrences("Explains a word.", body), "tools stay on offer"

    def test_native_parts_of_another_provider_are_dropped(self) -> None:
        assert FOREIGN_TEXT not in self.dump_with(ProviderState("somebody-else", self.model, FOREIGN_STATE), self.model)

    def test_native_parts_of_another_model_family_are_dropped(self) -> None:
        assert FOREIGN_TEXT not in self.dump_with(ProviderState(self.info.name, "alpha/one", FOREIGN_STATE), "beta/two")

    def dump_with(self, state: ProviderState, model: str) -> str:
        """Return the body for a conversation whose assistant messages have `provider_state`."""
        messages = [
            message._replace(provider_state=state) if message.role == "assistant" else message
            for message in LONG_CONVERSATION
        ]
        return json.dumps(self.build(messages, model=model, tools=TOOLS).body)

    def test_key_is_in_the_headers_only(self) -> None:
        requests = [self.build(TOOL_CONVERSATION, tools=TOOLS), self.call("provider_models_request", key=KEY)]
        for request in filter(None, requests):
            assert KEY not in request.path, "the key is not in the path, which may be logged"
            assert KEY not in json.dumps(request.body), "the key is not in the body"
            if self.info.needs_key:
                assert any(KEY in value for value in request.headers.values()), "the key is in a header"

    def test_without_a_key_there_is_no_empty_token(self) -> None:
        headers_with_key, headers_without_key = self.build().headers, self.build(key="").headers
        for name, value in headers_with_key.items():
            if KEY in value:
                token = headers_without_key.get(name, "no such header").strip()
                assert token not in ("", value.replace(KEY, "").strip()), f"{name} is left out where there is no key"

    def test_same_request_builds_the_same_bytes(self) -> None:
        first, second = (self.build(TOOL_CONVERSATION, tools=TOOLS, options={"temperature": 0.25}) for _ in range(2))
        assert json.dumps(first.body) == json.dumps(second.body), "providers cache by prefix: the body is the same"
        assert (first.path, first.headers) == (second.path, second.headers)

    def test_longer_conversation_begins_with_the_shorter_one(self) -> None:
        conversations = [SHORT_CONVERSATION, TOOL_CONVERSATION, LONG_CONVERSATION]
        bodies = [remove_cache_markers(self.build(conversation, tools=TOOLS).body) for conversation in conversations]
        for shorter, longer in pairwise(bodies):
            assert is_prefix(shorter, longer), "what was sent before is sent again unchanged, as providers cache it"

    def test_models_request_is_a_get(self) -> None:
        request = self.call("provider_models_request", key=KEY)
        if request is not None:  # None, the default, means that there is no models list
            assert isinstance(request, HttpRequest), "provider_models_request returns an HttpRequest, or None"
            assert request.method == "GET"
            assert request.body is None
            assert request.path.startswith("/"), "the path is joined to the base URL"
            assert SYSTEM_MESSAGE.content not in request.path
