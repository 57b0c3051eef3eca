"""The layout of a Qdrant collection: its creation parameters, and differences of existing collections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shared.vectors.qdrant import models

Quantization = Literal["none", "int8"]
_INT8 = models.ScalarQuantization(
    scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Creation parameters of new Qdrant collections; None selects Qdrant's default.

    Args:
        shards: parts of a collection, each on one node.
        replicas: copies of each shard, on different nodes.
        write_consistency: copies that must confirm a write.
        quantization: `int8`: searches read vectors of one byte per dimension, which stay in memory.
        on_disk: whether full vectors and payloads stay on disk.
        hnsw_m: neighbours of a point in the graph of its group.
        hnsw_ef_construct: candidates for these neighbours.
    """

    shards: int | None = None
    replicas: int | None = None
    write_consistency: int | None = None
    quantization: Quantization = "none"
    on_disk: bool = False
    hnsw_m: int = 16
    hnsw_ef_construct: int | None = None

    def creation(self, dimensions: int) -> dict[str, Any]:
        """Return the client's arguments for creating a collection of vectors of this size."""
        dense = models.VectorParams(
            size=dimensions, distance=models.Distance.COSINE, on_disk=True if self.on_disk else None
        )
        # A graph for each group, and none over all points: a search stays within one group.
        graphs = models.HnswConfigDiff(m=0, payload_m=self.hnsw_m, ef_construct=self.hnsw_ef_construct)
        return {
            "vectors_config": {"dense": dense},
            "sparse_vectors_config": {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
            "hnsw_config": graphs,
            "quantization_config": _INT8 if self.quantization == "int8" else None,
            "on_disk_payload": True if self.on_disk else None,
            "shard_number": self.shards,
            "replication_factor": self.replicas,
            "write_consistency_factor": self.write_consistency,
        }

    def differences(self, info: models.CollectionInfo) -> dict[str, str]:
        """Return the parameters of an existing collection that differ, by the setting's variable."""
        return {
            f"FOREASK_QDRANT_{name}": f"set {configured}, is {found}"
            for name, configured, found in self._compared(info.config)
            if configured is not None and configured != found
        }

    def _compared(self, config: models.CollectionConfig) -> Iterator[tuple[str, object, object]]:
        params, graphs = config.params, config.hnsw_config
        dense = params.vectors.get("dense") if isinstance(params.vectors, Mapping) else None
        yield "SHARDS", self.shards, params.shard_number
        yield "REPLICAS", self.replicas, params.replication_factor
        yield "WRITE_CONSISTENCY", self.write_consistency, params.write_consistency_factor
        yield "QUANTIZATION", self.quantization, _quantization(config.quantization_config)
        yield "ON_DISK", self.on_disk, bool(dense and dense.on_disk)
        yield "HNSW_M", self.hnsw_m, graphs.payload_m
        yield "HNSW_EF_CONSTRUCT", self.hnsw_ef_construct, graphs.ef_construct


def _quantization(config: models.QuantizationConfig | None) -> str:
    """Return the setting's value for a collection's quantization; for other kinds, Qdrant's name."""
    if config is None:
        return "none"
    (kind,) = config.model_dump(exclude_none=True)
    return "int8" if kind == "scalar" else str(kind)
