"""Saved conversations as one self-contained HTML page: no scripts, no external resources, dark mode, printable.

Everything from a conversation is escaped text, or Markdown without HTML. The page's Content-Security-Policy
also forbids scripts and requests.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from html import escape
from pathlib import Path

from ask.client.citations import to_markdown
from ask.export.conversation_text import describe_call, describe_conversation, describe_ending
from ask.export.safe_markdown import to_html
from ask.history.entries import Conversation, HistoryEntry, Run
from ask.history.saved_messages import ToolCallStep, extract_summary, list_shown_steps
from ask.messages import Attachment
from ask.render.amounts import format_count, format_local_time, format_timestamp
from ask.text import escape_control_characters, format_one_line, format_size, split_prompt

STYLESHEET_PATH, TEMPLATE_PATH = (Path(__file__).with_suffix(suffix) for suffix in (".css", ".html"))
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Media types of attachments that are shown as images; none of them can contain a script."""
MAX_OPEN_CHARACTERS = 1_500
"""Length in characters beyond which a file or piped text in a prompt is collapsed."""
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'sha256-{style}'; img-src data:; base-uri 'none'; form-action 'none'"
)


def render_conversation_html(
    conversations: Sequence[Conversation], read_runs: Callable[[Conversation], Sequence[Run]]
) -> Iterator[str]:
    """Yield the HTML of these conversations; `read_runs` reads the runs of one."""
    title = _format_title(conversations[0]) if len(conversations) == 1 else f"{len(conversations)} conversations"
    head, tail = render_page_frame(title, STYLESHEET_PATH.read_text())
    yield head
    if len(conversations) > 1:
        yield f"<nav>\n<h1>{escape_html(title)}</h1>\n<ol>\n"
        for conversation in conversations:
            item_title = escape_html(_format_title(conversation))
            yield f'<li><a href="#{escape(conversation.id)}" dir="auto">{item_title}</a> '
            yield f"<small>{_render_time(conversation.updated)}</small></li>\n"
        yield "</ol>\n</nav>\n"
    for conversation in conversations:
        yield from _render_conversation(conversation, read_runs(conversation))
    yield tail


def render_page_frame(title: str, stylesheet: str, language: str = "und") -> tuple[str, str]:
    """Return the HTML before and after the content of a page; `language` is "und" for text in any language."""
    head, tail = TEMPLATE_PATH.read_text().split("{content}")
    policy = CONTENT_SECURITY_POLICY.format(style=b64encode(sha256(stylesheet.encode()).digest()).decode())
    return head.format(policy=policy, title=escape_html(title), style=stylesheet, language=language), tail


def escape_html(text: str) -> str:
    """Escape a text for HTML; control characters are made visible."""
    return escape(escape_control_characters(text))


def _format_title(conversation: Conversation) -> str:
    """Return the title of a conversation on one line."""
    return format_one_line(conversation.title) or "Conversation"


def _render_conversation(conversation: Conversation, runs: Sequence[Run]) -> Iterator[str]:
    facts = "".join(f"<li><bdi>{escape_html(fact)}</bdi></li>" for fact in describe_conversation(conversation, runs))
    title = escape_html(_format_title(conversation))
    yield f'<article id="{escape(conversation.id)}">\n<header>\n<h1 dir="auto">{title}</h1>\n'
    yield f'<ul class="facts">{facts}<li><code>{escape_html(conversation.id)}</code></li></ul>\n</header>\n'
    previous_model = runs[0].model if runs else ""
    for run in runs:
        model = escape_html(format_one_line(run.full_model))
        note = f" · <bdi>{model}</bdi>" if run.model != previous_model else ""
        yield f'<section>\n<p class="when">{_render_time(run.started)}{note}</p>\n'
        previous_model = run.model
        yield from _render_run(run)
        yield "</section>\n"
    yield "</article>\n"


def _render_time(unix_time: float) -> str:
    return f'<time datetime="{format_timestamp(unix_time)}">{format_local_time(unix_time)}</time>'


def _render_run(run: Run) -> Iterator[str]:
    if run.first_kept_run is not None:
        yield '<p class="note">A summary that replaces the messages before it:</p>\n'
        yield f'<div class="answer" dir="auto">\n{to_html(extract_summary(run))}</div>\n'
    else:
        for step in list_shown_steps(run.entries):
            yield from _render_call(step) if isinstance(step, ToolCallStep) else _render_message(step)
    for line in describe_ending(run):
        yield f'<p class="note bad">{escape_html(line)}</p>\n'


def _render_message(entry: HistoryEntry) -> Iterator[str]:
    message = entry.message
    if message.role != "assistant":
        yield '<div class="question">\n'
        yield from (_render_prompt_part(part.title, part.text) for part in split_prompt(message.content))
        yield from map(_render_attachment, message.attachments)
        yield "</div>\n"
        return
    if entry.reasoning.strip():
        yield '<details class="aside"><summary>Thinking</summary>\n<div class="text" dir="auto">'
        yield f"{escape_html(entry.reasoning.strip())}</div>\n</details>\n"
    if (text := to_markdown(message.content, entry.citations)).strip():
        yield f'<div class="answer" dir="auto">\n{to_html(text)}</div>\n'
    yield from map(_render_attachment, message.attachments)
    if not entry.complete:
        yield '<p class="note bad">The answer was cut off here.</p>\n'


def _render_prompt_part(title: str, text: str) -> str:
    text = text.strip("\n")
    if not title:
        return f'<div class="text" dir="auto">{escape_html(text)}</div>\n'
    state = "" if len(text) > MAX_OPEN_CHARACTERS else " open"
    lines = format_count(text.count("\n") + 1, "line")
    summary = f"<bdi>{escape_html(title)}</bdi> <small>{lines}</small>"
    return f"<details{state}><summary>{summary}</summary>\n<pre>{escape_html(text)}</pre>\n</details>\n"


def _render_attachment(attachment: Attachment) -> str:
    name = escape_html(format_one_line(attachment.name))
    if attachment.media_type in IMAGE_TYPES:
        data = b64encode(attachment.data).decode()
        return f'<img alt="{name}" src="data:{attachment.media_type};base64,{data}">\n'
    return f'<p class="note">with <bdi>{name}</bdi> ({format_size(len(attachment.data))})</p>\n'


def _render_call(step: ToolCallStep) -> Iterator[str]:
    name, summary, arguments, duration, outcome = describe_call(step)
    duration = f"<small>{duration}</small>" if duration else ""
    badge = f'<small class="bad">{outcome}</small>' if outcome else ""
    yield f'<details class="call"><summary><b><bdi>{escape_html(name)}</bdi></b> '
    yield f"<code><bdi>{escape_html(summary)}</bdi></code>{duration}{badge}</summary>\n"
    if summary != arguments:
        yield f'<pre class="arguments">{escape_html(arguments)}</pre>\n'
    yield f"<pre>{escape_html(step.result)}</pre>\n"
    yield from map(_render_attachment, step.message.attachments)
    yield "</details>\n"
