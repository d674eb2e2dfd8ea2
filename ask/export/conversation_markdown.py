"""Saved conversations as Markdown: prompts as quotes, answers unchanged, tool calls and results in fences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from ask.client.citations import to_markdown
from ask.export.conversation_text import describe_call, describe_conversation, describe_ending
from ask.export.safe_markdown import format_code_block, to_safe_markdown
from ask.history.entries import Conversation, HistoryEntry, Run
from ask.history.saved_messages import ToolCallStep, extract_summary, list_shown_steps
from ask.messages import Attachment
from ask.text import escape_control_characters, format_one_line, format_size, split_prompt

SPECIAL_CHARACTERS = re.compile(r"[\\`*_\[\]<>&~|$]|^(?:[#+=-]|\d+[.)]$|\d+[.)](?= ))", re.MULTILINE)
MAX_QUOTED_LINES = 20
"""Maximum number of lines of a prompt that is quoted; longer ones are mostly code or logs, and are fenced."""


def render_conversation_markdown(
    conversations: Iterable[Conversation], read_runs: Callable[[Conversation], Sequence[Run]]
) -> Iterator[str]:
    """Yield the Markdown of these conversations; `read_runs` reads the runs of one."""
    for position, conversation in enumerate(conversations):
        if position:
            yield "\n---\n\n"
        runs = read_runs(conversation)
        facts = " · ".join([*map(escape_markdown, describe_conversation(conversation, runs)), f"`{conversation.id}`"])
        yield f"# {escape_markdown(format_one_line(conversation.title)) or 'Conversation'}\n\n{facts}\n"
        for run in runs:
            yield from (f"\n{block}\n" for block in _render_run(run))


def escape_markdown(text: str) -> str:
    """Escape a text for Markdown, so that it is rendered literally, line by line."""
    escaped = SPECIAL_CHARACTERS.sub(_escape_match, escape_control_characters(text))
    return "\\\n".join(line.strip() for line in escaped.split("\n"))


def _escape_match(match: re.Match[str]) -> str:
    digits = match[0][:-1]  # of a list item such as "1.", in which only the mark is escaped
    return f"{digits}\\{match[0][-1]}"


def _render_run(run: Run) -> Iterator[str]:
    if run.first_kept_run is not None:
        yield "*A summary that replaces the messages before it:*"
        yield to_safe_markdown(extract_summary(run))
    else:
        for step in list_shown_steps(run.entries):
            yield from _render_call(step) if isinstance(step, ToolCallStep) else _render_message(step)
    for line in describe_ending(run):
        yield f"*{escape_markdown(line)}*"


def _render_message(entry: HistoryEntry) -> Iterator[str]:
    message = entry.message
    if message.role != "assistant":
        yield from (_format_quote(part.title, part.text) for part in split_prompt(message.content))
        yield from (f"> {_format_attachment(attachment)}" for attachment in message.attachments)
        return
    if message.content.strip():
        yield to_safe_markdown(to_markdown(message.content, entry.citations))
    yield from map(_format_attachment, message.attachments)
    if not entry.complete:
        yield "*The answer was cut off here.*"


def _format_quote(title: str, text: str) -> str:
    text = text.strip("\n")
    lines = text.split("\n")
    is_literal = title or len(lines) > MAX_QUOTED_LINES or any(line[:1].isspace() or not line for line in lines)
    block = format_code_block(text) if is_literal else escape_markdown(text)
    heading = f"*{escape_markdown(title)}*\n\n" if title else ""
    return "\n".join(f"> {line}".rstrip() for line in f"{heading}{block}".split("\n"))


def _render_call(step: ToolCallStep) -> Iterator[str]:
    name, summary, arguments, duration, outcome = describe_call(step)
    details = ", ".join(filter(None, [duration, outcome]))
    yield f"**{escape_markdown(name) or 'tool'}**" + (f" ({details})" if details else "")
    yield format_code_block(f"$ {arguments}" if arguments == summary and name == "bash" else arguments)
    if step.result:
        yield format_code_block(step.result)
    yield from map(_format_attachment, step.message.attachments)


def _format_attachment(attachment: Attachment) -> str:
    return f"*with {escape_markdown(format_one_line(attachment.name))} ({format_size(len(attachment.data))})*"
