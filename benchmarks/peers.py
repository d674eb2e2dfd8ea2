"""Other programs of the kind, where `make bench-peers` has installed them: each in an environment of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.measuring import Command
from benchmarks.surroundings import ROOT, Ground

PLACE = ROOT / ".venv-peers"
MODELS = """\
- model_id: ours
  model_name: m
  api_base: {url}
  api_key_name: ours
"""


def peers(ground: Ground, words: str) -> dict[str, Command]:
    """The peers that are installed, asking our model."""
    made = {"llm": llm, "sgpt": sgpt}
    return {name: make(ground, words) for name, make in made.items() if program(name).exists()}


def program(name: str) -> Path:
    """Where a peer is installed, if it is."""
    return PLACE / name / "bin" / name


def llm(ground: Ground, words: str) -> Command:
    """`llm` takes the address of a service from a list of models in its folder."""
    environment = ground.environment("llm")
    folder = Path(environment["HOME"], "llm")
    folder.mkdir(exist_ok=True)
    (folder / "extra-openai-models.yaml").write_text(MODELS.format(url=environment["BASE_URL"]))
    (folder / "keys.json").write_text('{"ours": "sk-benchmark"}')
    return called(["llm", "-m", "ours", words], environment | {"LLM_USER_PATH": str(folder)})


def sgpt(ground: Ground, words: str) -> Command:
    """`sgpt` takes it from the environment; without its cache, which would answer in the model's place."""
    environment = ground.environment("sgpt")
    home = environment["HOME"]
    own = {
        "API_BASE_URL": environment["BASE_URL"],
        "OPENAI_API_KEY": "sk-benchmark",
        "DEFAULT_MODEL": "m",
        "CACHE_PATH": f"{home}/cache",
        "CHAT_CACHE_PATH": f"{home}/chats",
    }
    return called(["sgpt", "--no-md", "--no-cache", words], environment | own)


def called(words: list[str], environment: Mapping[str, str]) -> Command:
    """A peer's command, with the path to it."""
    return Command((str(program(words[0])), *words[1:]), environment)
