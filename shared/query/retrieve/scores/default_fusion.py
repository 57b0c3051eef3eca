"""The default fusion: one score from the scores of all channels.

`s` is a chunk's score in a channel; `ref` is the fifth best score of that channel for the same question.

    out(s) = s + 1.5 * max(0, s - ref)         scores above the channel's reference score count more
    similarity = max(out(question), out(text)) one near question or text is enough
    agreement = 0.35 * sqrt(asked) * min(out(question), out(text))
                                               question and text together are better evidence than either
    words = out(bm25)                          names, numbers and terms are added to either
    same_question = 8 * max(0, question - 0.7) * text
                                               a nearly identical question adds more, weighted by the text
    score = x / (2 + x), x = similarity + agreement + words + same_question

A weighted mean of the channels would penalise missing values: while questions are being generated, chunks without
questions would rank below worse chunks with questions. `asked` is the share of the best texts of which a question was
found. For the agreement, the questions of a chunk of which none was found are assumed to score
`(1 - asked) * out(text)`. See `docs/decisions/0017-standout-scores.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared.domain.corpus.collections import Weights
from shared.query.retrieve.query import CHANNELS, Channel
from shared.query.retrieve.scores.channels import ChannelHits

_REFERENCE_RANK = 5  # few questions have five answers, so the fifth best chunk rarely is one
_OUT = 1.5
_AGREEMENT = 0.35
_BEST_TEXTS = 10  # whose questions show how many chunks have any
_SAME = 0.7
_SAME_GAIN = 8.0
_HALF = 2.0  # the sum that scores a half; it changes no order

Channels = Mapping[Channel, ChannelHits]
Values = NDArray[np.float64]


class ScoreParts(NamedTuple):
    """The parts of a chunk's score, which is `x / (2 + x)` for their sum x."""

    similarity: float
    agreement: float
    words: float
    same_question: float


def evidence(chunks: Sequence[str], channels: Channels, weights: Weights) -> tuple[list[float], Values]:
    """Return the score of each chunk, and the parts of the scores, of shape `(4, chunks)`, as `ScoreParts` has them."""
    parts = _parts(chunks, channels, [weights])
    return _score(*parts)[0].tolist(), np.concatenate(parts)


def evidence_scores(chunks: Sequence[str], channels: Channels, many: Sequence[Weights]) -> Values:
    """Return the scores of chunks for many weights at once, because choosing weights tries dozens per question.

    Returns:
        Shape `(weights, chunks)`.
    """
    return _score(*_parts(chunks, channels, many))


def reference_scores(channels: Channels) -> dict[Channel, float]:
    """Return the reference score of each channel, above which scores count more; 0 if the channel found fewer chunks.

    Few chunks have questions while these are being generated, so a question must also exceed the texts' reference.
    """
    found = {channel: reference_score(hits) for channel, hits in channels.items()}
    if "questions" in found:
        found["questions"] = max(found["questions"], found.get("text", 0.0))
    return found


def reference_score(hits: ChannelHits | None) -> float:
    """Return the reference score of one channel, regardless of others; 0 if it found fewer chunks."""
    return 0.0 if hits is None else max(0.0, next(islice(hits.scores.values(), _REFERENCE_RANK - 1, None), 0.0))


def _parts(chunks: Sequence[str], channels: Channels, many: Sequence[Weights]) -> tuple[Values, ...]:
    """Return the evidence as arrays of shape `(weights, chunks)`; a channel that was not searched adds nothing."""
    searched = [channel in channels for channel in CHANNELS]
    shares = np.array([[weights.weight(channel) for channel in CHANNELS] for weights in many], dtype=float) * searched
    shares /= np.maximum(shares.max(axis=1, keepdims=True), np.finfo(float).tiny)  # only their ratios matter
    of_questions, of_texts, of_words = shares.T[:, :, None]
    questions, texts, words = (scores_in(channels.get(channel), chunks) for channel in CHANNELS)
    reference_scores = {channel: reference_score(channels.get(channel)) for channel in CHANNELS}
    # A channel without weight is not searched, so it has no reference score.
    reference = np.maximum(reference_scores["questions"], np.where(of_texts > 0, reference_scores["text"], 0.0))
    question, text = _out(questions, reference), _out(texts, reference_scores["text"])
    asked = _asked(channels)
    assumed = np.where(_found(channels.get("questions"), chunks), 0.0, (1 - asked) * text)
    agreement = np.minimum(of_questions * np.maximum(question, assumed), of_texts * text)
    same_question = _SAME_GAIN * np.maximum(0.0, questions - _SAME) * texts
    return (
        np.maximum(of_questions * question, of_texts * text),
        _AGREEMENT * sqrt(asked) * agreement,
        of_words * _out(words, reference_scores["bm25"]),
        np.minimum(of_questions, of_texts) * same_question,
    )


def scores_in(hits: ChannelHits | None, chunks: Sequence[str]) -> Values:
    """Return a channel's scores of chunks, of shape `(chunks,)`; 0 for all if it was not searched.

    A chunk outside a channel's hits scored between 0 and their floor, so half of the floor counts.
    """
    if hits is None:
        return np.zeros(len(chunks))
    score_of, other = hits.scores.get, hits.floor / 2
    return np.maximum(0.0, [score_of(chunk, other) for chunk in chunks]) + 0.0  # no negative zero


def _found(hits: ChannelHits | None, chunks: Sequence[str]) -> NDArray[np.bool_]:
    return np.array([hits is not None and chunk in hits.scores for chunk in chunks], dtype=bool)


def _asked(channels: Channels) -> float:
    """Return the share of the best texts of which a question was found; 0 without texts."""
    best = list(islice(channels["text"].scores, _BEST_TEXTS)) if "text" in channels else []
    return float(_found(channels.get("questions"), best).mean()) if best else 0.0


def _out(scores: Values, reference: Values | float) -> Values:
    return np.asarray(scores + _OUT * np.maximum(0.0, scores - reference))


def _score(*parts: Values) -> Values:
    x = np.sum(parts, axis=0)
    return np.asarray(x / (_HALF + x))
