# ruff: noqa: S101 - the contract is checked by assertions
"""A pytest suite that checks a loader, and runs it as ask does: in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from inspect import getattr_static
from typing import Any, ClassVar

from ask import PromptTemplate
from ask.errors import AskError, ConfigError, FileError, PluginError
from ask.inputs.loaders import LoadedContent, is_usable_prefix, read_template_content, run_plugin_loader
from ask.inputs.prompt_inputs import InputReaders
from ask.plugin_api.installed_plugins import PluginEntry
from ask.templates.loaded_template import create_loaded_template
from ask.testing.base import DirectoryContract, fail

UNUSUAL_TEXTS = ("", "-x", "../..", "größer", "a\nb", "a:b@c/d?e#f", "x" * 1_000)


class LoaderContract(DirectoryContract):
    """Checks a loader. Subclass it under a name that begins with `Test`.

    Attributes:
        loader: the function that the entry point names. It must be importable by the name of its module.
        prefix: the name of the entry point.
        files: texts to pass, as those after `-f PREFIX:`, for which it returns text or attachments.
        templates: texts to pass, as those after `-t PREFIX:`, for which it returns a template.
        wrong: texts that must fail with an `AskError`.
        unusual: texts that must either work or fail with an `AskError`.
        timeout: the time limit for one call, in seconds.
    """

    loader: ClassVar[Callable[[str], Any]]
    prefix: ClassVar[str] = ""
    files: ClassVar[Sequence[str]] = ()
    templates: ClassVar[Sequence[str]] = ()
    wrong: ClassVar[Sequence[str]] = ()
    unusual: ClassVar[Sequence[str]] = UNUSUAL_TEXTS
    timeout: ClassVar[float] = 10.0

    def test_prefix_can_be_used(self) -> None:
        assert is_usable_prefix(self.prefix), (
            f"The prefix is {self.prefix!r}. Set `prefix` to the name of the entry point: lower-case letters, digits, "
            "- and _, and not a prefix that ask itself uses."
        )

    def test_texts_to_pass_are_given(self) -> None:
        if not (self.files or self.templates):
            fail(f"{type(self).__name__} tests no call. Add texts to `files` or `templates`.")
        if not self.wrong:
            fail("`wrong` is empty. Add a text for which there is nothing, and raise an ask.AskError for it.")

    def test_files_are_returned(self) -> None:
        for text in self.files:
            content = self.call(text)
            if isinstance(content, PromptTemplate):
                fail(f"{self.prefix}:{text} is a PromptTemplate, which -f does not accept. Move it to `templates`.")
            assert content.attachments or any(part.strip() for _, part in content.texts), (
                f"{self.prefix}:{text} is empty. Raise an ask.AskError if there is nothing."
            )

    def test_templates_are_returned(self) -> None:
        for text in self.templates:
            source, content = f"{self.prefix}:{text}", self.call(text)
            notices: list[str] = []
            try:
                create_loaded_template(source, read_template_content(source, content), self.make_readers(notices))
            except (ConfigError, FileError) as error:
                fail(f"-t {source} cannot use what the loader returned: {error}. Return a valid template.")
            assert not notices, f"{notices[0]}. Leave that out: only templates of the user's own can set it."

    def test_wrong_texts_are_explained(self) -> None:
        for text in self.wrong:
            source = f"{self.prefix}:{text}"
            try:
                self.call_or_raise(text)
            except PluginError as error:
                fail(f"{source} failed unexpectedly: {error.message}. Raise an ask.AskError that says why.")
            except FileError as error:
                assert str(error).strip(), f"{source} failed without a message. Say what is wrong."
            else:
                fail(f"{source} returned something. Raise an ask.AskError that says what is wrong.")

    def test_unusual_texts_are_read_or_explained(self) -> None:
        for text in self.unusual:
            try:
                self.call_or_raise(text)
            except PluginError as error:
                source = f"{self.prefix}:{text[:40]!r}"
                fail(f"{source} failed unexpectedly: {error.message}. Raise an ask.AskError that says why.")
            except FileError:
                pass

    def call(self, text: str) -> LoadedContent:
        """Call the loader with a text that must work."""
        try:
            return self.call_or_raise(text)
        except AskError as error:
            fail(f"{self.prefix}:{text} failed: {error}. Correct the loader, or the text.")

    def call_or_raise(self, text: str) -> LoadedContent:
        """Call the loader in a process of its own. It must not print anything.

        Raises:
            PluginError: it failed with an unexpected exception, or took too long.
            FileError: it reports an error.
            ConfigError: it cannot be loaded.
        """
        loader = getattr_static(type(self), "loader", None)
        function = getattr(loader, "__func__", loader)
        if not callable(function) or not hasattr(function, "__qualname__"):
            fail(f"`loader` is {function!r}. Set it to the function that the entry point names.")
        notices: list[str] = []
        entry = PluginEntry(self.prefix, f"{function.__module__}:{function.__qualname__}", "the contract")
        content = run_plugin_loader(entry, text, self.make_readers(notices))
        printed = [notice for notice in notices if " printed: " in notice]
        assert not printed, f"{printed[0]}. Remove the output: it would disturb the user's terminal."
        return content

    def make_readers(self, notices: list[str]) -> InputReaders:
        return InputReaders(self.timeout, dict(os.environ), notices.append)
