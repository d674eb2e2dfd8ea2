"""A conservative reader of bash command lines, for rules about commands.

It recognizes a small part of the language exactly: plain and quoted words, `;`, `&&`, `||`, `|`, newlines, and
redirections to /dev/null or another file descriptor. Anything else makes a command line inexact: its commands are
then a guess, good enough to warn or to refuse, never to approve. Neither `shlex` (newlines, `$'...'`, comments) nor
a complete parser, whose mistakes would approve commands, gives that guarantee.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from ask.records import NamedTuple


class ShellWord(NamedTuple):
    """A word of a command, without its quotes.

    Attributes:
        text: the word as the program receives it, if the shell expands nothing.
        is_expanded: whether bash may replace it by other words: file names, a home directory, a variable.
    """

    text: str
    is_expanded: bool = False


class CommandLine(NamedTuple):
    """The simple commands of a command line, in order.

    Attributes:
        commands: their words, without redirections.
        written_files: the targets of output redirections.
        is_exact: whether `commands` is everything that bash would do with the command line.
        read_files: the files of input redirections.
        here_documents: the texts of here-documents and here-strings, which a shell may run.
    """

    commands: tuple[tuple[ShellWord, ...], ...]
    written_files: tuple[str, ...] = ()
    is_exact: bool = True
    read_files: tuple[ShellWord, ...] = ()
    here_documents: tuple[str, ...] = ()


_TOKENS = re.compile(
    r"""
      (?P<blank>[ \t]+ | \\\n)
    | (?P<harmless>(?:\d*|&)>>?[ \t]*/dev/null(?![^ \t\n;|]) | \d*>&\d(?![^ \t\n;|]))
    | (?P<descriptor>(?:\d+|\{[A-Za-z_]\w*(?:\[[^]\s]*\])?\})(?=[<>]) | \$(?="))
    | (?P<plain>[A-Za-z0-9_./:=@%+,^-]+)
    | (?P<single>'[^']*')
    | (?P<double>"[^"\\]*(?:\\.[^"\\]*)*")
    | (?P<expanded>[*?\[\]~]+)
    | (?P<ansi>\$'[^'\\]*(?:\\.[^'\\]*)*')
    | (?P<separator>&&|\|\||[;|\n])
    | (?P<here><<-?[ \t]*(?P<quote>['"]?)(?P<delimiter>\w+)(?P=quote))
    | (?P<redirect>[<>&]*[<>][<>&|]*)
    | (?P<break>[&()`])
    | (?P<comment>(?<![^ \t\n;|&()])(?<!\\.)\#[^\n]*)
    | (?P<escape>\\.)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
"""The tokens of a command line. Any from `here` on makes it inexact."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=")
_SUBSCRIPT_SUBSTITUTION = re.compile(r"[^[]*\w\[(?:[^`$]|\$(?![({]))*[`$]", re.DOTALL)
"""A substitution that builtins such as `[`, `declare` and `let` make even in single quotes: `test -v 'a[$(date)]'`."""
_RESERVED_WORDS = frozenset(
    {
        *("!", "{", "}", "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac"),
        *("in", "select", "function", "time", "coproc"),
    }
)
_NAMING_WORDS = ("function", "coproc")
"""The reserved words before a name."""


def _find_substitutions(text: str) -> Iterator[str]:
    """Yield the commands in `$(...)` and backticks; one that does not end continues to the end of the text."""
    start, depth, opening = 0, 0, ""
    for token in re.finditer(r"\$\(|[`()]", text):
        if not opening and token[0] in ("$(", "`"):
            start, depth, opening = token.end(), 1, token[0]
        elif opening == "`":
            depth -= token[0] == "`"
        elif opening:
            depth += {"$(": 1, "(": 1, ")": -1}.get(token[0], 0)
        if opening and not depth:
            yield text[start : token.start()]
            opening = ""
    if opening:
        yield text[start:]


def list_search_path(environment: Mapping[str, str]) -> list[str]:
    """Return the folders on PATH, in which bash, unlike other programs, replaces a `~`; "" is the current folder."""
    entries = environment.get("PATH", "").split(os.pathsep)
    home = environment.get("HOME", "")
    return [os.path.expanduser(re.sub(r"\A~(?=/|\Z)", lambda _: home or "~", entry)) for entry in entries]


def parse_command_line(text: str) -> CommandLine:
    """Split a command line into simple commands, in time proportional to its length."""
    return _CommandLineParser(text).parse()


class _CommandLineParser:
    def __init__(self, text: str) -> None:
        self._text = text.strip(" \t\n")
        self._text += "\n" if self._text.endswith("\\") else ""  # of a line that is continued
        self._commands: list[tuple[ShellWord, ...]] = []
        self._command: list[ShellWord] = []
        self._word_parts: list[ShellWord] = []
        """The parts of the current word, which may be empty, as in `''`; [] between words."""
        self._written_files: list[str] = []
        self._read_files: list[ShellWord] = []
        self._redirect = ""
        """The redirection whose target is the next word."""
        self._reserved_word = ""
        """The last reserved word before the first word of the current command."""
        self._here_delimiters: list[tuple[str, bool]] = []
        """The ends of the here-documents that begin on the next line, and whether bash expands their texts."""
        self._here_documents: list[str] = []
        self._skips_here_documents = True
        self._is_exact = bool(self._text)

    def parse(self) -> CommandLine:
        position = 0
        while token := _TOKENS.match(self._text, position):
            position = self._skip_here_documents(token) if token["separator"] == "\n" else token.end()
            self._add_token(token.lastgroup or "", token)
        self._end_command(is_last=self._text.endswith(";"))
        return CommandLine(
            tuple(self._commands),
            tuple(self._written_files),
            self._is_exact,
            tuple(self._read_files),
            tuple(self._here_documents),
        )

    def _add_token(self, kind: str, token: re.Match[str]) -> None:
        text = token[0]
        if kind in ("here", "delimiter"):
            self._here_delimiters.append((token["delimiter"], not token["quote"]))
            self._is_exact = False
        elif text == "\\\n":  # bash removes it, also within a word
            self._is_exact = False
        elif kind == "blank":
            self._end_word()
        elif kind == "separator":
            self._end_command()
        elif kind == "plain":
            self._extend_word(text)
        elif kind == "expanded":
            self._extend_word(text, is_expanded=True)
        elif kind == "single":
            self._extend_word(text[1:-1])
        elif kind == "double":
            self._add_double_quoted(text[1:-1])
        elif kind == "harmless" and not (self._word_parts and text[0].isdigit()):
            self._end_word()
        else:
            self._is_exact = False
            self._add_inexact(kind, text)

    def _add_inexact(self, kind: str, text: str) -> None:
        if kind == "break":
            self._end_command()
            self._redirect = ""
        elif kind == "redirect":
            self._end_word()
            self._redirect = text
        elif kind == "escape":
            self._extend_word(text[1:])
        elif kind == "ansi":
            content = re.sub(r"\\(['\\])", r"\1", text[2:-1])
            # Other escapes, such as \x2f, are not decoded: the word is then unknown.
            is_known = re.fullmatch(r"(?:[^\\]|\\['\\])*", text[2:-1], re.DOTALL)
            self._extend_word(content if is_known else f"${content}", is_expanded=not is_known)
        elif kind != "comment" and (kind != "descriptor" or (self._word_parts and text != "$")):
            self._extend_word(text, is_expanded=text == "$")

    def _add_double_quoted(self, content: str) -> None:
        if not re.search(r"[$`\\]", content):
            self._extend_word(content)
            return
        self._is_exact = False
        content = re.sub(r"\\(?:\n|(.))", r"\1", content, flags=re.DOTALL)
        self._add_substitutions(content)
        self._extend_word(content, is_expanded=True)

    def _add_substitutions(self, text: str) -> None:
        for substitution in _find_substitutions(text):
            nested = parse_command_line(substitution)
            self._commands += nested.commands
            self._written_files += nested.written_files
            self._read_files += nested.read_files
            self._here_documents += nested.here_documents

    def _extend_word(self, text: str, *, is_expanded: bool = False) -> None:
        self._word_parts.append(ShellWord(text, is_expanded))

    def _end_word(self) -> None:
        if not self._word_parts:
            return
        texts, expansions = zip(*self._word_parts, strict=True)
        word = ShellWord("".join(texts), any(expansions))
        self._word_parts = []
        if self._redirect:
            if ">" in self._redirect:
                self._written_files.append(word.text)
            elif self._redirect == "<":
                self._read_files.append(word)
            elif self._redirect == "<<<":
                self._here_documents.append(word.text)
            self._redirect = ""
            return
        if len(self._command) == 1 and self._reserved_word in _NAMING_WORDS and word.text in _RESERVED_WORDS:
            self._end_command()  # its word is the name of a function or a coprocess, as in `function f {`
        if not self._command and (
            word.text in _RESERVED_WORDS or _ASSIGNMENT.match(word.text) or word.text.startswith("-")  # time -p
        ):
            self._is_exact = False
            self._reserved_word = word.text
        else:
            # As in printf -v 'a[$(date)]', which evaluates the subscript.
            is_assignment = word.text.startswith("-v") and len(self._command) == 1 and self._command[0].text == "printf"
            if is_assignment or _SUBSCRIPT_SUBSTITUTION.match(word.text):
                self._is_exact = False
            self._command.append(word)

    def _end_command(self, *, is_last: bool = False) -> None:
        self._end_word()
        if self._command:
            self._commands.append(tuple(self._command))
        elif not is_last:
            self._is_exact = False
        self._command, self._reserved_word = [], ""

    def _skip_here_documents(self, newline: re.Match[str]) -> int:
        """Return the position after the here-documents that begin below a newline."""
        position = newline.end()
        delimiters, self._here_delimiters = self._here_delimiters, []
        for delimiter, is_expanded in delimiters if self._skips_here_documents else ():
            start = position
            end = self._text.find(f"\n{delimiter}\n", start - 1)  # it may be empty, and end with the next line
            if end >= 0:
                position = end + len(delimiter) + 2
            elif self._text.endswith(f"\n{delimiter}"):
                end, position = len(self._text) - len(delimiter) - 1, len(self._text)
            else:
                self._skips_here_documents = False  # searching again and again would take quadratic time
                return position
            self._here_documents.append(self._text[start : max(start, end)])
            if is_expanded:
                self._add_substitutions(self._text[start : max(start, end)])
        return position
