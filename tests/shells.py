"""Real shells on a terminal, with `ask init` in their startup files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.program import ASK, Home, Running, run

NAMES = ("bash", "zsh", "fish")
EACH_SHELL = ["bash", *(pytest.param(name, marks=pytest.mark.needs(name)) for name in ("zsh", "fish"))]
BASH_THEN_OTHERS = [
    "bash",
    *(pytest.param(name, marks=[pytest.mark.slow, pytest.mark.needs(name)]) for name in ("zsh", "fish")),
]
"""Shells to parametrize tests with: bash always, the others only in the slow test run."""
READY = "ready> "
START, ALT_A, ALT_E, TAB, KILL = "\x01", "\x1ba", "\x1be", "\t", "\x15"
MODES = {
    "emacs": {"bash": "set -o emacs", "zsh": "bindkey -e", "fish": "fish_default_key_bindings"},
    "vi": {"bash": "set -o vi", "zsh": "bindkey -v", "fish": "fish_vi_key_bindings"},
}
PROMPTS = {
    "bash": f"PS1='{READY}'\nbind 'set bell-style none'\n",
    "zsh": f"PS1='{READY}'\nautoload -Uz compinit && compinit -u -D\n",
    "fish": f"function fish_prompt; printf '{READY}'; end\nfunction fish_mode_prompt; end\nset -g fish_greeting\n",
}
EVALS = {"bash": 'eval "$(ask init bash{})"', "zsh": 'eval "$(ask init zsh{})"', "fish": "ask init fish{} | source"}


@dataclass(frozen=True)
class Shell:
    """A shell whose startup file evaluates the output of `ask init`, with code before and after it."""

    name: str
    home: Home
    env: Mapping[str, str]
    before: str = ""
    after: str = ""
    options: str = ""

    def rc(self) -> Path:
        places = {"bash": "home/.bashrc", "zsh": "home/.zshrc", "fish": "config/fish/config.fish"}
        file = self.home.path / places[self.name]
        file.parent.mkdir(exist_ok=True)
        evaluated = EVALS[self.name].format(self.options)
        file.write_text("\n".join((PROMPTS[self.name], self.before, evaluated, self.after, "")))
        return file

    @property
    def command(self) -> list[str]:
        return ["bash", "--rcfile", str(self.rc()), "-i"] if self.name == "bash" else self.command_with("-i")

    def command_with(self, option: str) -> list[str]:
        """Return the command that starts the shell with this option."""
        self.rc()
        return ["zsh", "-d", option] if self.name == "zsh" else [self.name, option]

    @contextmanager
    def on_terminal(self) -> Iterator[Running]:
        """Start the shell on a terminal and wait for its prompt."""
        env = {**self.env, "HISTFILE": str(self.home.path / "shell_history")}
        with Running(self.command, env=env, cwd=self.home.work, terminal=True) as running:
            running.wait_for(READY, 30)
            yield running


def split_words(line: str, cwd: Path) -> list[str]:
    """Return the words of a line as bash splits them in a folder, with patterns and quotes resolved."""
    words = run(["bash", "-c", f"printf '%s\\0' {line}"], cwd=cwd).stdout
    return words.decode(errors="surrogateescape").split("\0")[:-1]


def evaluate(home: Home, shell: str, options: str = "") -> str:
    """Return the output of `ask init`."""
    return run([ASK, "init", shell, *options.split()], env=home.env, cwd=home.work).text


def read_completed_words(running: Running, typed: str, wanted: str) -> None:
    """Type on an empty line, then return the words on the line: "<ask><-p><demo>"."""
    place = len(running.stdout)
    running.type_in(f"{typed}{START}printf '<%s>' \r")
    running.wait_for(wanted, 20, after=place)
    running.wait_for(READY, 20, after=running.wait_for(wanted, after=place))
