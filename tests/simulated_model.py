"""A language model with known probabilities: texts, their tokenizations, and the logprobs of the tokens it samples."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby, pairwise
from random import Random

from ask.schemas.token_probabilities import TokenLogprob

Tokens = tuple[bytes, ...]


class SimulatedModel:
    """A model that writes one of several texts, each in one of several tokenizations.

    Args:
        texts: the probability of each text.
        vocabulary: tokens of more than one byte; each byte is a token, too.
        split_probability: how likely the model is to write a text as other tokens than the longest ones.
        random: chooses the other tokenizations.
    """

    def __init__(
        self, texts: Mapping[bytes, float], vocabulary: Sequence[bytes], split_probability: float, random: Random
    ) -> None:
        self._sequences: dict[Tokens, float] = defaultdict(float)
        vocabulary = [*vocabulary, *(bytes([byte]) for text in texts for byte in text)]
        for text, probability in texts.items():
            self._sequences[split_greedily(text, vocabulary)] += probability * (1 - split_probability)
            for _ in range(3 if split_probability else 0):
                self._sequences[_split_randomly(text, vocabulary, random)] += probability * split_probability / 3

    def decode_greedily(self, top: int) -> list[TokenLogprob]:
        """Return the answer at temperature 0, in which each token is the most likely one."""
        tokens: Tokens = ()
        while tokens not in self._sequences:
            weights: dict[bytes, float] = defaultdict(float)
            for sequence, weight in self._sequences.items():
                if sequence[: len(tokens)] == tokens:
                    weights[sequence[len(tokens)]] += weight
            tokens += (max(weights, key=lambda token: weights[token]),)
        return self.describe(tokens, top)

    def sample(self, random: Random, top: int) -> list[TokenLogprob]:
        """Return the tokens of an answer, each with the logprobs of the most likely tokens at its position."""
        sequences, weights = zip(*self._sequences.items(), strict=True)
        return self.describe(random.choices(sequences, weights)[0], top)

    def describe(self, tokens: Tokens, top: int) -> list[TokenLogprob]:
        """Return the logprobs of an answer's tokens."""
        described = []
        remaining = dict(self._sequences)
        for position, token in enumerate(tokens):
            weights: dict[bytes, float] = defaultdict(float)
            for sequence, weight in remaining.items():
                weights[sequence[position] if position < len(sequence) else b"<|end|>"] += weight
            total = sum(weights.values())
            logprobs = {each: math.log(weight / total) for each, weight in weights.items()}
            likeliest = sorted(logprobs.items(), key=lambda item: -item[1])[:top]
            described.append(TokenLogprob(token, logprobs[token], likeliest))
            remaining = {
                sequence: weight
                for sequence, weight in remaining.items()
                if position < len(sequence) and sequence[position] == token
            }
        return described


def split_greedily(text: bytes, vocabulary: Sequence[bytes]) -> Tokens:
    """Split a text into the longest tokens, from left to right."""
    tokens: list[bytes] = []
    longest_first = sorted(set(vocabulary), key=len, reverse=True)
    while text:
        tokens.append(next(token for token in longest_first if text.startswith(token)))
        text = text[len(tokens[-1]) :]
    return tuple(tokens)


def _split_randomly(text: bytes, vocabulary: Sequence[bytes], random: Random) -> Tokens:
    tokens: list[bytes] = []
    by_first_byte = {byte: [*each] for byte, each in groupby(sorted(set(vocabulary)), key=lambda token: token[:1])}
    while text:
        tokens.append(random.choice([token for token in by_first_byte[text[:1]] if text.startswith(token)]))
        text = text[len(tokens[-1]) :]
    return tuple(tokens)


@cache
def learn_vocabulary(texts: tuple[bytes, ...], size: int) -> tuple[bytes, ...]:
    """Return tokens of more than one byte, as byte pair encoding learns them: the most frequent pair is joined."""
    split = [[bytes([byte]) for byte in text] for text in texts]
    vocabulary: list[bytes] = []
    while len(vocabulary) < size:
        counts: dict[tuple[bytes, bytes], int] = defaultdict(int)
        for tokens in split:
            for pair in pairwise(tokens):
                counts[pair] += 1
        if not counts:
            break
        first, second = max(counts, key=lambda pair: (counts[pair], pair))
        vocabulary.append(first + second)
        for tokens in split:
            position = 0
            while position + 1 < len(tokens):
                if (tokens[position], tokens[position + 1]) == (first, second):
                    tokens[position : position + 2] = [first + second]
                position += 1
    return tuple(vocabulary)
