# ruff: noqa: S101 - the contract is checked by assertions
"""Contract tests for the conversation in requests: texts, tool calls and their results, and files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ask import Attachment, Message, ToolCall, ToolSpec
from ask.parsing import decode_arguments
from ask.testing.changed_answer_tests import MALFORMED_ARGUMENTS, NEW_NAME
from ask.testing.conversation import (
    ATTACHMENTS,
    LONG_CONVERSATION,
    LOOK_UP_PARAMETERS,
    MEDIA_TYPES,
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
    iterate_leaves,
    iterate_parts,
    shorten,
)
from ask.testing.request_tests import RequestTests
from ask.testing.sample_changes import format_path, iterate_paths
from ask.testing.samples import ADD_2_3, sends_text

SECOND_CALL = ToolCall("call_3", "look_up", '{"word": "hvalur"}')
ROUNDS_CONVERSATION = (
    *TOOL_CONVERSATION,
    Message("assistant", "One more.", (SECOND_CALL,)),
    Message("tool", "a big whale", (), SECOND_CALL.id, SECOND_CALL.name),
    Message("assistant", "Now I know."),
    Message("user", "Thank you."),
)
"""A conversation with two rounds of tool calls."""
ROUNDS_TEXTS = (USER_MESSAGE.content, "lundi", "rostungur", *TOOL_RESULTS, "hvalur", "a big whale", "Now I know.")
SPACED_TEXTS = (
    *(" \n☃ system 🙂\n", "\tuser é\n\n", " beside a call ☃ ", "  indented\n\tresult 🙂\n", " the end ☃\n "),
)
NAMED_TOOL = ToolSpec(NEW_NAME, "Explains a word.", LOOK_UP_PARAMETERS)

MEDIA_TYPE = re.compile(r"\b(?:image|audio|video|application|text)/[\w.+-]+")
FORMATS = {
    **{media_type: (media_type.partition("/")[2],) for media_type in MEDIA_TYPES},
    "image/jpeg": ("jpeg", "jpg"),
    "audio/mpeg": ("mpeg", "mp3", "x-mp3"),
    "audio/wav": ("wav", "wave", "x-wav"),
}
"""The names of a MIME type after the slash, by which some services call it."""
ALL_BYTES = bytes(range(256)) * 2 + b"\xfb\xef\xbe\r\n\x00"
"""Bytes whose Base64 contains every character, and padding."""


class HistoryTests(RequestTests):
    """The contract for conversations of several rounds. Each test builds on simpler ones of `RequestTests`."""

    def test_each_part_keeps_its_place(self) -> None:
        """Results follow their calls in each round, and the text beside calls is sent."""
        if not (self.has_tools and self.passes("test_each_tool_result_is_sent_once", "test_tool_calls_are_sent_back")):
            return
        body = self.build(ROUNDS_CONVERSATION, tools=TOOLS).body
        for text in ("I shall look both up.", "One more."):
            assert len(find_occurrences(text, body)) == 1, (
                f"provider_build_request sent {text!r} {len(find_occurrences(text, body))} times instead of once: it "
                "is the text of an assistant message with tool calls. Send message.content and message.tool_calls."
            )
        check_once(body, *ROUNDS_TEXTS)
        check_once(body, USER_MESSAGE.content, "I shall look both up.", *TOOL_RESULTS, "One more.", "a big whale")

    def test_texts_are_sent_unchanged(self) -> None:
        if not self.passes("test_request_contains_each_message_once", "test_each_tool_result_is_sent_once"):
            return
        system, user, beside, result, end = SPACED_TEXTS
        messages = [Message("system", system), Message("user", user), Message("assistant", end), USER_MESSAGE]
        if self.has_tools:
            call = TOOL_CALLS[0]
            tool_round = [Message("assistant", beside, (call,)), Message("tool", result, (), call.id, call.name)]
            messages[2:2] = tool_round
        body = self.build(messages, tools=TOOLS).body
        for message in messages[:-1]:
            assert len(find_occurrences(message.content, body)) == 1, (
                f"provider_build_request did not send the text {message.content!r} of a message with the role "
                f"{message.role!r} unchanged. Send every character: do not strip texts or change the encoding."
            )

    def test_empty_tool_results_are_sent(self) -> None:
        if not (self.has_tools and self.passes("test_each_tool_result_is_sent_once")):
            return
        results = [i for i, message in enumerate(TOOL_CONVERSATION) if message.role == "tool"]
        empty = [
            message._replace(content="") if i == results[0] else message for i, message in enumerate(TOOL_CONVERSATION)
        ]
        missing = [message for i, message in enumerate(TOOL_CONVERSATION) if i != results[0]]
        assert self.build(empty, tools=TOOLS).body != self.build(missing, tools=TOOLS).body, (
            "provider_build_request left out a tool result without text. Send message.formatted_result for every "
            "result: services reject calls without a result."
        )

    def test_tool_history_is_sent_without_tools(self) -> None:
        """A conversation with calls may continue without tools, for example with --no-tools."""
        if not (self.has_tools and self.passes("test_each_tool_result_is_sent_once", "test_tool_calls_are_sent_back")):
            return
        body = self.build(LONG_CONVERSATION).body
        for text in ("lundi", "rostungur", *TOOL_RESULTS):
            assert len(find_occurrences(text, body)) == 1, (
                f"Without request.tools, provider_build_request sent {shorten(text)} of an earlier tool call or its "
                f"result {len(find_occurrences(text, body))} times instead of once. Send the calls and results of the "
                "conversation whether or not request.tools is empty."
            )

    def test_nothing_about_tools_is_sent_without_tools(self) -> None:
        if not (self.has_tools and self.passes("test_tool_choice_changes_the_request")):
            return
        with_choice = [
            dict(iterate_paths(self.build(tools=TOOLS, tool_choice=choice).body)) for choice in ("auto", "none")
        ]
        without_tools = dict(iterate_paths(self.build().body))
        for choice in ("auto", "none"):
            body = self.build(tool_choice=choice).body
            for path, _ in iterate_paths(body):
                changes = any(path not in fields for fields in with_choice) or (
                    with_choice[0].get(path) != with_choice[1].get(path)
                )
                assert path in without_tools and not (changes and path in with_choice[0].keys() & with_choice[1]), (
                    f"Without request.tools, provider_build_request sent {format_path(path)}, which depends on the "
                    "tool choice. Send it only with request.tools: services reject it otherwise."
                )
            for name, value in _iterate_containers(body):
                assert value or not re.search("tool|function", name, re.IGNORECASE), (
                    f"Without request.tools, provider_build_request sent {name}: {value!r}. Leave it out: services "
                    "reject empty lists of tools."
                )

    def test_schema_leaves_the_tools_as_they_are(self) -> None:
        if not (
            self.has_tools and self.passes("test_schema_changes_nothing_else", "test_tools_are_sent_only_when_offered")
        ):
            return
        auto, none, both = (
            dict(iterate_paths(self.build(tools=TOOLS, tool_choice=choice, schema=schema).body))
            for choice, schema in (("auto", None), ("none", None), ("auto", OBJECT_SCHEMA))
        )
        for path in [path for path, value in auto.items() if none.get(path) != value]:
            assert both.get(path) == auto[path], (
                f"With a schema, provider_build_request sent {format_path(path)} as {both.get(path)!r} instead of "
                f"{auto[path]!r}. Do not change the tools or the tool choice because of request.schema: the model must "
                "be able to call tools first."
            )
        tools = self.format_tools(TOOLS)
        body = self.build(tools=TOOLS, schema=OBJECT_SCHEMA).body
        for tool in tools:
            assert any(part == tool for _, part in iterate_parts(body)), (
                f"With a schema, provider_build_request sent the tool {shorten(json.dumps(tool))} changed. Send "
                "request.tools unchanged."
            )

    def test_malformed_arguments_are_not_sent(self) -> None:
        """Services reject a conversation with a call whose arguments are no JSON."""
        if not (self.has_tools and self.passes("test_malformed_arguments_in_the_history_are_accepted")):
            return
        if not sends_text(self.responses.get("call", {}), ADD_2_3[1]):
            return
        for arguments in (MALFORMED_ARGUMENTS, "no JSON", ""):
            # The arguments are at the path where those of a correct call are.
            correct = self.build(TOOL_CONVERSATION, tools=TOOLS).body
            (path,) = [path for path, leaf in iterate_paths(correct) if isinstance(leaf, str) and "lundi" in leaf][:1]
            body = self.build(change_arguments(arguments), tools=TOOLS).body
            sent = dict(iterate_paths(body)).get(path)
            assert isinstance(sent, str) and decode_arguments(sent) is not None, (
                f"provider_build_request sent {sent!r} as {format_path(path)}, the malformed arguments of an earlier "
                "call: services reject the conversation. Send '{}' if ask.parsing.decode_arguments(call.arguments) is "
                "None."
            )

    def test_tool_names_are_sent_unchanged(self) -> None:
        if not (self.has_tools and self.passes("test_formatted_tools_are_complete", "test_tool_calls_are_sent_back")):
            return
        tools = self.format_tools([NAMED_TOOL])
        assert NEW_NAME in set(iterate_leaves(tools)), (
            f"provider_format_tools returned {shorten(json.dumps(tools))}, without the name {NEW_NAME!r} as it is. "
            "Send names unchanged: ask finds the tool by the name in the call."
        )
        call = TOOL_CALLS[0]._replace(name=NEW_NAME)
        messages = (
            *SHORT_CONVERSATION,
            Message("assistant", "", (call,)),
            Message("tool", TOOL_RESULTS[0], (), call.id, call.name),
        )
        body = self.build(messages, tools=TOOLS).body  # without tools, calls may be sent as text
        assert NEW_NAME in set(iterate_leaves(body)), (
            f"provider_build_request did not send the name of a call of the tool {NEW_NAME!r} as it is. Send call.name "
            "unchanged: it is the name of the tool that the service was given."
        )

    def test_files_are_sent_with_their_media_type_and_content(self) -> None:
        """The type is that of the attachment, whatever its name, and the data is every byte in Base64."""
        if not self.passes("test_supported_attachments_are_sent_once"):
            return
        accepted = [attachment.media_type for attachment in ATTACHMENTS if self.takes(attachment.media_type)]
        bodies = {media_type: self.build_with_file(media_type) for media_type in accepted}
        for media_type, (attachment, body) in bodies.items():
            assert len(find_occurrences(attachment.base64, body)) == 1, (
                f"provider_build_request did not send the data of {attachment.name!r} ({media_type}) unchanged in "
                "Base64. Send attachment.base64 or attachment.data_url."
            )
            named = sorted(_find_media_types(body, attachment) - {media_type})
            assert not named, (
                f"provider_build_request sent {named[0]} for the file {attachment.name!r}, whose type is {media_type}. "
                "Send attachment.media_type: the name says nothing about the type."
            )
        has_types = any(_find_media_types(body, attachment) for attachment, body in bodies.values())
        for media_type, (attachment, body) in bodies.items():
            assert not has_types or _find_media_types(body, attachment), (
                f"provider_build_request did not send the type {media_type} of the file {attachment.name!r}, though it "
                "does for other types. Send attachment.media_type."
            )

    def build_with_file(self, media_type: str) -> tuple[Attachment, Any]:
        """Build a request with a file whose name looks like that of another type."""
        extension = "jpg" if media_type == "image/png" else "png"
        attachment = Attachment(f"größe.{extension}", media_type, ALL_BYTES)
        message = USER_MESSAGE._replace(attachments=(attachment,))
        return attachment, self.build((SYSTEM_MESSAGE, message)).body


def _find_media_types(body: Any, attachment: Attachment) -> set[str]:
    """Return the MIME types that a request names for its only file, also by their other and short names."""
    found = set()
    for leaf in iterate_leaves(body):
        if not isinstance(leaf, str):
            continue
        text = leaf.replace(attachment.base64, "")
        main_types = {name: media_type for media_type, names in FORMATS.items() for name in names}
        for named in MEDIA_TYPE.findall(text):
            found.add(main_types.get(named.partition("/")[2], named))
        if short := main_types.get(text.strip(".").lower()):
            found.add(short)
    return found


def _iterate_containers(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all objects and arrays inside a JSON value, each with its name."""
    if isinstance(value, dict):
        if name:
            yield name, value
        for key, part in value.items():
            yield from _iterate_containers(part, key)
    elif isinstance(value, list | tuple):
        yield name, value
        for part in value:
            yield from _iterate_containers(part)
