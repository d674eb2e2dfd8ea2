"""Saved conversations as Markdown: questions quoted, answers as they are, calls and results in fences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from ask.history.conversations import Called, steps, summary_of
from ask.history.entries import Conversation, Entry, Run
from ask.render.conversation_parts import call_line, call_text, duration, facts, outcome, prompt_parts
from ask.render.safe_markdown import as_markdown, fenced
from ask.render.transcript import ending
from ask.text import for_terminal, one_line

SPECIAL = re.compile(r"[\\`*_\[\]<>&~|$]|^(?:[#+=-]|\d+[.)]$|\d+[.)](?= ))", re.MULTILINE)
LONGEST_QUOTE = 20
"""Lines of a question that is quoted; what is longer is code or a log most often."""


def as_document(
    conversations: Iterable[Conversation], runs_of: Callable[[Conversation], Sequence[Run]]
) -> Iterator[str]:
    """The text of a document with these conversations, piece by piece; `runs_of` reads one."""
    for place, conversation in enumerate(conversations):
        if place:
            yield "\n---\n\n"
        runs = runs_of(conversation)
        about = " · ".join([*map(literal, facts(conversation, runs)), f"`{conversation.id}`"])
        yield f"# {literal(one_line(conversation.title)) or 'Conversation'}\n\n{about}\n"
        for run in runs:
            yield from (f"\n{block}\n" for block in _blocks(run))


def literal(text: str) -> str:
    """The text in Markdown that shows it as it is, line by line."""
    escaped = SPECIAL.sub(_escaped, for_terminal(text))
    return "\\\n".join(line.strip() for line in escaped.split("\n"))


def _escaped(match: re.Match[str]) -> str:
    digits = match[0][:-1]
    return f"{digits}\\{match[0][-1]}"


def _blocks(run: Run) -> Iterator[str]:
    if run.compacts is not None:
        yield "*A summary, which from here on stands for what was said before:*"
        yield as_markdown(summary_of(run))
    else:
        for step in steps(run.entries):
            yield from _called(step) if isinstance(step, Called) else _said(step)
    for line in ending(run):
        yield f"*{literal(line)}*"


def _said(entry: Entry) -> Iterator[str]:
    message = entry.message
    if message.role != "assistant":
        yield from (_quoted(part.title, part.text) for part in prompt_parts(message.content))
        for attachment in message.attachments:
            yield f"> *with {literal(one_line(attachment.name))} ({len(attachment.data):,} bytes)*"
        return
    if message.content.strip():
        yield as_markdown(message.content)
    if not entry.whole:
        yield "*The answer was cut off here.*"


def _quoted(title: str, text: str) -> str:
    """A part of a question as a quotation."""
    text = text.strip("\n")
    lines = text.split("\n")
    as_it_is = title or len(lines) > LONGEST_QUOTE or any(line[:1].isspace() or not line for line in lines)
    block = fenced(text) if as_it_is else literal(text)
    heading = f"*{literal(title)}*\n\n" if title else ""
    return "\n".join(f"> {line}".rstrip() for line in f"{heading}{block}".split("\n"))


def _called(called: Called) -> Iterator[str]:
    call = called.record.call
    arguments = call_text(call)
    short = arguments == call_line(call)
    about = ", ".join(filter(None, [duration(called.record), outcome(called)]))
    yield f"**{literal(one_line(call.name)) or 'tool'}**" + (f" ({about})" if about else "")
    yield fenced(f"$ {arguments}" if short and call.name == "bash" else arguments)
    if called.result:
        yield fenced(called.result)
