"""A streaming answer: the final screen is the same as for a complete answer."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it.token import Token

from ask.render.live_region import LiveRegion
from ask.render.markdown_answer import MarkdownStreamRenderer
from ask.render.markdown_rows import PLAIN_TEXT, get_parser
from tests.screen import Screen

BLOCKS = [
    *(
        "# Heading",
        "Setext\n------",
        "A paragraph\nof two lines",
        "> a quote\n> - with a list",
        "***",
        "|a|b|\n|-|-|\n|1|2|",
    ),
    *(
        "- item",
        "* other",
        "1. one",
        "2) two",
        "- a\n  - nested\n\n  more of it",
        "3. x\n   ```sh\n   - y\n\n   z\n   ```",
    ),
    *("<pre>\na*b*2\n\n__init__\n</pre>", "<!-- a\n\n# b -->", "<div>\n*x*", "<b>bold</b> *text*"),
    *("```py\ncode\n\n# no heading\n```", "~~~\n```\n~~~", "    indented\n\n    code", "- [ ] task", "[1]: http://x"),
    *("$$\n- a_{1}^{*} + b^{*}\n$$", "\\[\n# x\n= y\n\\]", "see $x^{*} = y^{*}$"),
]
LINES = [
    *"\n".join(BLOCKS).split("\n"),
    "",
    "",
    "```",
    "`",
    "  ",
    "\t- x",
    "    ",
    "-",
    "1.",
    "=",
    "- ```",
    "> ```",
    "  ~~~",
]
TABLE = "- item\n  - nested\n\n| Name | Size |\n|------|-----:|\n| one | 1 |\n\n"


class AnswerScreen:
    """An answer on a terminal that is redrawn for each piece."""

    def __init__(self, *, watched: bool) -> None:
        self.screen = Screen()
        self.region = LiveRegion(self.write, -1, {})
        self.answer = MarkdownStreamRenderer(self.region, lambda: watched, rest_factor=0)

    def write(self, text: str) -> None:
        self.screen.feed(text.replace("\n", "\r\n").encode())


@given(st.lists(st.sampled_from([*BLOCKS, *LINES]), max_size=14), st.integers(1, 30))
@example([TABLE, "end"], 1)
@example([TABLE, "end"], 7)
@example(["```py", *(f"x = {number}" for number in range(100)), "```", "end"], 9)
def test_a_streamed_answer_looks_like_a_complete_one(lines: list[str], size: int) -> None:
    text = "\n".join(lines)
    complete, streamed = AnswerScreen(watched=False), AnswerScreen(watched=True)
    complete.answer.feed(text)
    complete.answer.finish()
    for offset in range(0, len(text), size):
        streamed.answer.feed(text[offset : offset + size])
    streamed.answer.finish()
    assert streamed.screen.lines == complete.screen.lines


@given(st.lists(st.sampled_from([*BLOCKS, *LINES]), max_size=14), st.integers(1, 30))
@example(["# Heading", "", "```", ""], 1)
def test_notices_are_shown_above_the_current_block(lines: list[str], offset: int) -> None:
    text = "\n".join(lines)
    undisturbed, disturbed = AnswerScreen(watched=True), AnswerScreen(watched=True)
    for piece in (text[:offset], text[offset:]):
        undisturbed.answer.feed(piece)
        disturbed.answer.feed(piece)
        disturbed.answer.hide()
        disturbed.write("notice\n")
    undisturbed.answer.finish()
    disturbed.answer.finish()
    lines_left = [line for line in disturbed.screen.lines if line != "notice"]
    while lines_left and not lines_left[-1]:  # the gap before an empty code block
        lines_left.pop()
    assert lines_left == undisturbed.screen.lines


def stream_lines(text: str, size: int = 4) -> list[str]:
    """Return the final lines of an answer that arrives in pieces."""
    answer_screen = AnswerScreen(watched=True)
    for offset in range(0, len(text), size):
        answer_screen.answer.feed(text[offset : offset + size])
    answer_screen.answer.finish()
    return answer_screen.screen.lines


@pytest.mark.parametrize(
    "hostile",
    [
        "[red]no markup[/red] :smile: [link=http://x]y[/link]",
        "<b>no</b> <script>html</script>",
        "[a](javascript:alert(1))",
        "[1]: http://example.org",
        "![picture](http://example.org/x.png)",
    ],
)
def test_no_text_is_hidden(hostile: str) -> None:
    (line,) = stream_lines(hostile)
    assert set(re.findall(r"\w+", hostile)) <= set(re.findall(r"\w+", line))


@pytest.mark.parametrize(
    "formula",
    [
        r"$x_{1}^{*} + y_{2}^{*} = \{a\}$",
        r"$$x_{1}^{*} + y_{2}^{*} = \{a\}$$",
        r"\(f^{*}(x)\,dx = g^{*}(y)\)",
        r"\[f^{*}(x) = g^{*}(y)\]",
        *(r"\(x\)", r"\(2n * 3\)", r"\(f(a, b) + 1\)", r"\(\sin x\)", r"\(v_{max}\)", r"\(speed = 3\)", r"\(ABC\)"),
        "$$\na_{i}^{*} \\\\\n- b^{*}\n+ c\n= d\n# e\n$$",
        "\\[\n\\begin{aligned}\n  a &= b_{i}^{*} \\\\\n  + c^{*} &= d\n\\end{aligned}\n\\]",
        "\\[ a^{*}\n- b^{*} \\]",
    ],
)
def test_formulas_are_shown_as_written(formula: str) -> None:
    assert stream_lines(f"It is:\n{formula}\nwith *one* of them.") == [
        "It is:",
        *formula.split("\n"),
        "with one of them.",
    ]
    assert stream_lines(f"- item\n  {formula}".replace("\n", "\n  ")) == [
        "• item",
        *(f"  {line}" for line in formula.split("\n")),
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("*It* costs $5, **not** $10, and `$x` is *it*", "It costs $5, not $10, and $x is it"),
        (r"\[*1*\] and \[x\] and \$*y*\$", "[1] and [x] and $y$"),
        (r"an open \(*x* and $$*y*", "an open (x and $$y"),
        ("$$ is a *variable*\n\n- and this\n- a list", "$$ is a variable\n\n• and this\n• a list"),
        ("> $$\n> - *x*\n\n- y", "│ $$\n│ - x\n\n• y"),
        (r"https://a.example/V8_\(engine\) and f\(*x*\)", "https://a.example/V8_(engine) and f(x)"),
        (r"it \(see *page* 5\) and \(optional\) are \(в скобках\)", "it (see page 5) and (optional) are (в скобках)"),
        ("$$ is the process:\n- a", "$$ is the process:\n• a"),
        ("\\[ ] to do\n- a", "[ ] to do\n• a"),
        ("**$HOME** and **$PATH**, **$A**/x:**$B**/y", "$HOME and $PATH, $A/x:$B/y"),
        ("$5 (**US$**) and $20 **ou** R$ 100", "$5 (US$) and $20 ou R$ 100"),
        ("$10 ([*a*](https://b.example/c$))", "$10 (a (https://b.example/c$))"),
    ],
)
def test_dollars_and_escapes_that_are_no_formulas(text: str, shown: str) -> None:
    assert "\n".join(stream_lines(text)) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *((text, text) for text in ("2*3*4 = 24", "a*b*c", "2**8 or x**2", "cp src/*.c lib/*.h x/**/*.py y/**/z")),
        ("im**possible** and **pre**fix and *a*b", "impossible and prefix and ab"),
        ("**5*3=15**, **n*m**, **/etc/*.conf** and *a **2*3***", "5*3=15, n*m, /etc/*.conf and a 2*3"),
        ("**Yes**/**No**, *he*/*she* and **/a/**", "Yes/No, he/she and /a/"),
        ("文件*.txt和*.md和**.NET**", "文件*.txt和*.md和.NET"),
    ],
)
def test_asterisks_of_products_and_paths_are_not_emphasis(text: str, shown: str) -> None:
    assert stream_lines(text) == [shown]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *(
            (text, text)
            for text in ("src/__tests__/a.js", "__init__.py and __main__.py", "__FILE__:__LINE__", "_a __x")
        ),
        ("**see __init__.py** and *self.__dict__*", "see __init__.py and self.__dict__"),
        ("__Note:__ this is __very important__ _indeed_", "Note: this is very important indeed"),
    ],
)
def test_reserved_names_keep_their_underscores(text: str, shown: str) -> None:
    assert stream_lines(text) == [shown]


def test_a_long_word_like_a_reserved_name_takes_little_time() -> None:
    start = time.process_time()
    get_parser().parse("__aa" * 10_000)
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**注意。**请不要运行。", "注意。请不要运行。"),
        ("这是**“重点”**内容。**函数(function)**的用法", "这是“重点”内容。函数(function)的用法"),
        (
            "日本語で**「強調」**です。한국어 **마크다운(Markdown)**을",
            "日本語で「強調」です。한국어 마크다운(Markdown)을",
        ),
        ("*「斜体」*文字。~~「删除」~~文字。使用**`code`**运行", "「斜体」文字。「删除」文字。使用code运行"),
        ("- **步骤1。**安装\n- 2 ** 3。4 ** 5", "• 步骤1。安装\n• 2 ** 3。4 ** 5"),
        ("张**、李**, 王*。价格*)和运费*「含税」", "张**、李**, 王*。价格*)和运费*「含税」"),
        ("张**「**经理**」", "张**「经理」"),
        ("价格*「含税」、运费*「不含」。标有*的字段。*为必填", "价格*「含税」、运费*「不含」。标有*的字段。*为必填"),
        ("函数_名_字 and a 🎉**(b)**c", "函数_名_字 and a 🎉**(b)**c"),
    ],
)
def test_emphasis_needs_no_spaces_in_chinese_japanese_and_korean(text: str, shown: str) -> None:
    assert "\n".join(stream_lines(text)) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [("an **open", "an open"), ("2**8 is", "2**8 is"), ("**see** src/**/*.c or **5*3", "see src/**/*.c or 5*3")],
)
def test_only_bold_text_is_closed_while_it_is_open(text: str, shown: str) -> None:
    answer_screen = AnswerScreen(watched=True)
    answer_screen.answer.feed(text)
    answer_screen.answer.refresh()
    assert answer_screen.screen.lines == [shown]


def test_a_very_long_line_is_shown_and_the_answer_continues_below() -> None:
    words = "word " * 800
    shown = "\n".join(stream_lines(f"# One\n\n{words}\n\n# Two", 40))
    assert shown.startswith("One\n\nword word")
    assert shown.replace("\n", "").replace(" ", "").count("word") == 800
    assert shown.endswith("\n\nTwo")


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        ("| `ls | wc -l` | counts files |", ["ls | wc -l", "counts files"]),
        ("| `a` | b | c | d |", ["a", "b", "c", "d"]),
        ("`a` | b | c", ["a", "b", "c"]),
        ("| `x | y` | b | c |", ["`x", "y`", "b", "c"]),
    ],
)
@pytest.mark.parametrize("prefix", ["", "> "])
def test_no_cell_of_a_table_is_lost(row: str, cells: list[str], prefix: str) -> None:
    lines = ["| Command | What |", "|---|---|", "| `ls` | lists |", row]
    shown = stream_lines("\n".join(prefix + line for line in lines))
    found = [part.strip() for part in shown[-1].removeprefix("│ ").split("│")]
    assert [cell for cell in found if cell] == cells


def test_br_begins_a_new_line_in_a_cell() -> None:
    table = "|Name|What|\n|-|-|\n|one|first<br>second<br/>third|\n|two|`<br>`|"
    assert stream_lines(table) == [
        "Name │ What",
        "─────┼───────",
        "one  │ first",
        "     │ second",
        "     │ third",
        "─────┼───────",
        "two  │ <br>",
    ]


def test_html_is_shown_as_written() -> None:
    html = "<pre>\nx = a*b*2\n\n__init__ and `this`\n</pre>"
    shown = stream_lines(f"*Above*\n{html}\n**below** <i title='*a*'>__x__</i>")
    assert "\n".join(line.rstrip() for line in shown) == f"Above\n{html}\nbelow <i title='*a*'>x</i>"


@given(st.from_regex(PLAIN_TEXT, fullmatch=True))
@example("a https://example.org/?a=1 (c) -- 'x' {#id} $y$ | ^ @z")
def test_plain_text_is_what_the_parser_makes_of_it(text: str) -> None:
    parser, tokens = get_parser(), list[Token]()
    parser.inline.parse(text, parser, {}, tokens)
    assert [(token.type, token.content) for token in tokens] == [("text", text)]


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "path": "C:\\\\x_y_z\\\\_a",\n  "glob": "*a*",\n  "list": [\n    "\\n\\""\n  ]\n}',
        '[{"a": "\\\\*x"}, {"b": "__y__ and **z**"}]',
        '{"id": 1, "text": "a \\"*b*\\" c"}\n{"id": 2, "text": "\\\\_"}',
        '["\\\\d+", "*a*"]',
        'Result:\n{\n  "glob": "*a*",\n  "pattern": "\\\\d"\n}',
        'services:\n  web:\n    ports:\n      - "80:80"',
        "def f(x):\n    # double\n    return x * 2",
        "docker run \\\n  -v /a:/a \\\n  image",
        "Roses are red\n  and so on",
        "  two\n  lines",
        "services:\n  web:\n    image: x\n\n  db:\n    image: y",
        "def f(x):\n    y = x * 2 * 3\n\n    if y:\n        return _a_\n\n    return y",
        '{\n    "a": "*x*",\n\n    "b_c_d": "*y* \\\\ `z`",\n\n    "e": []\n}',
        '{\n  "a": "*x*",\n\n  "*b_c*\\\\d": "*y* \\\\ `z`",\n\n  "e": []\n}',
    ],
)
def test_json_and_indented_lines_without_a_fence_are_shown_as_written(text: str) -> None:
    terminal = AnswerScreen(watched=False)
    terminal.answer.feed(text)
    terminal.answer.finish()
    assert terminal.screen.lines == text.split("\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1. one\n    more", ["1. one", "   more"]),
        ("- one\n    more", ["• one", "  more"]),
        ("one\\\ntwo", ["one", "two"]),
        ("  one\n  two\n---", ["one", "two"]),
        (" one\ntwo", ["one", "two"]),
        ('["a"](http://x) *b*', ['"a" (http://x) b']),
        ('{"a"} is a *set*', ['{"a"} is a set']),
        ('[see {"a": 1}](http://x) *b*', ['see {"a": 1} (http://x) b']),
    ],
)
def test_other_text_has_no_indentation_of_its_own(text: str, shown: list[str]) -> None:
    terminal = AnswerScreen(watched=False)
    terminal.answer.feed(text)
    terminal.answer.finish()
    assert terminal.screen.lines == shown


def test_a_long_line_of_json_is_wrapped_by_the_terminal() -> None:
    text = '{"text": "' + "some words " * 12 + '"}'
    terminal = AnswerScreen(watched=False)
    terminal.answer.feed(text)
    terminal.answer.finish()
    assert terminal.screen.lines == [text[:80].rstrip(), text[80:]]
