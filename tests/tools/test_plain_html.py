"""HTML to text with only the standard library."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.tools.plain_html import to_plain_text


def read(html: str) -> str:
    return to_plain_text(html, lambda href: href)


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<title>T</title><h1>A <b>b</b></h1><p>one\n two<p>three", "T\n\n# A b\n\none two\n\nthree"),
        ("<p>see <a href=/x>this <i>page</i></a>, please", "see [this page](/x), please"),
        ("<a>no link</a> <a href=''>none</a>", "no link none"),
        ("<a href=x>one<a href=y>two", "[one](x)[two"),
        ("<ul><li>a<li>b<ol><li>c</li><li>d</ol><li>e</ul>f", "- a\n- b\n\n  1. c\n  2. d\n\n- e\n\nf"),
        ("a<pre><code>x = 1\n\n\n  y</code></pre>b <code>c</code>", "a\n\n```\nx = 1\n\n\n  y\n```\n\nb `c`"),
        ("a<img src=x alt='A  chart'> b<img src=y>", "aA chart b"),
        ("<a href=/x><img alt=Logo></a>", "[Logo](/x)"),
        ("<frameset><frame src=a.html><frame src=b.html></frameset>", "[frame](a.html)\n\n[frame](b.html)"),
        ("<meta http-equiv=Refresh content=\"0; URL='/next'\">x", "[this page leads on to](/next)\n\nx"),
        ("<meta http-equiv=refresh content=5><template><p>no</template>x", "x"),
        ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "| a | b\n\n| 1 | 2"),
        ("one<br>two &amp; &lt;b&gt; &nbsp;&#x41;", "one\ntwo & <b> A"),
        ("<p>a</p><script>alert('<p>no</p>')</script><style>p {}</style><p>b", "a\n\nb"),
        ("<nav><p>menu</nav><svg><title>no</title></svg><noscript>no</noscript>yes", "yes"),
        ("<!-- no --><!doctype html><?php no ?>yes", "yes"),
        ("</p></a></ul></pre></code>yes", "`yes"),
        ("", ""),
    ],
)
def test_meaningful_elements_are_kept(html: str, text: str) -> None:
    assert read(html) == text


@given(st.text(alphabet="<>/&;\"'= -![]?abcdeilnopruvs\n", max_size=200))
def test_any_html_is_converted(html: str) -> None:
    read(html)


@given(
    st.lists(st.sampled_from(["<p>", "</p>", "<ul>", "</ul>", "<li>", "<ol>", "</ol>", "<a href=x>", "</a>", "<pre>"]))
)
def test_deeply_nested_text_is_kept(tags: list[str]) -> None:
    text = read("".join(f"{tag}w{number}w" for number, tag in enumerate(tags)))
    assert all(f"w{number}w" in text for number in range(len(tags)))
