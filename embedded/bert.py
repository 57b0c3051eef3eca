"""Encoders of the BERT family, which convert texts to unit vectors on the CPU in 8-bit integers.

The weights of a matrix are 8-bit integers with a scale for each column. The activations are quantized too, with a scale
for each token, so that the matrices are multiplied in integers. ONNX Runtime's own conversion, `quantize_dynamic`, has
one scale for all tokens of a run: it is as fast, but a text's vector then depends on the texts of the same run, and is
less exact. Cosine to the vectors of floating-point activations, mean and lowest of 160 texts: 0.9983 and 0.997 with
scales of tokens, 0.9952 and 0.990 with one scale.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding, Tokenizer

from embedded.onnx_model import Graph
from shared.domain.vectors import Vectors

# ONNX Runtime reads this at its import. Otherwise it reports to its vendor which models run, and writes a device id and
# a database into the user's home.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime

Floats = npt.NDArray[np.float32]

HEADS = 12
# Padded tokens in one run of the model: larger runs spill the activations out of the caches.
RUN_TOKENS = 1024
_EPSILON = 1e-12
_MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Matrix:
    """A dense layer.

    Args:
        weights: shape (inputs, outputs), 8-bit integers.
        scale: factor of each column.
        bias: one number for each column.
    """

    weights: npt.NDArray[np.int8]
    scale: Floats
    bias: Floats


@dataclass(frozen=True)
class Norm:
    """A layer normalization: factors and summands."""

    gain: Floats
    bias: Floats


@dataclass(frozen=True)
class Layer:
    """A layer of the encoder. `attention` has the columns of queries, keys and values, in this order."""

    attention: Matrix
    attention_output: Matrix
    attention_norm: Norm
    inner: Matrix
    outer: Matrix
    norm: Norm


@dataclass(frozen=True)
class Weights:
    """A model.

    Args:
        words: function that returns the rows of the embedding table, shape (n, size), for the ids of n tokens.
        positions: embedding of each position and of the only type of token, shape (most tokens, size).
        norm: normalization of the sums of both.
        layers: the layers in their order.
    """

    words: Callable[[npt.NDArray[np.int64]], Floats]
    positions: Floats
    norm: Norm
    layers: Sequence[Layer]


class Bert:
    """A model and its tokenizer, with mean pooling and L2 norm.

    A text has the same vector in every request: its numbers do not depend on the texts of the same run.

    Args:
        weights: the model.
        tokenizer: its tokenizer.
        integers: whether activations are quantized, too; if not, weights are converted, and it takes twice the time.
        threads: number of concurrent runs; None: as many as cores, at most eight.
    """

    def __init__(
        self, weights: Weights, tokenizer: Tokenizer, *, integers: bool = True, threads: int | None = None
    ) -> None:
        self._words, self._positions = weights.words, weights.positions
        self._tokenizer = tokenizer
        self._tokenizer.enable_truncation(len(weights.positions))
        self._tokenizer.no_padding()
        # Runs side by side, a thread each: two threads inside one run cost a fifth more CPU for the same vectors.
        self._pool = ThreadPoolExecutor(threads or max(1, min(8, os.cpu_count() or 1)), thread_name_prefix="run")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.x64quantprecision", "1" if _overflows() else "0")
        self._session = onnxruntime.InferenceSession(
            graph(weights, integers=integers), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = [entry.name for entry in self._session.get_inputs()]

    @property
    def dimensions(self) -> int:
        return int(self._positions.shape[1])

    def embed(self, texts: list[str]) -> tuple[Vectors, int]:
        """Embed texts.

        Returns:
            The unit vectors, shape (n, dimensions), row i belongs to text i; and the tokens that were embedded, special
            tokens included, after truncation.
        """
        encodings = self._tokenizer.encode_batch(texts)
        lengths = np.fromiter((len(encoding.ids) for encoding in encodings), dtype=np.int64, count=len(encodings))
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        runs = _runs(lengths)
        results = self._pool.map(lambda rows: self._run([encodings[row] for row in rows], lengths[rows]), runs)
        for rows, result in zip(runs, results, strict=True):
            vectors[rows] = result
        return vectors, int(lengths.sum())

    def _run(self, encodings: list[Encoding], lengths: npt.NDArray[np.int64]) -> Vectors:
        width = int(lengths.max())
        present = np.arange(width) < lengths[:, None]
        embedded = np.zeros((*present.shape, self.dimensions), dtype=np.float32)
        embedded[present] = self._words(np.concatenate([encoding.ids for encoding in encodings]))
        embedded += self._positions[:width]
        mask = np.where(present, np.float32(0), np.float32(-1e9))[:, None, None, :]
        output = self._session.run(None, dict(zip(self._inputs, (embedded, mask), strict=True)))[0]
        pooled = np.einsum("ntd,nt->nd", output, present.astype(np.float32)) / lengths[:, None].astype(np.float32)
        unit: Vectors = pooled / np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-12)
        return unit


def _overflows() -> bool:
    """Return whether ONNX Runtime's default kernel adds products in 16 bits, which overflow: x86 without VNNI.

    Its exact kernel takes twice the time, which is still less than with floating-point numbers.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    try:
        return "vnni" not in Path("/proc/cpuinfo").read_text()
    except OSError:
        return True


def inside(package: str, path: Path, sha256: str | None = None) -> Path:
    """Return a file of an installed package. The package is not imported: its dependencies are not installed.

    Args:
        package: name of the package.
        path: path inside of the package.
        sha256: digest of the file; other weights would make other vectors.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"The embedded embedding model is not installed: {package} is missing")
    file = Path(spec.origin).parent / path
    if sha256 is not None and hashlib.sha256(file.read_bytes()).hexdigest() != sha256:
        raise SystemExit(f"The embedded embedding model is damaged or another version: reinstall {package} ({file})")
    return file


def graph(weights: Weights, *, integers: bool) -> bytes:
    """Return the encoder as an ONNX model, which multiplies integers or floating-point numbers.

    Its inputs are the embedded tokens, shape (texts, tokens, size), and the mask that is added to the attention's
    scores, shape (texts, 1, 1, tokens). Its output has the shape of the first input.
    """
    encoder = _Encoder(size=weights.positions.shape[1], integers=integers)
    tokens = encoder.norm(encoder.rows, weights.norm)
    for layer in weights.layers:
        quantized = encoder.quantized(tokens)
        context = encoder.attention(encoder.multiplied(quantized, layer.attention))
        attended = encoder.multiplied(encoder.quantized(context), layer.attention_output)
        tokens = encoder.norm(encoder.graph.add("Add", attended, tokens), layer.attention_norm)
        inner = encoder.activated(encoder.quantized(tokens), layer.inner)
        outer = encoder.multiplied(encoder.quantized(inner), layer.outer)
        tokens = encoder.norm(encoder.graph.add("Add", outer, tokens), layer.norm)
    return encoder.model(tokens)


class _Encoder:
    """The parts of the graph. Tokens of all texts are rows of one matrix, except for the attention."""

    def __init__(self, size: int, *, integers: bool) -> None:
        self.graph = Graph()
        self._size, self._integers = size, integers
        add, constant = self.graph.add, self.graph.constant
        self._embedded, self._mask = "embedded", "mask"
        self._shape = add("Shape", self._embedded)
        self._texts_tokens = add("Shape", self._embedded, end=2)
        self._flat = constant([-1, size])
        self.rows = add("Reshape", self._embedded, self._flat)
        self._last, self._column = constant([-1]), constant([-1, 1])
        self._one, self._tiny, self._step = (constant(value, np.float32) for value in (1, 1e-9, 1 / 127))
        # Unsigned integers around 128 instead of signed ones: the kernels of all processors support them.
        self._middle = constant(128, np.uint8)
        self._middles = add("Expand", self._middle, add("Shape", self.rows, end=1))

    def model(self, rows: str) -> bytes:
        return self.graph.model([self._embedded, self._mask], self.graph.add("Reshape", rows, self._shape))

    def norm(self, rows: str, norm: Norm) -> str:
        gain, bias = self.graph.constant(norm.gain), self.graph.constant(norm.bias)
        return str(self.graph.add("LayerNormalization", rows, gain, bias, axis=-1, epsilon=_EPSILON))

    def quantized(self, rows: str) -> tuple[str, str]:
        """Return rows as integers around 128, and the scale of each row as a column."""
        if not self._integers:
            return rows, ""
        add = self.graph.add
        largest = add("ReduceMax", add("Abs", rows), self._last, keepdims=0)
        scales = add("Mul", add("Max", largest, self._tiny), self._step)
        return add("QuantizeLinear", rows, scales, self._middles, axis=0), add("Reshape", scales, self._column)

    def multiplied(self, quantized: tuple[str, str], matrix: Matrix) -> str:
        return str(self.graph.add("Add", self._product(quantized, matrix), self.graph.constant(matrix.bias)))

    def activated(self, quantized: tuple[str, str], matrix: Matrix) -> str:
        product, bias = self._product(quantized, matrix), self.graph.constant(matrix.bias)
        return str(self.graph.add("BiasGelu", product, bias, domain=_MICROSOFT))

    def _product(self, quantized: tuple[str, str], matrix: Matrix) -> str:
        integers, scales = quantized
        if not self._integers:
            return str(self.graph.add("MatMul", integers, self.graph.constant(matrix.weights * matrix.scale)))
        weights, scale = self.graph.constant(matrix.weights), self.graph.constant(matrix.scale)
        inputs = (integers, weights, self._one, scale, self._middle)
        return str(self.graph.add("Mul", self.graph.add("MatMulIntegerToFloat", *inputs, domain=_MICROSOFT), scales))

    def attention(self, rows: str) -> str:
        """Return the attention's output for rows of queries, keys and values."""
        add, constant = self.graph.add, self.graph.constant
        size = self._size // HEADS
        by_head = add("Concat", self._texts_tokens, constant([3, HEADS, size]), axis=0)
        apart = add("Transpose", add("Reshape", rows, by_head), perm=[2, 0, 3, 1, 4])
        first = constant([0])
        query, key, value = (
            add("Squeeze", part, first) for part in add("Split", apart, outputs=3, axis=0, num_outputs=3)
        )
        scores = add("FusedMatMul", query, key, domain=_MICROSOFT, transB=1, alpha=size**-0.5)
        shares = add("Softmax", add("Add", scores, self._mask), axis=-1)
        context = add("Transpose", add("MatMul", shares, value), perm=[0, 2, 1, 3])
        return str(add("Reshape", context, self._flat))


def _runs(lengths: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """Return row numbers by length, in runs of at most RUN_TOKENS padded tokens (and at least one row)."""
    order = np.argsort(lengths, kind="stable")
    runs, start = [], 0
    for end in range(1, len(order) + 1):
        if end == len(order) or (end - start + 1) * lengths[order[end]] > RUN_TOKENS:
            runs.append(order[start:end])
            start = end
    return runs
