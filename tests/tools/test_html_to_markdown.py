"""HTML to Markdown in a subprocess with a time limit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.tools.base import ToolError
from ask.tools.fetch_url import extract_page_text
from ask.tools.html_to_markdown import MAX_MARKDOWN_HTML_CHARACTERS, convert_html

URL = "https://example.com/docs/page.html"
ARTICLE = """<!doctype html><html><head><title>Marzipan</title><script>track()</script></head><body>
<nav><a href=/>Home</a></nav>
<main><h1>Marzipan<a class=headerlink href="#marzipan">¶</a></h1>
<p>It is made of <a href="../almonds?x=1#y" title="nuts" onclick="x()">almonds</a> and <a href="#sugar">sugar</a>,
<a href="javascript:alert(1)">not</a> <em>flour_or_2*3</em>.</p>
<ul><li>one<ul><li>inner</ul><li>two</ul>
<pre><code>mix(almonds,
    sugar)</code></pre>
<table><tr><th>what<th>grams<tr><td>almonds<td>200</table>
<img src="data:image/png;base64,AAAA"></main>
<footer>imprint</footer></body></html>"""


def test_code_fences_that_are_never_closed_are_read_once() -> None:
    start = time.process_time()
    assert convert_html("```x\n~~~\n" * 10_000, URL).startswith("```x")
    assert time.process_time() - start < 5


def test_headings_links_lists_code_and_tables_are_kept() -> None:
    assert convert_html(ARTICLE, URL).splitlines() == [
        "# Marzipan",
        "",
        "It is made of [almonds](https://example.com/almonds?x=1#y) and sugar,",
        "not *flour_or_2*3*.",
        "",
        "- one",
        "  - inner",
        "- two",
        "",
        "```",
        "mix(almonds,",
        "    sugar)",
        "```",
        "",
        "| what | grams |",
        "| --- | --- |",
        "| almonds | 200 |",
    ]


def test_page_without_a_main_element_is_kept_completely() -> None:
    assert convert_html("<title>T</title><article>a</article><article>b</article><p>c", URL) == "T\n\na\n\nb\n\nc"


def test_small_main_element_is_ignored() -> None:
    text = convert_html(f"<main>Please wait</main><div>{'word ' * 50}</div>", URL)
    assert text.startswith("Please wait")
    assert text.count("word") == 50


def test_page_of_links_keeps_its_links() -> None:
    html = "".join(f"<li><a href={number}>link {number}</a>" for number in range(50))
    assert convert_html(f"<ul>{html}</ul>", URL).count("](https://example.com/docs/") == 50


def test_deeply_nested_elements_are_handled() -> None:
    assert "deep" in extract_page_text("<div>" * 3_000 + "deep", URL, 20, os.environ)


@given(st.text(alphabet="<>/&;\"'= -![]?abcdeilnopruvst\n\0", max_size=200))
def test_any_html_is_converted(html: str) -> None:
    convert_html(html, URL)


def test_subprocess_gives_the_same_result() -> None:
    assert extract_page_text(ARTICLE, URL, 20, os.environ) == convert_html(ARTICLE, URL)


def test_a_file_in_the_working_directory_is_not_run(tmp_path: Path) -> None:
    for name in ("bs4", "lxml", "markdownify", "resource", "ask"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\n")
    code = (
        "import os; from ask.tools.fetch_url import extract_page_text; "
        f"print(extract_page_text('<p>fine', {URL!r}, 20, os.environ))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "fine\n"
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_text_of_a_very_long_page_is_extracted() -> None:
    count = MAX_MARKDOWN_HTML_CHARACTERS // 20
    text = extract_page_text(f"<table><script>no</script>{'<tr><td><a href=x>y</a>' * count}", URL, 100, os.environ)
    assert text.split() == ["y"] * count


def test_slow_conversion_is_killed() -> None:
    with pytest.raises(ToolError, match="took too long"):
        extract_page_text("<table>" + "<tr><td><a href=x>y</a>" * 50_000, URL, 0.5, os.environ)


PAGES = [
    ("<base href='/other/'><a href=x.html>x</a>", "[x](https://example.com/other/x.html)"),
    ('<base target=_top href="https://b.test/?a&amp;b"><a href=x>x</a>', "[x](https://b.test/x)"),
    ("<base href='javascript:x'><a href=x>x</a>", "x"),
    ("<base href='http://['><a href=x>x</a>", "[x](https://example.com/docs/x)"),
    ("<meta http-equiv=refresh content='0; url=/next'>", "[this page redirects to](https://example.com/next)"),
    ("<meta http-equiv=refresh content='0; url=javascript:x()'>x", "x"),
    ("<frameset><frame src=a.html><frame></frameset>", "[frame](https://example.com/docs/a.html)"),
    ("<p>a<img alt='b &amp; c' src=data:x></p>", "ab & c"),
    ("<pre>a\n\n\n\nb</pre>", "```\na\n\n\n\nb\n```"),
    ("<pre>a\n```\nb\n```\n\n\n\nc</pre><p>d", "````\na\n```\nb\n```\n\n\n\nc\n````\n\nd"),
    ("<pre class='lang-md'>```py\na\n```</pre>", "````md\n```py\na\n```\n````"),
    (
        "<table><tr><th>a|b<th>c<tr><td><code>int | None</code><td>d</table>",
        "| a\\|b | c |\n| --- | --- |\n| `int \\| None` | d |",
    ),
    (
        "<table><tr><th><a href='/a?b=c|d'>e</a><th>f</table>",
        "| [e](https://example.com/a?b=c%7Cd) | f |\n| --- | --- |",
    ),
]


@pytest.mark.parametrize(("html", "text"), PAGES)
def test_links_redirects_frames_and_code_are_kept(html: str, text: str) -> None:
    assert convert_html(html, URL) == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p hidden>no<p style='Display: none'>no<p style='visibility:hidden'>no<p>yes", "yes"),
        ("<div hidden>a<div hidden>b<img alt=c><nav>d</nav></div></div>yes", "yes"),
        ("<body style='display:none'><p>yes", "yes"),
        ("<details><summary>What?</summary>That.</details>", "What?\n\nThat."),
        ("<title>One\n\n 2. Two</title><p>x", "One 2. Two\n\nx"),
        (
            "<title>T</title><meta http-equiv=refresh content='0;/n'>",
            "T\n\n[this page redirects to](https://example.com/n)",
        ),
        ("<div class='highlight'><pre><code class='hljs language-c++'>x</code></pre></div>", "```c++\nx\n```"),
        ("<pre class='lang-py'>x</pre>", "```py\nx\n```"),
        ("<pre class='language-a`b'>x</pre>", "```\nx\n```"),
    ],
)
def test_hidden_text_is_dropped_and_visible_text_kept(html: str, text: str) -> None:
    assert convert_html(html, URL) == text
