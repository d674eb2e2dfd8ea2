"""Similar programs, if `make bench-peers` has installed them, each in its own virtual environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.environment import ROOT, BenchmarkEnvironment
from benchmarks.measurement import Command

PEERS_FOLDER = ROOT / ".venv-peers"
MODELS = """\
- model_id: ours
  model_name: m
  api_base: {url}
  api_key_name: ours
"""


def list_peer_commands(env: BenchmarkEnvironment, words: str) -> dict[str, Command]:
    """Return the commands of the installed peers, configured to use our model."""
    made = {"llm": llm, "sgpt": sgpt}
    return {name: make(env, words) for name, make in made.items() if find_program(name).exists()}


def list_map_peer_commands(env: BenchmarkEnvironment, rows: int) -> dict[str, Command]:
    """Return the command that sends rows with `xargs` and `llm`, 64 at a time, if `llm` is installed.

    `llm` runs once before: several first runs at a time fail, because each creates its database.
    """
    if not find_program("llm").exists():
        return {}
    one = llm(env, "row {}", "--no-stream", "--no-log", service="slow")
    script = 'seq "$0" | xargs -P 64 -I {} "$@"'
    return {"llm": one._replace(words=("/bin/sh", "-c", script, str(rows), *one.words), before=one.words)}


def list_map_script_commands(env: BenchmarkEnvironment, rows: int) -> dict[str, Command]:
    """Return the command of the script with aiohttp, if that is installed, whose rows are answered at once."""
    python = PEERS_FOLDER / "aiohttp" / "bin" / "python"
    if not python.exists():
        return {}
    return {"aiohttp": env.bare_map(rows, service="fast", script="bare_map_aiohttp", python=str(python))}


def find_program(name: str) -> Path:
    return PEERS_FOLDER / name / "bin" / name


def llm(env: BenchmarkEnvironment, words: str, *options: str, service: str = "") -> Command:
    """`llm` reads the address of a service from a list of models in its folder."""
    environment = env.create_environment(f"llm-{service}", service=service)
    folder = Path(environment["HOME"], "llm")
    folder.mkdir(exist_ok=True)
    (folder / "extra-openai-models.yaml").write_text(MODELS.format(url=environment["BASE_URL"]))
    (folder / "keys.json").write_text('{"ours": "sk-benchmark"}')
    return create_command(["llm", "-m", "ours", *options, words], environment | {"LLM_USER_PATH": str(folder)})


def sgpt(env: BenchmarkEnvironment, words: str) -> Command:
    """`sgpt` reads the address from the environment. Its cache is turned off, as it would replace the request."""
    environment = env.create_environment("sgpt")
    home = environment["HOME"]
    own = {
        "API_BASE_URL": environment["BASE_URL"],
        "OPENAI_API_KEY": "sk-benchmark",
        "DEFAULT_MODEL": "m",
        "CACHE_PATH": f"{home}/cache",
        "CHAT_CACHE_PATH": f"{home}/chats",
    }
    return create_command(["sgpt", "--no-md", "--no-cache", words], environment | own)


def create_command(words: list[str], environment: Mapping[str, str]) -> Command:
    return Command((str(find_program(words[0])), *words[1:]), environment)
