"""Probabilities of the allowed values of a field, from the logprobs of an answer's tokens.

A value has many tokenizations: `"billing"` may be one token, or `"`, `bill`, `ing"`. The probability of the first token
that the model wrote is therefore not that of the value. Here, the probabilities of all tokens that begin the value's
JSON text, or that cover it, are added up.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Any

from ask.records import NamedTuple

WHITESPACE = b" \t\r\n"
VALUE_ENDS = (b",", b"}", b" ", b"\t", b"\r", b"\n")
"""What may follow a value. Without one of these, the `1` of an answer may still become `10`."""
USUAL_SHARE = 0.001
"""A text is rarely written as other tokens than usual: with less than this share of the probability."""
MAX_TOKEN_BYTES = 512
"""More bytes than a token has, so that most of a long answer needs no comparison."""
DECODER = json.JSONDecoder()


class TokenLogprob(NamedTuple):
    """A token of an answer, with the tokens that the model could have written in its place.

    Attributes:
        token: the token's text in UTF-8, which may be a part of a character.
        logprob: the natural logarithm of its probability.
        alternatives: the most likely tokens at its position with their logprobs, usually including itself.
    """

    token: bytes
    logprob: float
    alternatives: Sequence[tuple[bytes, float]] = ()


class ValueProbabilities(NamedTuple):
    """The probabilities of the allowed values of a field; their sum is 1.

    Attributes:
        probabilities: the probability of each value, in the order of the values.
        outside: the probability of texts that are none of the values, before the others were normalized.
        unresolved: the probability of tokens whose value is unknown: those that the service does not list, and those
            that begin several values where the answer went on with another token. The latter is divided among those of
            these values that no longer token begins; in proportion to what is known of them, or equally.
    """

    probabilities: tuple[float, ...]
    outside: float
    unresolved: float


def compute_value_probabilities(
    tokens: Sequence[TokenLogprob], answer: Mapping[str, Any], allowed_values: Mapping[str, Sequence[Any]]
) -> dict[str, ValueProbabilities]:
    """Return the probabilities of the allowed values of each field whose value is in the tokens.

    The probabilities of a field are those after the text before it, so they depend on the fields before it.

    Args:
        tokens: the tokens of the complete answer, in order.
        answer: the JSON object that was read from the answer.
        allowed_values: the values that each field can have.
    """
    text = b"".join(token.token for token in tokens)
    probabilities = {}
    for name, start in find_value_positions(text, answer).items():
        if name in allowed_values:
            variants = [_encode_value(value) for value in allowed_values[name]]
            _add_written_text(variants, allowed_values[name], answer[name], text[start:])
            result = _compute_field(tokens, text, start, variants)
            if result:
                probabilities[name] = result
    return probabilities


def find_value_positions(text: bytes, answer: Mapping[str, Any]) -> dict[str, int]:
    """Return where the value of each field begins, right after the colon; {} if the text does not contain the answer.

    The text may contain more than the answer, such as reasoning or a fence.
    """
    decoded = text.decode("utf-8", "surrogateescape")
    brace = decoded.find("{")
    while brace >= 0:
        try:
            value, end = DECODER.raw_decode(decoded, brace)
        except (ValueError, RecursionError):
            end = brace + 1
        else:
            if value and value == answer:
                positions = _read_positions(decoded, brace)
                return {name: len(decoded[:at].encode("utf-8", "surrogateescape")) for name, at in positions.items()}
        brace = decoded.find("{", end)
    return {}


def _read_positions(text: str, brace: int) -> dict[str, int]:
    """Return the index after the colon of each field of the valid JSON object at `brace`."""
    positions: dict[str, int] = {}
    index = text.find('"', brace)
    while index >= 0:
        name, end = DECODER.raw_decode(text, index)
        start = positions[name] = text.index(":", end) + 1
        while text[start].isspace():
            start += 1
        _, end = DECODER.raw_decode(text, start)
        while text[end].isspace():
            end += 1
        index = text.find('"', end) if text[end] == "," else -1
    return positions


def _compute_field(
    tokens: Sequence[TokenLogprob], text: bytes, start: int, variants: Sequence[Collection[bytes]]
) -> ValueProbabilities | None:
    """Return the probabilities of the value that begins at `start`; None if the tokens give none to any value.

    At each token, the alternatives leave the answer's path. Along the path, the probability of getting there is the
    product of those of its tokens. It begins with the first token in whose place another one could reach into the
    value: the answer may have `":` and ` true` where a likelier token is `":true`.
    """
    known, shared = [0.0] * len(variants), list[tuple[list[int], float]]()
    outside, unreachable, path, has_begun = 0.0, 0.0, 1.0, False
    for token, end in zip(tokens, accumulate(len(token.token) for token in tokens), strict=True):
        if end < start - MAX_TOKEN_BYTES:
            continue
        begin = end - len(token.token)
        prefix, written = text[begin:start], text[start:begin]
        alternatives = _merge_alternatives(token)
        has_begun = has_begun or any(len(each) > len(prefix) and each.startswith(prefix) for each in alternatives)
        if not has_begun:
            continue
        branches: dict[bytes, tuple[list[int], float]] = {}
        for alternative, probability in alternatives.items():
            if not (alternative.startswith(prefix) or prefix.startswith(alternative)):
                unreachable += path * probability  # another text before the value, such as another field
                continue
            candidates = _find_candidates(written + alternative[len(prefix) :], variants)
            branches[alternative] = candidates, path * probability
            if len(candidates) == 1:
                known[candidates[0]] += path * probability
            elif not candidates:
                outside += path * probability
        path = branches[token.token][1] if len(branches[token.token][0]) > 1 else 0.0
        shared += [
            (_find_own_candidates(alternative, branches), probability)
            for alternative, (candidates, probability) in branches.items()
            if len(candidates) > 1 and alternative != token.token
        ]
        if not path:
            break
    return _normalize(known, shared, outside, unreachable)


def _find_own_candidates(token: bytes, branches: Mapping[bytes, tuple[Sequence[int], float]]) -> list[int]:
    """Return the values that a token begins, without those that longer tokens in its place begin; all if none is left.

    Models write a text as the tokens that they have learned for it. If one of them is `bug`, `b` begins something else.
    """
    candidates, probability = branches[token]
    masses = dict.fromkeys(candidates, 0.0)
    for other, (others, other_probability) in branches.items():
        if len(other) > len(token):
            for number in others:
                if number in masses:
                    masses[number] += other_probability
    own = [number for number in candidates if masses[number] < USUAL_SHARE * probability]
    return own or list(candidates)


def _merge_alternatives(token: TokenLogprob) -> dict[bytes, float]:
    """Return the probability of each text that a token may have; several tokens may have the same."""
    probabilities: dict[bytes, float] = {}
    for text, logprob in token.alternatives:
        if text:
            probabilities[text] = probabilities.get(text, 0.0) + math.exp(min(logprob, 0.0))
    probabilities.setdefault(token.token, math.exp(min(token.logprob, 0.0)))
    return probabilities


def _add_written_text(variants: Sequence[set[bytes]], values: Sequence[Any], answer: Any, text: bytes) -> None:
    """Add the JSON text that begins `text` to those of the value that it is, such as `1.0` to those of 1."""
    decoded = text.decode("utf-8", "surrogateescape").lstrip()
    _, end = DECODER.raw_decode(decoded)
    for value, texts in zip(values, variants, strict=True):
        if value == answer and isinstance(value, bool) == isinstance(answer, bool):
            texts.add(decoded[:end].encode("utf-8", "surrogateescape"))


def _encode_value(value: Any) -> set[bytes]:
    """Return the JSON texts that a value may have: characters other than ASCII and slashes may be escaped."""
    texts = {json.dumps(value, ensure_ascii=False), json.dumps(value), json.dumps(value).replace("/", "\\/")}
    return {text.encode("utf-8", "surrogatepass") for text in texts}


def _find_candidates(continuation: bytes, variants: Sequence[Collection[bytes]]) -> list[int]:
    """Return the numbers of the values that a text is, or that it begins."""
    text = continuation.lstrip(WHITESPACE)
    return [
        number
        for number, texts in enumerate(variants)
        if any(each.startswith(text) or text.startswith(tuple(each + end for end in VALUE_ENDS)) for each in texts)
    ]


def _normalize(
    known: Sequence[float], shared: Sequence[tuple[Sequence[int], float]], outside: float, unreachable: float
) -> ValueProbabilities | None:
    """Divide the probabilities that several values share, and normalize the sums."""
    sums = list(known)
    for candidates, probability in shared:
        total = sum(known[number] for number in candidates)
        for number in candidates:
            sums[number] += probability * (known[number] / total if total else 1 / len(candidates))
    total = sum(sums)
    if not total:
        return None
    hidden = max(1.0 - unreachable - outside - total, 0.0)
    unresolved = hidden + sum(probability for _, probability in shared)
    everything = total + outside + hidden
    return ValueProbabilities(tuple(each / total for each in sums), outside / everything, unresolved / everything)
