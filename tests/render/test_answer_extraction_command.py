"""Extracting the shell command from an answer with other text around it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.errors import IncompleteResponseError
from ask.render.answer_extraction import extract_command
from ask.text import CONTROL_CHARACTERS

FIND = "find . -type f -size +1G"
LOOP = 'for f in *.c; do\n  wc -l "$f"\ndone'
COMMIT = 'git commit -m "Add a page\n\nThis says why.\nAnd more."'
HEREDOC = "cat > note <<EOF\nDear Sir,\n\nYours.\nEOF"
FENCES = "cat << 'EOF' > README.md\n# Use\n\n```sh\nls\n```\n```\nout\n```\nEOF"


@pytest.mark.parametrize(
    "command", [FIND, LOOP, COMMIT, HEREDOC, FENCES, "ls", "FOO=1 make -j4 \\\n  all", "./größe.sh", "cd .."]
)
@pytest.mark.parametrize(
    "answer",
    [
        "{}",
        "\n{}\n",
        "```\n{}\n```",
        "```bash\n{}\n```\n",
        "Here is the command:\n\n```sh\n{}\n```\n\nIt finds what you want. Use `-xdev` to stay.",
        "Sure! Run this:\n\n{}",
        "<think>\n{}",
        "```sh\n# Finds it\n\n{}\n```",
        "# Finds it\n{}",
        "~~~console\n{}\n~~~",
    ],
)
def test_text_around_a_command_is_removed(command: str, answer: str) -> None:
    assert extract_command(answer.replace("{}", command)) == command


@pytest.mark.parametrize(
    ("answer", "command"),
    [
        (f"$ {FIND}", FIND),
        (f"`{FIND}`", FIND),
        (f"```{FIND}```", FIND),
        (f"You can use `find`, like `{FIND}`.", FIND),
        ("The command is `ls`.", "ls"),
        ("Command: ls -la", "ls -la"),
        ("Use a here-document (`cat <<EOF`):\n\n```sh\ncat <<EOF > x\nEOF\n```", "cat <<EOF > x\nEOF"),
        ("you can use cat <<EOF like this:\n```sh\ncat <<EOF > x\nEOF\n```\nDone.", "cat <<EOF > x\nEOF"),
        (f"{FIND}\n\nThis finds all files over 1 GB.\n- `-size`: the size", FIND),
        (f"{HEREDOC}\n\nThis creates a note.", HEREDOC),
        (f"{FENCES}\n\nThen look at it:\n```sh\nls\n```", FENCES),
        (f"{HEREDOC}\n\ncat <<\\X\nA.\nX\nDone.", f"{HEREDOC}\n\ncat <<\\X\nA.\nX\nDone."),
        (f"{FIND}\nThis finds all files over 1 GB.", FIND),
        (f"{FIND}\n\n**Note:** slow.", FIND),
        (f"Try:\n\n    {FIND}\n\nThat is all.", FIND),
        (f"```console\n$ {FIND}\n./big.iso\n./bigger.iso\n```", FIND),
        ("```\n$ cd src\n$ make \\\n>   all\nok\n```", "cd src\nmake \\\n  all"),
        ("% ls -la", "ls -la"),
        ("```console\n$ # how much is free\n$ df -h\n```", "df -h"),
        (f"```sh\n# nothing\n```\n\n```sh\n{FIND}\n```", FIND),
        (f"```bash\r\n{FIND}\r\n```", FIND),
        ("R -e 'print(1)'", "R -e 'print(1)'"),
        ("LC_ALL=C sort names", "LC_ALL=C sort names"),
        ("PATH=/bin ls", "PATH=/bin ls"),
        ("[ -f x ] && rm x", "[ -f x ] && rm x"),
        ("(cd src && make)", "(cd src && make)"),
        ("echo 'Hello there.'", "echo 'Hello there.'"),
        ("ls | wc -l  # how many", "ls | wc -l  # how many"),
    ],
)
def test_the_command_is_found(answer: str, command: str) -> None:
    assert extract_command(answer) == command


@pytest.mark.parametrize(
    ("answer", "quoted"),
    [
        ("# Which disk is meant?", "Which disk is meant?"),
        ("```sh\n# no such thing\n```", "no such thing"),
        ("% # no such thing", "no such thing"),
        ("I can't help with that.", "I can't help with that."),
        ("Which folder do you mean?", "Which folder do you mean?"),
        ("Это невозможно", "Это невозможно"),
        ("Sorry, no.\n\n- it is too late\n- it is too hard", "Sorry, no. - it is too late"),
        ("<think>", "<think>"),
        ("", ""),
        ("\n \n", ""),
    ],
)
def test_an_answer_without_a_command_is_quoted_in_the_error(answer: str, quoted: str) -> None:
    with pytest.raises(IncompleteResponseError, match="the answer contains no command") as failure:
        extract_command(answer)
    assert quoted in failure.value.hint


@pytest.mark.parametrize("sign", ["\x1b[2K", "\x07", "\b", "\u202e", "\x9b"])
def test_commands_with_invisible_characters_are_rejected(sign: str) -> None:
    for answer in (f"rm -rf x{sign}; ls", f"```\nrm -rf x{sign}; ls\n```"):
        with pytest.raises(IncompleteResponseError) as failure:
            extract_command(answer)
        assert not re.search(CONTROL_CHARACTERS, str(failure.value))


@given(st.text("`~$%# \n>-ab'\"A.\\<|", max_size=80) | st.text(max_size=40))
def test_any_text_yields_a_command_or_an_error(answer: str) -> None:
    try:
        command = extract_command(answer)
    except IncompleteResponseError:
        return
    assert command
    assert command == command.strip()
    assert not re.search(CONTROL_CHARACTERS, command)
    assert not all(line.lstrip().startswith("#") for line in command.split("\n"))
