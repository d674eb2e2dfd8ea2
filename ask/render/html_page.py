"""Saved conversations as one web page that needs nothing else: no script, nothing loaded, light and dark, on paper too.

Whatever was said is text, or Markdown without HTML. The policy in the page's head forbids all else once more.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from html import escape
from pathlib import Path

from ask.history.conversations import Called, steps, summary_of
from ask.history.entries import Conversation, Entry, Run
from ask.messages import Attachment
from ask.render.conversation_parts import call_line, call_text, duration, facts, outcome, prompt_parts
from ask.render.safe_markdown import as_html
from ask.render.times import local_time, timestamp
from ask.render.transcript import ending
from ask.text import for_terminal, one_line

STYLE = Path(__file__).with_suffix(".css")
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Kinds of attachments that are shown; none of them can hold a script."""
LONG = 1_500
"""Characters of a question's block beyond which it is folded away."""
POLICY = "default-src 'none'; style-src 'sha256-{style}'; img-src data:; base-uri 'none'; form-action 'none'"
HEAD = """\
<!DOCTYPE html>
<html lang="und">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="ask">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
"""
TAIL = "</main>\n</body>\n</html>\n"


def as_page(conversations: Sequence[Conversation], runs_of: Callable[[Conversation], Sequence[Run]]) -> Iterator[str]:
    """The text of a page with these conversations, piece by piece; `runs_of` reads one."""
    style = STYLE.read_text()
    policy = POLICY.format(style=b64encode(sha256(style.encode()).digest()).decode())
    title = name_of(conversations[0]) if len(conversations) == 1 else f"{len(conversations)} conversations"
    yield HEAD.format(policy=policy, title=shown(title), style=style)
    if len(conversations) > 1:
        yield f"<nav>\n<h1>{shown(title)}</h1>\n<ol>\n"
        for conversation in conversations:
            yield f'<li><a href="#{escape(conversation.id)}" dir="auto">{shown(name_of(conversation))}</a></li>\n'
        yield "</ol>\n</nav>\n"
    for conversation in conversations:
        yield from _conversation(conversation, runs_of(conversation))
    yield TAIL


def shown(text: str) -> str:
    """The text as HTML that shows it as it is."""
    return escape(for_terminal(text))


def name_of(conversation: Conversation) -> str:
    """What a conversation is called."""
    return one_line(conversation.title) or "Conversation"


def _conversation(conversation: Conversation, runs: Sequence[Run]) -> Iterator[str]:
    about = "".join(f"<li><bdi>{shown(fact)}</bdi></li>" for fact in facts(conversation, runs))
    yield f'<article id="{escape(conversation.id)}">\n<header>\n<h1 dir="auto">{shown(name_of(conversation))}</h1>\n'
    yield f'<ul class="facts">{about}<li><code>{shown(conversation.id)}</code></li></ul>\n</header>\n'
    asked = runs[0].model if runs else ""
    for run in runs:
        now = f" · <bdi>{shown(one_line(f'{run.provider}:{run.model}'))}</bdi>" if run.model != asked else ""
        yield f'<section>\n<p class="when">{_time(run.started)}{now}</p>\n'
        asked = run.model
        yield from _run(run)
        yield "</section>\n"
    yield "</article>\n"


def _run(run: Run) -> Iterator[str]:
    if run.compacts is not None:
        yield '<p class="note">A summary, which from here on stands for what was said before:</p>\n'
        yield f'<div class="answer" dir="auto">\n{as_html(summary_of(run))}</div>\n'
    else:
        for step in steps(run.entries):
            yield from _called(step) if isinstance(step, Called) else _said(step)
    for line in ending(run):
        yield f'<p class="note bad">{shown(line)}</p>\n'


def _said(entry: Entry) -> Iterator[str]:
    message = entry.message
    if message.role != "assistant":
        yield '<div class="question">\n'
        yield from (_part(part.title, part.text) for part in prompt_parts(message.content))
        yield from map(_attached, message.attachments)
        yield "</div>\n"
        return
    if entry.reasoning.strip():
        yield '<details class="aside"><summary>Thinking</summary>\n<div class="text" dir="auto">'
        yield f"{shown(entry.reasoning.strip())}</div>\n</details>\n"
    if message.content.strip():
        yield f'<div class="answer" dir="auto">\n{as_html(message.content)}</div>\n'
    if not entry.whole:
        yield '<p class="note bad">The answer was cut off here.</p>\n'


def _part(title: str, text: str) -> str:
    text = text.strip("\n")
    if not title:
        return f'<div class="text" dir="auto">{shown(text)}</div>\n'
    state = "" if len(text) > LONG else " open"
    lines = text.count("\n") + 1
    about = f"<bdi>{shown(title)}</bdi> <small>{lines:,} {'line' if lines == 1 else 'lines'}</small>"
    return f"<details{state}><summary>{about}</summary>\n<pre>{shown(text)}</pre>\n</details>\n"


def _attached(attachment: Attachment) -> str:
    name = shown(one_line(attachment.name))
    if attachment.media_type in PICTURES:
        data = b64encode(attachment.data).decode()
        return f'<img alt="{name}" src="data:{attachment.media_type};base64,{data}">\n'
    return f'<p class="note">with <bdi>{name}</bdi> ({len(attachment.data):,} bytes)</p>\n'


def _called(called: Called) -> Iterator[str]:
    record = called.record
    how = outcome(called)
    seconds = f"<small>{duration(record)}</small>" if duration(record) else ""
    badge = f'<small class="bad">{how}</small>' if how else ""
    line, arguments = call_line(record.call), call_text(record.call)
    yield f'<details class="call"><summary><b><bdi>{shown(one_line(record.call.name))}</bdi></b> '
    yield f"<code><bdi>{shown(line)}</bdi></code>{seconds}{badge}</summary>\n"
    if line != arguments:
        yield f'<pre class="arguments">{shown(arguments)}</pre>\n'
    yield f"<pre>{shown(called.result)}</pre>\n</details>\n"


def _time(moment: float) -> str:
    return f'<time datetime="{timestamp(moment)}">{local_time(moment)}</time>'
