"""docs/login.md: all commands are run and print what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.authorization_server import AuthorizationServer
from tests.doc_pages import check_commands, find_code_blocks
from tests.login.conftest import BROWSER
from tests.program import Ask, Home

PAGE = (Path(__file__).parents[1] / "docs" / "login.md").read_text()
SIGNING_IN, ACCOUNTS = find_code_blocks(PAGE, "console")


@pytest.mark.slow
def test_commands_print_the_documented_output(home: Home) -> None:
    with AuthorizationServer() as openai:
        env = {"CHATGPT_ISSUER": openai.issuer, "CHATGPT_BASE_URL": f"{openai.issuer}/v1", "BROWSER": BROWSER}
        ask = Ask({**home.env, **env}, home.work)
        for block in (SIGNING_IN, ACCOUNTS):
            if block == ACCOUNTS:
                assert ask("login", "chatgpt").code == 0
                openai.user = {"sub": "user-2", "email": "work@example.org"}
            shown = block.replace("https://auth.openai.com", openai.issuer)
            check_commands(lambda line: ask.shell(f"{{ {line}\n}} 2>&1"), [shown])
