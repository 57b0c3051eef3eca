"""Gains and losses of the default fusion against the channels' weighted mean, measured on users' questions.

`python -m bench.fusion [--cache FILE] [--only CONDITION] FOLDER...`: each folder contains corpus.jsonl, queries.jsonl,
qrels.tsv (BEIR) and perhaps generated.jsonl. Each set is measured unchanged and

- replaced: with a share of its texts' words replaced by others, so that users and texts share few words;
- covered: with questions for a share of the passages that have any, as during generation (three draws);
- moved: with half of its questions at wrong passages (three draws);
- close: with the users' own questions, without a third of their words, instead of its questions;
- baseline: with the vectors of models of other baseline similarities, each measured as a collection does.

Prints nDCG@10 of the mean and of the default, their difference with its 95 % interval, paired over questions, and of
the best single channel. Then prints the gain of weights that 30 or 60 labelled questions choose, on the other
questions, and, for sets with titles, the gain by titles in each channel. Vectors are cached in FILE.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from foreask_evaluation.cache import EvaluationCache

from bench.calibration import Founds, QuestionSet, Searched, read, with_baseline
from embedded.embeddings import DIMENSIONS, MODEL
from embedded.minilm import MiniLM
from shared.domain.corpus.collections import Baseline
from shared.domain.vectors import Vectors
from shared.query.calibrate.baseline import MAX_PAIRS, MIN_PAIRS, measure_baseline
from shared.query.calibrate.significance import Values, interval
from shared.query.calibrate.weights import EQUAL, candidates, lower_bound, ndcg
from shared.query.retrieve import CHANNELS, Channel, FusionName, fuse
from shared.query.retrieve.scores.scale import rescale

SEEDS = (1, 2, 3)
COVERED = (0, 2, 10, 30, 60)
REPLACED = (60, 90)
BASELINES = (0.3, 0.5, 0.7, 0.75)
DRAWS = 300
TOP = 10
BATCH = 256
GAINS = 1 / np.log2(np.arange(2, TOP + 2))

Change = Callable[[QuestionSet], QuestionSet]


@dataclass(frozen=True)
class CachedEmbedding:
    """The embedded model with a cache; a text is embedded once."""

    cache: EvaluationCache
    model: MiniLM

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return vectors of shape `(len(texts), dimensions)`; row i belongs to text i."""
        if not texts:
            return np.empty((0, DIMENSIONS), dtype=np.float32)
        missing = self.cache.missing_vectors(MODEL, texts)  # type: ignore[arg-type]
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            vectors = self.model.embed(list(batch))[0]
            self.cache.save_vectors(MODEL, dict(zip(batch, vectors, strict=True)))
        vectors = self.cache.load_vectors(MODEL, texts)  # type: ignore[arg-type]
        return np.array([vectors[text] for text in texts])  # type: ignore[index]


@dataclass(frozen=True)
class Condition:
    """A variant of a set: a share of words to replace, changes of its questions, and a baseline similarity."""

    name: str
    share: int = 0
    changes: tuple[Change, ...] = (lambda question_set: question_set,)
    baseline: float = 0.0


def covered(question_set: QuestionSet, share: int, seed: int) -> QuestionSet:
    owners = sorted({index for index, _ in question_set.questions})
    chosen = set(random.Random(seed).sample(owners, round(len(owners) * share / 100)))
    return replace(
        question_set, questions=[(index, question) for index, question in question_set.questions if index in chosen]
    )


def moved(question_set: QuestionSet, seed: int) -> QuestionSet:
    """Return the set with half of the questions at random passages."""
    chance = random.Random(seed)
    indexes = range(len(question_set.texts))
    questions = [(chance.choice(indexes) if chance.random() < 0.5 else index, q) for index, q in question_set.questions]
    return replace(question_set, questions=questions)


def close(question_set: QuestionSet) -> QuestionSet:
    chance = random.Random(SEEDS[0])
    index_of = {chunk: index for index, chunk in enumerate(question_set.ids)}
    questions = []
    for query, relevant in zip(question_set.queries, question_set.relevant, strict=True):
        left = [word for word in query.split() if chance.random() > 1 / 3] or [query]
        questions.append((index_of[min(relevant)], " ".join(left)))
    return replace(question_set, questions=questions)


def conditions(question_set: QuestionSet) -> Iterator[Condition]:
    yield Condition("as it is")
    yield from (Condition(f"{share} % of words replaced", share) for share in REPLACED)
    yield from (Condition(f"baseline {baseline}", baseline=baseline) for baseline in BASELINES)
    yield Condition("close", changes=(close,))
    yield Condition("close, 60 % replaced", 60, (close,))
    if not question_set.questions:
        return
    for share in COVERED:
        yield Condition(f"{share} % covered", changes=drawn(covered, share=share))
    yield Condition("30 % covered, 60 % replaced", 60, drawn(covered, share=30))
    yield Condition("30 % covered, baseline 0.7", changes=drawn(covered, share=30), baseline=0.7)
    yield Condition("half moved", changes=drawn(moved))
    yield Condition("half moved, 60 % replaced", 60, drawn(moved))
    yield Condition("half moved, baseline 0.7", changes=drawn(moved), baseline=0.7)


def drawn(change: Callable[..., QuestionSet], **more: int) -> tuple[Change, ...]:
    return tuple(partial(change, seed=seed, **more) for seed in SEEDS)


def found_in(question_set: QuestionSet, baseline: float, embedding: CachedEmbedding) -> Founds:
    """Return the hits of each channel for each question, with scores as in a calibrated collection."""
    inputs = (question_set.texts, [question for _, question in question_set.questions], question_set.queries)
    texts, questions, queries = (with_baseline(embedding.embed(part), baseline) for part in inputs)
    found = Searched(question_set, texts, questions).found(question_set.queries, queries)
    measured = baseline_of(question_set, texts, questions)
    return [rescale(hits, measured) for hits in found]


def baseline_of(question_set: QuestionSet, texts: Vectors, questions: Vectors) -> Baseline:
    """Return the baseline as a collection measures it: by questions of distinct passages, or only by texts."""
    chance = np.random.default_rng(7)
    by_index = {index: number for number, (index, _) in enumerate(question_set.questions)}
    if len(by_index) < MIN_PAIRS:
        sample = texts[chance.permutation(len(texts))[:MAX_PAIRS]]
        return measure_baseline(sample, sample)
    indexes = chance.permutation(list(by_index))[:MAX_PAIRS]
    return measure_baseline(questions[[by_index[index] for index in indexes]], texts[indexes])


def graded(rankings: Iterable[Sequence[str]], relevant: Sequence[set[str]]) -> Values:
    """Return nDCG@10 of each question, of shape `(questions,)`."""
    values = []
    for ranking, answers in zip(rankings, relevant, strict=True):
        hits = [chunk in answers for chunk in ranking[:TOP]]
        values.append(float(GAINS[: len(hits)][hits].sum() / GAINS[: len(answers)].sum()))
    return np.array(values)


def fused(found: Founds, fusion: FusionName) -> Iterator[list[str]]:
    for channels in found:
        yield [match.chunk_id for match in fuse(channels, fusion, EQUAL)[:TOP]]


def alone(found: Founds, channel: Channel) -> Iterator[list[str]]:
    for channels in found:
        yield list(channels[channel].scores)


def measure(question_set: QuestionSet, condition: Condition, embedding: CachedEmbedding) -> dict[str, Values]:
    """Return nDCG@10 of each question by fusion or channel, the mean over the draws."""
    drawn_values: list[dict[str, Values]] = []
    for change in condition.changes:
        found = found_in(change(question_set), condition.baseline, embedding)
        values = {
            "mean": graded(fused(found, "mean"), question_set.relevant),
            "scores": graded(fused(found, "scores"), question_set.relevant),
        }
        values |= {channel: graded(alone(found, channel), question_set.relevant) for channel in CHANNELS}
        drawn_values.append(values)
    return {name: np.mean([values[name] for values in drawn_values], axis=0) for name in drawn_values[0]}


def print_condition(name: str, condition: str, values: dict[str, Values]) -> float:
    difference = interval(values["scores"] - values["mean"])
    best = max(CHANNELS, key=lambda channel: float(values[channel].mean()))
    print(
        f"{name:16} {condition:30} {values['mean'].mean():6.4f} {values['scores'].mean():8.4f}"
        f" {difference.mean:+11.4f} {difference.low:+8.4f} to {difference.high:+.4f}"
        f"   {best} {values[best].mean():.4f}",
        flush=True,
    )
    return difference.mean


def print_weights(name: str, question_set: QuestionSet, embedding: CachedEmbedding) -> None:
    """Print the gain on the other questions by weights that some questions choose, as calibration does."""
    tried = candidates()
    equal, *others = ndcg(found_in(question_set, 0.0, embedding), question_set.relevant, [EQUAL, *tried])
    differences = np.array(others) - equal
    chance = np.random.default_rng(7)
    for count in (30, 60):
        gains = []
        for _ in range(DRAWS if count < len(equal) else 0):
            order = chance.permutation(len(equal))
            bounds = [lower_bound(row) for row in differences[:, order[:count]]]
            best = int(np.argmax(bounds))
            gains.append(float(differences[best, order[count:]].mean()) if bounds[best] > 0 else 0.0)
        if gains:
            low, high = min(gains), max(gains)
            print(f"{name:16} weights by {count} questions: {np.mean(gains):+.4f}, draws {low:+.4f} to {high:+.4f}")


def print_titles(name: str, question_set: QuestionSet, embedding: CachedEmbedding) -> None:
    """Print the gain if BM25 reads titles, or if they are embedded with the texts or with the questions."""
    untitled = replace(question_set, titles=[""] * len(question_set.titles))
    titled = [(index, f"{question_set.titles[index]}: {question}") for index, question in question_set.questions]
    variants = {
        "no titles": untitled,
        "in bm25": question_set,
        "in text": replace(untitled, texts=question_set.passages),
        "in bm25 and text": replace(question_set, texts=question_set.passages, titles=[""] * len(question_set.titles)),
        "in bm25 and questions": replace(question_set, questions=titled),
    }
    before: Values | None = None
    for variant, changed in variants.items():
        words = untitled if variant == "in text" else changed
        found = embedded_apart(changed, words, embedding)
        values = {channel: graded(alone(found, channel), question_set.relevant).mean() for channel in CHANNELS}
        default = graded(fused(found, "scores"), question_set.relevant)
        before = default if before is None else before
        gain = interval(default - before)
        listed = ", ".join(f"{channel} {value:.4f}" for channel, value in values.items())
        print(
            f"{name:16} titles {variant:24} default {default.mean():.4f} {gain.mean:+.4f} ({gain.low:+.4f} to"
            f" {gain.high:+.4f}); {listed}",
            flush=True,
        )


def embedded_apart(question_set: QuestionSet, words: QuestionSet, embedding: CachedEmbedding) -> Founds:
    """Search the vectors of one set's texts and questions, and the words of another's."""
    questions = embedding.embed([question for _, question in question_set.questions])
    searched = Searched(
        replace(words, questions=question_set.questions), embedding.embed(question_set.texts), questions
    )
    return searched.found(question_set.queries, embedding.embed(question_set.queries))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".foreask", "bench", "vectors.sqlite"))
    parser.add_argument("--only", default="", help="conditions whose names contain this")
    arguments = parser.parse_args()
    gains: dict[str, list[float]] = {}
    print(
        f"{'set':16} {'condition':30} {'mean':>6} {'default':>8} {'difference':>11}   95 %                 best channel"
    )
    with EvaluationCache(arguments.cache) as cache:
        embedding = CachedEmbedding(cache, MiniLM(1))
        sets = {folder.name: folder for folder in arguments.folders}
        for name, folder in sets.items():
            for condition in conditions(read(folder, 0)):
                if arguments.only in condition.name:
                    values = measure(read(folder, condition.share), condition, embedding)
                    gains.setdefault(condition.name, []).append(print_condition(name, condition.name, values))
        for name, each in gains.items():
            print(f"{'all':16} {name:30} {np.mean(each):+.4f}, worst {min(each):+.4f}, best {max(each):+.4f}")
        for name, folder in sets.items() if not arguments.only else ():
            question_set = read(folder, 0)
            print_weights(name, question_set, embedding)
            if any(question_set.titles):
                print_titles(name, question_set, embedding)


if __name__ == "__main__":
    main()
