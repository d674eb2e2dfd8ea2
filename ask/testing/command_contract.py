# ruff: noqa: S101 - the contract is checked by assertions
"""A pytest suite that checks a command, and runs it as ask does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import click
import pytest

from ask.cli.commands import is_usable_name
from ask.cli.plugin_commands import run_click_command
from ask.errors import AskError, PluginError
from ask.process.time_limit import limit_time
from ask.testing.base import DirectoryContract, fail


class CommandContract(DirectoryContract):
    """Checks a command. Subclass it under a name that begins with `Test`.

    Attributes:
        command: the Click command that the entry point names.
        name: the name of the entry point, as in `ask NAME`.
        calls: the arguments of calls that succeed.
        wrong_calls: the arguments of calls that must fail, with a message.
        timeout: the time limit for one call, in seconds.
    """

    command: ClassVar[click.Command]
    name: ClassVar[str] = ""
    calls: ClassVar[Sequence[Sequence[str]]] = ()
    wrong_calls: ClassVar[Sequence[Sequence[str]]] = ()
    timeout: ClassVar[float] = 10.0

    def test_name_can_be_used(self) -> None:
        assert is_usable_name(self.name), (
            f"The command's name is {self.name!r}. Set `name` to the name of the entry point: lower-case letters, "
            "digits, - and _, and not the name of a command of ask."
        )

    def test_command_is_a_click_command_with_help(self) -> None:
        command = getattr(self, "command", None)
        if not isinstance(command, click.Command):
            fail(f"`command` is {command!r}. Set it to a function decorated with @click.command.")
        assert (command.help or "").strip(), (
            f"ask {self.name} --help would say nothing. Write a docstring: it is the help of the command."
        )

    def test_help_works(self) -> None:
        assert self.run("--help") == 0

    def test_calls_succeed(self) -> None:
        if not self.calls:
            fail("`calls` is empty. Add the arguments of a call that succeeds, [] for none.")
        for arguments in self.calls:
            call = " ".join(("ask", self.name, *arguments))
            try:
                code = self.run(*arguments)
            except (AskError, click.ClickException) as error:
                fail(f"{call} failed: {getattr(error, 'message', error)}. Correct the command, or the arguments.")
            assert code == 0, f"{call} ended with the exit code {code}. Correct the command, or the arguments."

    def test_wrong_calls_are_explained(self, capfd: pytest.CaptureFixture[str]) -> None:
        for arguments in self.wrong_calls:
            call = " ".join(("ask", self.name, *arguments))
            capfd.readouterr()
            try:
                code = self.run(*arguments)
            except PluginError as error:
                fail(f"{call}: {error.message}. Raise a click.ClickException or an ask.AskError that says why.")
            except (AskError, click.ClickException):
                continue
            assert code != 0, f"{call} succeeded. Raise a click.ClickException that says what is wrong."
            assert capfd.readouterr().err.strip(), f"{call} failed without a message on stderr. Say what is wrong."

    def run(self, *arguments: str) -> int:
        """Run the command with these arguments; return its exit code.

        Raises:
            AskError: it failed.
            click.UsageError: the arguments are invalid.
        """

        def make_time_error() -> AskError:
            return PluginError(f"it took longer than {self.timeout:g} s")

        try:
            with limit_time(self.timeout, make_time_error):
                return run_click_command(self.command, self.name, arguments, "the contract")
        except click.exceptions.Exit as request:
            return request.exit_code
        except click.exceptions.Abort:
            return 130
