"""DuckDuckGo search with the `ddgs` package (extra `web`), which reads DuckDuckGo's HTML result pages.

It runs in a separate process because it parses HTML and cannot be interrupted. `ddgs` supports several engines; only
DuckDuckGo is enabled, so no other host is reached.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ask.client.certificates import find_ca_bundle
from ask.errors import ConfigError
from ask.process.isolated_process import limit_memory, run_in_subprocess
from ask.tools.base import RunToolContext, ToolError

NO_RESULTS_MESSAGE = "No results found."
_MAX_REASON_CHARACTERS = 200


def search_duckduckgo(query: str, max_results: int, context: RunToolContext) -> list[tuple[str, str, str]]:
    """Search DuckDuckGo; return title, URL and snippet of each result.

    Raises:
        ToolError: the search failed or found nothing.
    """
    from subprocess import SubprocessError, TimeoutExpired

    seconds = context.command_timeout
    try:
        bundle = find_ca_bundle(context.environment)
    except ConfigError as error:
        raise ToolError(f"cannot reach duckduckgo: {error}") from None
    parameters = json.dumps([query, max_results, max(int(seconds), 1), bundle and bundle.path]).encode()
    try:
        response = json.loads(run_in_subprocess(__name__, parameters, seconds, environment=context.environment))
    except TimeoutExpired:
        raise ToolError(f"duckduckgo did not respond within {seconds:g} s") from None
    except (SubprocessError, ValueError):
        from ask.config.installation import format_install_command

        hint = f"the user can reinstall it: {format_install_command('web')}"
        raise ToolError(f"the package ddgs failed: {hint}") from None
    if isinstance(response, str):
        if bundle and "certificate" in response.lower():
            response += f"; trusted certificates come from {bundle}"
        raise ToolError(response)
    return [(title, url, snippet) for title, url, snippet in response]


def main() -> None:
    """Run the search given as JSON on stdin; write the results, or an error message, as JSON."""
    limit_memory()
    sys.stdout.write(json.dumps(_query_duckduckgo(*json.load(sys.stdin))))


def _query_duckduckgo(query: str, max_results: int, timeout: int, bundle_path: str | None) -> list[list[str]] | str:
    from ssl import SSLError, create_default_context
    from tempfile import NamedTemporaryFile

    from ddgs import DDGS
    from ddgs.exceptions import DDGSException, TimeoutException

    with NamedTemporaryFile(suffix=".pem") as bundle_file:
        verify: str | bool = True
        try:
            if bundle_path:  # ddgs takes a file but no folder, so the certificates of a folder are concatenated
                path = Path(bundle_path)
                files = path.iterdir() if path.is_dir() else [path]
                readable_files = [file for file in files if file.is_file() and os.access(file, os.R_OK)]
                bundle_file.write(b"\n".join(file.read_bytes() for file in readable_files))
                bundle_file.flush()
                verify = bundle_file.name
                create_default_context(cafile=verify)
            results = DDGS(timeout=timeout, verify=verify).text(
                query,
                region="wt-wt",  # no region
                backend="duckduckgo",
                max_results=max_results,
            )
        except SSLError:
            return "cannot reach duckduckgo: no certificates are trusted"
        except TimeoutException:
            return "duckduckgo did not respond in time: try again later, or continue without searching"
        except DDGSException as error:
            if str(error) == NO_RESULTS_MESSAGE:  # ddgs also reports this for a CAPTCHA page
                return "duckduckgo found nothing, or refuses requests: try other words, or continue without searching"
            reason = str(error).partition(" > ")[2] or str(error)
            return f"cannot reach duckduckgo: {' '.join(reason.rstrip(')').split())[:_MAX_REASON_CHARACTERS]}"
    return [[str(result.get(key) or "") for key in ("title", "href", "body")] for result in results]
