"""Calibration changes weights only on evidence."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.corpus.collections import Baseline
from shared.query.calibrate.baseline import measure_baseline
from shared.query.calibrate.weights import candidates, choose_weights, measure_equal_weights, ndcg
from shared.query.retrieve import ChannelHits, Weights, fuse
from shared.query.retrieve.scores.scale import rescale


def hits_and_answers(count, right, wrong, noise=0.0, seed=7):
    """Return for each question the scores of the right and a wrong chunk in each channel, and the right answers."""
    chance = random.Random(seed)

    def near(score):
        return score + chance.uniform(-noise, noise)

    hits_by_question = [
        {channel: ChannelHits({"right": near(right[channel]), "wrong": near(wrong[channel])}) for channel in right}
        for _ in range(count)
    ]
    return hits_by_question, [{"right"}] * count


def test_misleading_channel_gets_lower_weight():
    hits_by_question, relevant = hits_and_answers(
        30, {"questions": 0.6, "text": 0.4, "bm25": 0.1}, {"questions": 0.5, "text": 0.3, "bm25": 0.5}, noise=0.1
    )

    calibration = choose_weights(hits_by_question, relevant)

    assert calibration.weights.bm25 < calibration.weights.text
    assert calibration.chosen.mean > calibration.equal.mean
    assert calibration.channels["bm25"].mean < calibration.channels["questions"].mean
    assert calibration.questions == 30


def test_weights_chosen_by_chance_lose_little_quality():
    right, wrong = {"questions": 0.5, "text": 0.5, "bm25": 0.5}, {"questions": 0.45, "text": 0.45, "bm25": 0.45}
    costs = []
    for seed in range(8):
        weights = choose_weights(*hits_and_answers(30, right, wrong, noise=0.3, seed=seed)).weights
        hits_by_question, _ = hits_and_answers(300, right, wrong, noise=0.3, seed=seed + 100)
        first = [
            [fuse(hits, "scores", w)[0].chunk_id for hits in hits_by_question].count("right")
            for w in (Weights(), weights)
        ]
        costs.append((first[0] - first[1]) / 300)

    assert sum(costs) / len(costs) < 0.015  # the best of the 30 would cost 0.022


def test_perfect_answers_keep_equal_weights():
    hits_by_question, relevant = hits_and_answers(
        30, {"questions": 0.9, "text": 0.9, "bm25": 0.9}, {"questions": 0, "text": 0, "bm25": 0}
    )

    calibration = choose_weights(hits_by_question, relevant)

    assert calibration.weights == Weights()
    assert (calibration.equal.mean, calibration.equal.low, calibration.chosen.high) == (1.0, 1.0, 1.0)


def test_questions_without_hits_score_zero():
    hits_by_question = [{"questions": ChannelHits(), "text": ChannelHits(), "bm25": ChannelHits()}] * 10

    assert choose_weights(hits_by_question, [{"right"}] * 10).equal.mean == 0.0


def test_significantly_better_single_channel_replaces_mix():
    right, wrong = {"questions": 0.1, "text": 0.0, "bm25": 0.6}, {"questions": 0.9, "text": 0.9, "bm25": 0.4}
    hits_by_question, relevant = hits_and_answers(60, right, wrong, noise=0.09)

    assert choose_weights(hits_by_question, relevant).weights == Weights(0, 0, 1)


def test_equally_good_single_channel_keeps_mix():
    score = {"questions": 0.9, "text": 0.9, "bm25": 0.9}
    hits_by_question, relevant = hits_and_answers(30, score, {"questions": 0.8, "text": 0.8, "bm25": 0.1}, noise=0.02)

    calibration = choose_weights(hits_by_question, relevant)

    assert calibration.channels["bm25"].mean == calibration.equal.mean == 1.0
    assert calibration.weights == Weights()


def test_batch_ranking_equals_single_queries():
    chance = random.Random(3)
    hits_by_question, answers = [], []
    for _ in range(40):
        names = [f"{chance.randrange(60):02}" for _ in range(30)]
        scores = [{n: chance.choice([0.0, 0.25, 0.5, -0.1]) + chance.choice([0, 1e-9]) for n in names} for _ in "123"]
        floors = [chance.choice([0.0, 0.1]) for _ in "123"]
        hits = (ChannelHits(s, floor=f) for s, f in zip(scores, floors, strict=True))
        hits_by_question.append(dict(zip(("questions", "text", "bm25"), hits, strict=True)))
        answers.append(set(chance.sample(names, 3)))

    gains = ndcg(hits_by_question, answers, candidates())

    for of_weights, weights in zip(gains, candidates(), strict=True):
        for gain, channels, relevant in zip(of_weights, hits_by_question, answers, strict=True):
            best = [match for match in fuse(channels, "scores", weights)[:10] if match.score > 0]
            ranks = [rank for rank, match in enumerate(best, 1) if match.chunk_id in relevant]
            assert gain == (1 / np.log2(ranks[0] + 1) if ranks else 0.0)
    assert len(set(gains.flat)) > 5


def test_unlabelled_questions_choose_no_weights():
    hits_by_question, relevant = hits_and_answers(
        60, {"questions": 0.6, "text": 0.4, "bm25": 0.1}, {"questions": 0.5, "text": 0.3, "bm25": 0.5}, noise=0.1
    )

    calibration = measure_equal_weights(hits_by_question, relevant)

    assert choose_weights(hits_by_question, relevant).weights != Weights()
    assert calibration.weights == Weights()
    assert calibration.channels["questions"].mean > calibration.channels["bm25"].mean


def test_baseline_is_similarity_to_unrelated_texts():
    questions = np.tile(np.array([[0.6, 0.8]], dtype=np.float32), (30, 1))
    texts = np.tile(np.array([[1.0, 0.0]], dtype=np.float32), (30, 1))
    texts[3] = questions[3]  # the pair with its own question is not counted

    measured = measure_baseline(questions, texts)

    others = [0.6] * 29 * 29 + [1.0] * 29
    assert (measured.similarity, measured.spread) == pytest.approx((np.mean(others), np.std(others)))
    assert measure_baseline(questions[:29], texts[:29]) == Baseline()


def test_rescale_lowers_high_baseline_but_keeps_identical_texts():
    hits_by_question = {
        "text": ChannelHits({"same": 1.0, "other": 0.75}, floor=0.5),
        "bm25": ChannelHits({"same": 0.4}, floor=0.2),
    }

    moved = rescale(hits_by_question, Baseline(0.75, 0.02))

    assert moved["text"].scores == pytest.approx({"same": 1.0, "other": 0.1})
    assert moved["text"].floor == 0.0
    assert moved["bm25"] == hits_by_question["bm25"]


def test_rescale_shrinks_noise_but_keeps_high_similarity():
    cosines = {"same": 1.0, "alike": 0.85, "near": 0.7, "noise": 0.3, "usual": 0.1, "less": 0.0}
    hits_by_question = {"text": ChannelHits(cosines, floor=0.0)}

    scaled = rescale(hits_by_question, Baseline(0.1, 0.2))["text"].scores

    # Four times the usual variance counts a quarter; above 0.7, scores rise towards 1.
    assert scaled == pytest.approx(
        {"same": 1.0, "alike": 0.625, "near": 0.25, "noise": 0.15, "usual": 0.1, "less": 0.075}
    )


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=9), st.floats(-0.2, 0.95), st.floats(0, 0.5))
def test_scale_preserves_order_and_never_exceeds_1(cosines, similarity, spread):
    names = {str(number): cosine for number, cosine in enumerate(cosines)}
    scaled = rescale({"text": ChannelHits(names)}, Baseline(similarity, spread))["text"].scores

    in_order = [scaled[name] for name in sorted(names, key=names.__getitem__)]
    assert in_order == sorted(in_order)
    assert max(scaled.values()) <= 1 + 1e-9


@pytest.mark.parametrize("similarity", [-0.05, 0.0, 0.1])
def test_usual_baseline_leaves_scores_unchanged(similarity):
    hits_by_question = {"text": ChannelHits({"same": 1.0, "other": 0.05}, floor=0.02)}

    assert rescale(hits_by_question, Baseline(similarity, 0.1)) == hits_by_question
