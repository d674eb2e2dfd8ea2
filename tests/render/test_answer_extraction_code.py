"""Extracting the code of an answer's first fenced block."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.render.answer_extraction import extract_code
from ask.schemas.code_blocks import iter_code_blocks

LINES = st.lists(
    st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"]), max_size=20), min_size=1
)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("Here:\n\n```python\nprint(1)\n```\n\nDone.", "print(1)"),
        ("```\na\n```\n```\nb\n```", "a"),
        ("```\n\n```\n```py\nb\n```", "b"),
        ("~~~sh\nls\n```\n~~~", "ls\n```"),
        ("````md\n```\na\n```\n````", "```\na\n```"),
        ("   ```\n   a\n     b\n   ```", "a\n  b"),
        ("1. First:\n\n    ```c\n    int a;\n\n      int b;\n    ```\n", "int a;\n\n  int b;"),
        ("          ```\n          far in\n          ```", "far in"),
        ("> ```\n> quoted\n> ```", "quoted"),
        ("```js title=x.js {1,2}\na();\n```", "a();"),
        ("```python\nprint(1)\nprint(", "print(1)\nprint("),
        ("```python\na\n``` b\n```", "a\n``` b"),
        ("```\r\na\r\nb\r\n```\r\n", "a\nb"),
        ("<div>\n```\na\n```\n</div>", "a"),
        ("```\n\n  a\n\n```", "\n  a\n"),
        ("```py\ndef f():\n    ```\n    f()\n    ```\n```\nEnd.", "def f():\n    ```\n    f()\n    ```"),
        ("```md\n# A\n```sh\nls\n```\nb\n```sh\nls\n```\n```\nEnd.", "# A\n```sh\nls\n```\nb\n```sh\nls\n```"),
        ("```py\na\n```py\nb\n```\n\n```\nc\n```", "a\n```py\nb"),
        ("```sh\ncat << 'E'\n```\nx\n```\nE\n```\nEnd.", "cat << 'E'\n```\nx\n```\nE"),
        ("Use `<<E`:\n```sh\ncat <<E\nE\n```", "cat <<E\nE"),
        ("```sh\ncat <<E\n```", "cat <<E"),
        ('```cpp\ncout << "YES" << endl;\n```\nOutput:\n```\nYES\n```', 'cout << "YES" << endl;'),
        ('```cpp\ncout << "NO";\n```\nOutput:\n```\nNO\n```', 'cout << "NO";'),
        ('```ruby\nout << "Fizz"\n```\nOutput:\n```\nFizz\n```', 'out << "Fizz"'),
        ("```py\na = 1 << n\n```\nOutput:\n```\nn\n```", "a = 1 << n"),
        ("```py\nX\n```py\n```\nX\n```\nOr `<<E`:\n```sh\ncat <<E\nE\n```", "X\n```py\n```\nX"),
        ("```sh\nls\n    ```\nEnd.\n```\nb\n```", "ls"),
        ("```sh\nls\n\t```\nEnd.\n```sh\nls\n\t```", "ls"),
        ("print(1)\nprint(2)\n", "print(1)\nprint(2)"),
        ("`ls` lists", "`ls` lists"),
        ("", ""),
    ],
)
def test_the_first_nonempty_block_is_returned(answer: str, code: str) -> None:
    assert extract_code(answer) == code


@given(LINES, st.sampled_from(["```", "~~~", "`````"]), st.sampled_from(["", "python", "c++ x=1"]), st.integers(0, 3))
def test_fenced_code_is_returned_unchanged(lines: list[str], fence: str, language: str, indent: int) -> None:
    code = "\n".join(lines)
    if not code.strip() or any(line.strip().startswith(fence) for line in lines):
        return
    space = " " * indent
    block = "\n".join(f"{space}{line}" for line in [f"{fence}{language}", *lines, fence])
    assert extract_code(f"Words.\n\n{block}\n\nMore words.") == code


@given(st.text("`~ \n>-1.ab\t", max_size=60))
def test_any_text_yields_a_nonempty_part_of_it(answer: str) -> None:
    assert all(block.strip() for block in iter_code_blocks(answer))
    assert set(extract_code(answer)) <= set(answer) | {" "}
