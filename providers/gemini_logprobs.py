"""The logprobs of Gemini's answers. https://ai.google.dev/api/generate-content#LogprobsResult"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from ask.parsing import read_dict, read_list, read_number, read_str


def read_logprobs(candidate: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tokens of an answer with their logprobs, in the format of Chat Completions."""
    result = read_dict(candidate.get("logprobsResult"))
    chosen, positions = read_list(result.get("chosenCandidates")), read_list(result.get("topCandidates"))
    return [
        _to_token(token) | {"top_logprobs": list(map(_to_token, read_list(read_dict(position).get("candidates"))))}
        for token, position in zip_longest(chosen, positions[: len(chosen)])
    ]


def _to_token(candidate: Any) -> dict[str, Any]:
    fields = read_dict(candidate)
    return {"token": read_str(fields.get("token")), "logprob": read_number(fields.get("logProbability"))}
