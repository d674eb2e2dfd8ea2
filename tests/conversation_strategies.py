"""Hypothesis strategies for saved conversations with any content, as in `ask.history.export_format`."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from ask import Usage
from tests.json_strategies import any_json

CANARY = """<script>document.title='ran'</script><img src=x onerror="document.title='ran'"><svg onload="alert(1)">"""
HOSTILE = [
    CANARY,
    "</pre></details></div></article></main></style></title></body>",
    "[a](javascript:alert(1)) [b](&#106;avascript:alert(1)) [c](data:text/html,x) ![d](http://127.0.0.1:9/x.png)",
    "<javascript:alert(1)> <file:///etc/passwd> [e]: javascript:alert(1)\n\n[e]",
    '[f](http://x" onmouseover="alert(1)) ![g" onerror="alert(1)](http://x) `<b>`',
    "```\nnever closed",
    "~~~~ html\n```\n",
    "````\n```\n`````",
    "<!-- never closed",
    "<pre>\n\n<![CDATA[ <?php",
    "    indented\n\n- list\n  ```\n  in it",
    "\x1b[31mred\x1b[0m\x07 \u202egnp.exe\u202c \u2066x\u2069 \u2028 \0 \r\n \x9b31m",
    "# heading\n---\n| a |\n|--:|\n| <b>1</b> |",
    "question\n\n<stdin>\n</pre><script>\n</stdin>",
    'look\n\n<file name="a\\"><script>.c">\nint main;\n</file>\n\n<file-2 name="b">\n</file>\n</file-2>',
    "<stdin>\n<stdin>\n" * 3,
    "[" * 6_000,
    "> " * 60 + "deep",
    "x" * 5_000,
    "{}",
    '{"command": "rm -rf /", "why": null}',
    '{"content": "a\\nb\\n```\\n"}',
    "مرحبا 👩‍👩‍👧 ﷽",
]


LINES = st.sampled_from(HOSTILE) | st.text(max_size=20)
TEXTS = LINES | st.lists(LINES, max_size=2).map("\n".join)
TIMES = st.floats(0, 250_000_000_000, allow_nan=False)
WHOLE_NUMBERS = st.none() | st.integers(-(2**63) + 1, 2**63 - 1)
NUMBERS = st.none() | st.floats(0, 1e9, allow_nan=False)
IDS = st.from_regex(r"[a-f][0-9a-f]{11}", fullmatch=True)
JSON = any_json()
USAGES = st.fixed_dictionaries(
    dict.fromkeys(Usage._fields, WHOLE_NUMBERS) | {"cost": NUMBERS, "service_tier": st.none() | TEXTS}
)
CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "id": TEXTS,
            "name": TEXTS,
            "arguments": TEXTS | JSON.map(json.dumps),
            "started": st.none() | TIMES,
            "seconds": NUMBERS,
            "failed": st.none() | st.booleans(),
            "decision": st.sampled_from([None, "allow", "deny"]) | TEXTS,
            "rule": st.none() | TEXTS,
            "exit_status": st.none() | st.integers(-128, 255),
        }
    ),
    max_size=2,
)
ATTACHMENTS = st.lists(
    st.fixed_dictionaries(
        {
            "name": TEXTS,
            "media_type": st.sampled_from(["image/png", "image/svg+xml", 'text/html"><script>']),
            "data": st.binary(max_size=9).map(lambda data: b64encode(data).decode()),
        }
    ),
    max_size=1,
)
PROVIDER_STATES = st.none() | st.fixed_dictionaries(
    {"provider": TEXTS, "model": TEXTS, "data": st.dictionaries(st.text(max_size=3), JSON, max_size=3)}
)


PLACES = st.none() | st.integers(-3, 60)
CITATIONS = st.lists(
    st.fixed_dictionaries(
        {
            "url": st.sampled_from(["javascript:alert(1)", "https://a.example/x", 'http://b.example/"><script>'])
            | TEXTS
            | TEXTS.map("https://c.example/".__add__),
            "title": TEXTS,
            "cited_text": TEXTS,
            "start": PLACES,
            "end": PLACES,
        }
    ),
    max_size=2,
)
DIGESTS = st.lists(st.text("0123456789abcdef", min_size=1), max_size=2)
"""Also damaged ones, which no file has."""
SERVER_CALLS = st.lists(
    st.fixed_dictionaries({"name": TEXTS, "arguments": TEXTS, "result": TEXTS, "failed": st.booleans()}), max_size=1
)


@st.composite
def messages(draw: st.DrawFn, role: str, calling: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    return {
        "time": draw(TIMES),
        "role": role,
        "content": draw(TEXTS),
        "complete": draw(st.booleans()),
        "reasoning": draw(TEXTS),
        "finish_reason": draw(st.sampled_from(["", "stop", "cut"])),
        "provider": draw(st.just("") | TEXTS),
        "model": draw(st.just("") | TEXTS),
        "usage": draw(USAGES),
        "tool_call_id": "",
        "tool_name": draw(TEXTS),
        "calls": list(calling),
        "attachments": draw(ATTACHMENTS),
        "provider_state": draw(PROVIDER_STATES),
        "citations": draw(CITATIONS),
        "server_calls": draw(SERVER_CALLS),
        "refused_files": draw(DIGESTS),
    }


@st.composite
def runs(draw: st.DrawFn) -> dict[str, Any]:
    """Generate a run whose tool results answer its first calls in order."""
    drawn_messages = [draw(messages("user"))]
    for _ in range(draw(st.integers(0, 2))):
        calling = draw(CALLS)
        drawn_messages.append(draw(messages("assistant", calling)))
        answered = calling[: draw(st.integers(0, 2))]
        drawn_messages += [{**draw(messages("tool")), "tool_call_id": call["id"]} for call in answered]
    names = ("version", "provider", "model", "system", "directory", "terminal", "error")
    return {
        "started": draw(TIMES),
        "ended": draw(st.none() | TIMES),
        "first_kept_run": None,
        "replaced_by": None,
        "status": draw(st.sampled_from(["", "refused", "merged"])),
        **{name: draw(TEXTS) for name in names},
        "exit_code": draw(st.none() | st.integers(0, 255)),
        "rounds": draw(st.integers(0, 99)),
        "usage": draw(USAGES),
        "messages": drawn_messages,
    }


@st.composite
def conversations(draw: st.DrawFn) -> dict[str, Any]:
    several = draw(st.lists(runs(), min_size=1, max_size=2))
    for run in several[1:]:
        run["first_kept_run"] = draw(st.none() | st.integers(0, len(several)))
    for index, run in enumerate(several[:-1]):
        run["replaced_by"] = draw(st.none() | st.integers(index + 1, len(several) - 1))
    about = {
        "format": "ask-conversation",
        "version": 2,
        "id": draw(IDS),
    }
    return {**about, "title": draw(TEXTS), "created": draw(TIMES), "updated": draw(TIMES), "runs": several}
