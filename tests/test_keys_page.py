"""docs/keys.md: all commands are run and print what the page shows."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests import wire
from tests.doc_pages import check_commands, find_code_blocks
from tests.model_server import ModelServer
from tests.program import Ask, Home

PAGE = (Path(__file__).parents[1] / "docs" / "keys.md").read_text()
CONFIG, CLOUD_CONFIG = find_code_blocks(PAGE, "toml")
SAVING, COMMAND, KEYRING = find_code_blocks(PAGE, "console")


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("block", "config"),
    [(SAVING, ""), (COMMAND, CONFIG), (KEYRING, "")],
    ids=["file", "key_command", "keyring"],
)
def test_commands_print_the_documented_output(
    ask: Ask, home: Home, server: ModelServer, block: str, config: str
) -> None:
    programs = home.path / "programs"
    programs.mkdir()
    (programs / "pass").write_text("#!/bin/sh\necho sk-or-v1-of-the-command\n")
    (programs / "pass").chmod(0o755)
    home.configure(config)
    server.reply(wire.says("Hello."))
    env = {
        "OPENROUTER_API_KEY": "",
        "PATH": f"{programs}:{home.env['PATH']}",
        "PYTHON_KEYRING_BACKEND": "keyrings.alt.file.PlaintextKeyring",
    }
    check_commands(partial(ask.shell, env=env), [block])
    keys = [request.headers["Authorization"] for request in server.requests]
    assert keys == (["Bearer sk-or-v1-of-the-command"] if config else [])


def test_the_commands_of_cloud_programs_print_the_key(ask: Ask, home: Home, server: ModelServer) -> None:
    programs = home.path / "programs"
    programs.mkdir()
    for name in ("gcloud", "az"):
        (programs / name).write_text(f"#!/bin/sh\n[ $# -gt 1 ] && echo token-of-{name}-0123456789\n")
        (programs / name).chmod(0o755)
    home.configure(CLOUD_CONFIG)
    server.reply(wire.says("Hello."))
    path = {"PATH": f"{programs}:{home.env['PATH']}"}
    azure = ask("-m", "azure:x", "hi", env=path | {"AZURE_BASE_URL": server.base_url})
    assert azure.code == 0, azure.stderr
    assert server.requests[-1].headers["Authorization"] == "Bearer token-of-az-0123456789"
    ask("-p", "vertex", "hi", env=path | {"VERTEX_BASE_URL": server.base_url})
    assert server.requests[-1].headers["Authorization"] == "Bearer token-of-gcloud-0123456789"
