"""DuckDuckGo's results by the package `ddgs`, of the extra `web`: it reads the pages that DuckDuckGo makes for people.

It works in a process of its own, as it reads HTML, and cannot be interrupted. Of the engines that it knows it asks
this one alone, so that no host is reached but DuckDuckGo's.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ask.client.certificates import find_ca_bundle
from ask.errors import ConfigError
from ask.tools.base import ToolContext, ToolError
from ask.tools.isolated_process import limit_memory, run_in_subprocess

if TYPE_CHECKING:
    from ask.tools.search_engine import WebSearchResult

NO_RESULTS_MESSAGE = "No results found."
_MAX_REASON_LENGTH = 200


def search_duckduckgo(query: str, max_results: int, context: ToolContext) -> list[WebSearchResult]:
    """What DuckDuckGo finds.

    Args:
        query: what to look for.
        max_results: how many results there are to be at most.
        context: of the run.

    Raises:
        ToolError: it cannot be asked, or gives nothing.
    """
    from subprocess import SubprocessError, TimeoutExpired

    from ask.tools.search_engine import WebSearchResult

    environment, seconds = context.environment, context.command_timeout
    try:
        bundle = find_ca_bundle(environment)
    except ConfigError as error:
        raise ToolError(f"duckduckgo could not be asked: {error}") from None
    wish = {"words": query, "count": max_results, "timeout": max(int(seconds), 1), "bundle": bundle and bundle.path}
    try:
        told = json.loads(run_in_subprocess(__name__, json.dumps(wish).encode(), seconds, environment))
    except TimeoutExpired:
        raise ToolError(f"duckduckgo had not answered after {seconds:g} s") from None
    except (SubprocessError, ValueError):
        from ask.installation import format_install_command

        advice = f"the user can install it anew: {format_install_command('web')}"
        raise ToolError(f"the package ddgs failed: {advice}") from None
    if isinstance(told, str):
        if bundle and "certificate" in told.lower():
            told += f"; the trusted certificates are those in {bundle}"
        raise ToolError(told)
    return [WebSearchResult(**result) for result in told]


def main() -> None:
    """Reads from standard input what to look for; writes what was found, or in a word why nothing was."""
    limit_memory()
    sys.stdout.write(json.dumps(_query_duckduckgo(**json.load(sys.stdin))))


@contextmanager
def _open_ca_file(bundle_path: str | None) -> Iterator[str | bool]:
    """Yield `verify` for ddgs, which takes a file and no folder: a folder's certificates are joined in one.

    Raises:
        ssl.SSLError: there is no certificate.
    """
    if bundle_path is None:
        yield True
        return
    from ssl import create_default_context
    from tempfile import NamedTemporaryFile

    files = (
        [Path(bundle_path)]
        if Path(bundle_path).is_file()
        else [path for path in Path(bundle_path).iterdir() if path.is_file()]
    )
    with NamedTemporaryFile(suffix=".pem") as joined:
        joined.write(b"\n".join(path.read_bytes() for path in files if os.access(path, os.R_OK)))
        joined.flush()
        create_default_context(cafile=joined.name)
        yield joined.name


def _query_duckduckgo(words: str, count: int, timeout: int, bundle: str | None) -> list[dict[str, str]] | str:
    from ssl import SSLError

    from ddgs import DDGS
    from ddgs.exceptions import DDGSException, TimeoutException

    try:
        with _open_ca_file(bundle) as verify:
            found: list[dict[str, Any]] = DDGS(timeout=timeout, verify=verify).text(
                words, region="wt-wt", backend="duckduckgo", max_results=count
            )
    except SSLError:
        return "duckduckgo could not be asked: no certificate is trusted"
    except TimeoutException:
        return "duckduckgo did not answer in time: search again later, or do without"
    except DDGSException as fault:
        if str(fault) == NO_RESULTS_MESSAGE:  # which it says too of a page that asks whether one is a robot
            return "duckduckgo found nothing, or takes no more requests for now: try other words, or do without"
        reason = str(fault).partition(" > ")[2] or str(fault)
        return f"duckduckgo could not be asked: {' '.join(reason.rstrip(')').split())[:_MAX_REASON_LENGTH]}"
    return [
        {name: str(result.get(key) or "") for name, key in (("title", "title"), ("url", "href"), ("snippet", "body"))}
        for result in found
    ]
