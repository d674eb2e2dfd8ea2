"""The sign-in page of a service: opening it in the browser, and asking for the URL to which it redirects."""

from __future__ import annotations

import sys
import threading
import webbrowser

import click

from ask.errors import UsageError
from ask.tools.file_access import escape_for_display


def can_open_browser() -> bool:
    """Check whether there is a browser on this machine."""
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def show_page(title: str, url: str, *, opens_browser: bool) -> None:
    """Print the URL of the page, and open it in a browser."""
    click.echo(f"Open this page to sign in to {title}:\n{escape_for_display(url)}", err=True)
    if opens_browser:
        # A text browser, or one that $BROWSER names, runs until it is closed.
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()


def read_redirect() -> str:
    """Ask for the URL to which the browser was sent.

    Raises:
        UsageError: standard input ended before it.
    """
    try:
        answer: str = click.prompt("Redirected URL", err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)
        raise UsageError("no redirected URL on stdin", "run this on a terminal, or pipe the URL in") from None
    return answer
