"""`ask init`: prints the shell integration script and installs completions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.completion_scripts import SCRIPTS
from tests.program import Ask, Home, run
from tests.shells import BASH_THEN_OTHERS, EACH_SHELL, NAMES, TAB, Shell, evaluate, read_completed_words

PLACES = {
    "bash": ("XDG_DATA_HOME", "bash-completion/completions/ask"),
    "zsh": ("XDG_DATA_HOME", "zsh/site-functions/_ask"),
    "fish": ("XDG_CONFIG_HOME", "fish/completions/ask.fish"),
}


def find_place(home: Home, shell: str) -> Path:
    """Return the file in which completions are installed."""
    variable, name = PLACES[shell]
    return Path(home.env[variable], name)


@pytest.mark.slow_after_first
@pytest.mark.parametrize("shell", EACH_SHELL)
def test_the_script_is_valid_shell_code_and_needs_no_provider_or_key(shell: str, home: Home) -> None:
    (home.path / "script").write_text(evaluate(home, shell))
    assert run([shell, "-n", str(home.path / "script")]).code == 0
    assert "{{" not in (home.path / "script").read_text()
    assert not any(home.data.parent.iterdir())


@pytest.mark.slow
@pytest.mark.needs("shellcheck")
def test_shellcheck_accepts_the_bash_script(home: Home) -> None:
    (home.path / "script").write_text(evaluate(home, "bash"))
    checked = run(["shellcheck", str(home.path / "script")])
    assert (checked.code, checked.text) == (0, "")


@pytest.mark.parametrize(
    ("shell", "key", "bound"),
    [
        ("bash", "alt-k", "__ask_bind '\\ek' __ask_line 1"),
        ("bash", "ctrl-x a", "__ask_bind '\\C-xa' __ask_line 1"),
        ("zsh", "ctrl-g", "__ask_bind '^g' __ask_line 1"),
        ("fish", "alt-k", "__ask_bind \\ek __ask_line 1"),
        ("bash", "none", "__ask_bind '' __ask_line 1"),
    ],
)
def test_key_bindings_are_converted_to_the_notation_of_the_shell(shell: str, key: str, bound: str, ask: Ask) -> None:
    assert bound in ask("init", shell, "--key", key).text


@pytest.mark.parametrize("key", ["a", "alt-", "ctrl-m", "'; rm -rf ~'", "alt-a; x", "", "alt-a none", "alt-ä"])
def test_invalid_key_bindings_are_rejected(key: str, ask: Ask) -> None:
    result = ask("init", "bash", "--key", key)
    assert (result.code, result.stdout) == (2, b"")


def test_two_bindings_need_two_keys(ask: Ask) -> None:
    result = ask("init", "bash", "--key", "alt-x", "--explain-key", "Alt-X")
    assert (result.code, result.stdout, result.stderr.count("\n")) == (2, b"", 1)
    assert ask("init", "bash", "--key", "none", "--explain-key", "none").code == 0


@pytest.mark.parametrize("arguments", [["init"], ["init", "csh"], ["init", "bash", "--install", "--uninstall"]])
def test_invalid_arguments_are_a_usage_error(arguments: list[str], ask: Ask) -> None:
    assert ask(*arguments).code == 2


@pytest.mark.parametrize("shell", NAMES)
def test_completions_are_installed_and_removed(shell: str, ask: Ask, home: Home) -> None:
    place = find_place(home, shell)
    for _ in range(2):
        installed = ask("init", shell, "--install")
        assert (installed.code, installed.stdout) == (0, b"")
        assert str(place) in installed.stderr
        assert f"ask init {shell}" in installed.stderr
        assert place.read_bytes() == (SCRIPTS / f"ask.{shell}").read_bytes()
    assert list(place.parent.iterdir()) == [place]
    assert ask("init", shell, "--uninstall").code == 0
    assert not place.exists()
    assert "no completions" in ask("init", shell, "--uninstall").stderr


@pytest.mark.parametrize("option", ["--install", "--uninstall"])
def test_foreign_completion_files_are_not_replaced(option: str, ask: Ask, home: Home) -> None:
    place = find_place(home, "bash")
    place.parent.mkdir(parents=True)
    place.write_text("# mine\n")
    result = ask("init", "bash", option)
    assert (result.code, result.stderr.count("\n")) == (9, 1)
    assert place.read_text() == "# mine\n"


def test_a_folder_that_cannot_be_created_exits_with_9(ask: Ask, home: Home) -> None:
    (home.data.parent / "bash-completion").write_text("a file")
    result = ask("init", "bash", "--install")
    assert (result.code, result.stderr.count("\n")) == (9, 1)


@pytest.mark.parametrize("shell", BASH_THEN_OTHERS)
def test_installed_completions_work_without_the_integration(shell: str, ask: Ask, home: Home) -> None:
    ask("init", shell, "--install")
    start = {
        "bash": f". {find_place(home, 'bash')}",
        "zsh": f"fpath=({find_place(home, 'zsh').parent} $fpath)\nautoload -Uz compinit && compinit -u -D",
        "fish": "",
    }
    alone = Evaluated(shell, home, home.env, before=start[shell])
    with alone.on_terminal() as running:
        read_completed_words(running, f"ask -p openr{TAB}", "<ask><-p><openrouter>")


class Evaluated(Shell):
    """A shell whose startup file does not evaluate `ask init`."""

    def rc(self) -> Path:
        file = super().rc()
        file.write_text("\n".join(line for line in file.read_text().splitlines() if "ask init" not in line) + "\n")
        return file
