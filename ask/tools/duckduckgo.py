"""DuckDuckGo search with the `ddgs` package (extra `web`), which reads DuckDuckGo's HTML result pages.

It runs in a separate process because it parses HTML and cannot be interrupted. `ddgs` supports several engines; only
DuckDuckGo is enabled, so no other host is reached.
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
    """Search DuckDuckGo.

    Raises:
        ToolError: The search failed or found nothing.
    """
    from subprocess import SubprocessError, TimeoutExpired

    from ask.tools.search_engine import WebSearchResult

    environment, seconds = context.environment, context.command_timeout
    try:
        bundle = find_ca_bundle(environment)
    except ConfigError as error:
        raise ToolError(f"duckduckgo could not be asked: {error}") from None
    parameters = {
        "query": query,
        "max_results": max_results,
        "timeout": max(int(seconds), 1),
        "bundle": bundle and bundle.path,
    }
    try:
        response = json.loads(run_in_subprocess(__name__, json.dumps(parameters).encode(), seconds, environment))
    except TimeoutExpired:
        raise ToolError(f"duckduckgo had not answered after {seconds:g} s") from None
    except (SubprocessError, ValueError):
        from ask.installation import format_install_command

        hint = f"the user can install it anew: {format_install_command('web')}"
        raise ToolError(f"the package ddgs failed: {hint}") from None
    if isinstance(response, str):
        if bundle and "certificate" in response.lower():
            response += f"; the trusted certificates are those in {bundle}"
        raise ToolError(response)
    return [WebSearchResult(**result) for result in response]


def main() -> None:
    """Run the search given as JSON on stdin; write the results, or an error message, as JSON."""
    limit_memory()
    sys.stdout.write(json.dumps(_query_duckduckgo(**json.load(sys.stdin))))


@contextmanager
def _open_ca_file(bundle_path: str | None) -> Iterator[str | bool]:
    """Yield the `verify` argument for ddgs.

    ddgs takes a file but no folder, so the certificates of a folder are concatenated.

    Raises:
        ssl.SSLError: There is no certificate.
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
    with NamedTemporaryFile(suffix=".pem") as bundle_file:
        bundle_file.write(b"\n".join(path.read_bytes() for path in files if os.access(path, os.R_OK)))
        bundle_file.flush()
        create_default_context(cafile=bundle_file.name)
        yield bundle_file.name


def _query_duckduckgo(query: str, max_results: int, timeout: int, bundle: str | None) -> list[dict[str, str]] | str:
    from ssl import SSLError

    from ddgs import DDGS
    from ddgs.exceptions import DDGSException, TimeoutException

    try:
        with _open_ca_file(bundle) as verify:
            results: list[dict[str, Any]] = DDGS(timeout=timeout, verify=verify).text(
                query, region="wt-wt", backend="duckduckgo", max_results=max_results
            )
    except SSLError:
        return "duckduckgo could not be asked: no certificate is trusted"
    except TimeoutException:
        return "duckduckgo did not answer in time: search again later, or do without"
    except DDGSException as error:
        if str(error) == NO_RESULTS_MESSAGE:  # ddgs also reports this for a CAPTCHA page
            return "duckduckgo found nothing, or takes no more requests for now: try other words, or do without"
        reason = str(error).partition(" > ")[2] or str(error)
        return f"duckduckgo could not be asked: {' '.join(reason.rstrip(')').split())[:_MAX_REASON_LENGTH]}"
    return [
        {name: str(result.get(key) or "") for name, key in (("title", "title"), ("url", "href"), ("snippet", "body"))}
        for result in results
    ]
