"""Complete answers with logprobs in the formats of four APIs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ask.schemas.token_probabilities import TokenLogprob
from tests import responses_wire, wire
from tests.providers import gemini_wire

Json = dict[str, Any]


def join_text(tokens: Sequence[TokenLogprob]) -> str:
    return b"".join(token.token for token in tokens).decode()


def to_openai_tokens(tokens: Sequence[TokenLogprob]) -> list[Json]:
    """Return tokens as in `logprobs.content` of Chat Completions; Ollama's and the Responses API's are the same."""

    def describe(text: bytes, logprob: float) -> Json:
        return {"token": text.decode("utf-8", "backslashreplace"), "bytes": list(text), "logprob": logprob}

    return [
        describe(token.token, token.logprob) | {"top_logprobs": [describe(*each) for each in token.alternatives]}
        for token in tokens
    ]


def to_chat_answer(tokens: Sequence[TokenLogprob]) -> Json:
    """Return a response of Chat Completions."""
    body = wire.answer(join_text(tokens))
    body["choices"][0]["logprobs"] = {"content": to_openai_tokens(tokens), "refusal": None}
    return body


def to_responses_answer(tokens: Sequence[TokenLogprob]) -> Json:
    """Return a response of the Responses API."""
    message = responses_wire.message(join_text(tokens))
    message["content"][0]["logprobs"] = to_openai_tokens(tokens)
    return responses_wire.response(message)


def to_gemini_answer(tokens: Sequence[TokenLogprob]) -> Json:
    """Return a response of generateContent, whose tokens have no bytes."""

    def describe(text: bytes, logprob: float) -> Json:
        return {"token": text.decode("utf-8", "replace"), "logProbability": logprob, "tokenId": len(text)}

    result = {
        "chosenCandidates": [describe(token.token, token.logprob) for token in tokens],
        "topCandidates": [{"candidates": [describe(*each) for each in token.alternatives]} for token in tokens],
    }
    return gemini_wire.whole(gemini_wire.text(join_text(tokens)), logprobsResult=result)


def to_ollama_answer(tokens: Sequence[TokenLogprob]) -> Json:
    """Return a response of Ollama's own API."""
    message = {"role": "assistant", "content": join_text(tokens)}
    counts = {"prompt_eval_count": 20, "eval_count": len(tokens)}
    end = {"done": True, "done_reason": "stop", "logprobs": to_openai_tokens(tokens)}
    return {"model": "qwen3:4b", "created_at": "2026-11-27T10:00:00Z", "message": message, **end, **counts}
