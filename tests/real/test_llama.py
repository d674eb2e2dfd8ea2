"""A llama.cpp server with a small model: real streams, a real grammar and real errors.

The content of answers is not checked, since a model of 135 million parameters answers anything.
"""

from __future__ import annotations

import json

import pytest

from tests.mcp.setting import configure
from tests.program import Ask, Home, run

COLORS = ["blue", "green", "red"]
SCHEMA = {
    "type": "object",
    "properties": {"color": {"enum": COLORS}, "certain": {"type": "boolean"}},
    "required": ["color", "certain"],
    "additionalProperties": False,
}
SHORT = ("-o", "max_tokens=60", "-o", "temperature=0")


@pytest.mark.parametrize("way", [[], ["--no-stream"]])
@pytest.mark.parametrize("provider", ["lmstudio", "anthropic", "openai"])
def test_a_prompt_is_answered_over_each_wire(real: Ask, provider: str, way: list[str]) -> None:
    result = real("-p", provider, "-m", "smollm2", "--no-tools", *SHORT, *way, "Name a color.", timeout=120)
    assert (result.code, result.stderr) in ((0, ""), (10, result.stderr))
    assert result.text.strip()


def test_a_pipeline_passes_one_answer_to_the_next(real: Ask, home: Home) -> None:
    options = "--no-tools -o max_tokens=40 -o temperature=0"
    script = f"""
        set -o pipefail
        echo 'The sky is blue.' | ask -q {options} -m smollm2 'Repeat the text.' > first || [ $? = 10 ]
        ask -q {options} --schema '{json.dumps(SCHEMA)}' 'Which color is named?' < first | tee second
    """
    result = run(["bash", "-c", script], env=real.env, cwd=home.work, timeout=240)
    assert result.code == 0, result.stderr
    assert (home.work / "first").read_text().strip()
    answer = json.loads(result.text)
    assert answer.keys() == {"color", "certain"}
    assert isinstance(answer["certain"], bool)
    assert answer["color"] in COLORS


def test_a_conversation_can_be_continued(real: Ask) -> None:
    first = real("--no-tools", *SHORT, "My name is Ada.", timeout=120)
    second = real("--no-tools", *SHORT, "-c", first.conversation, "What is my name?", timeout=120)
    assert {first.code, second.code} <= {0, 10}
    assert second.text.strip()


def test_a_prompt_that_is_too_long_is_a_context_length_error(real: Ask, home: Home) -> None:
    (home.work / "long.txt").write_text("word " * 12_000)
    result = real("--no-tools", "-f", "long.txt", "Summarize.", timeout=240)
    assert result.code == 6
    assert "too long" in result.stderr or "context" in result.stderr
    assert "Traceback" not in result.stderr


def test_tool_schemas_of_real_mcp_servers_are_accepted_as_a_grammar(real: Ask, home: Home) -> None:
    servers = ("time", "git", "fetch", "memory", "everything", "filesystem")
    configure(home, {name: {"command": f"mcp-server-{name}", "timeout": 60} for name in servers})
    listed = real("mcp", "test", timeout=240)
    assert listed.code == 0, listed.text
    tools = ["--disable-tool", "fetch__fetch"]
    result = real(*SHORT, *tools, "--max-rounds", "2", "What time is it?", timeout=500)
    assert result.code in (0, 10, 11), result.stderr
    assert "Traceback" not in result.stderr
