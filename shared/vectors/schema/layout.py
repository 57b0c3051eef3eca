"""The layout of a Qdrant collection: its creation parameters, and differences of existing collections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Quantization = Literal["none", "int8"]
_INT8 = {"scalar": {"type": "int8", "quantile": 0.99, "always_ram": True}}


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
        """Return the request for creating a collection of vectors of this size."""
        # A graph for each group, and none over all points: a search stays within one group.
        graphs = {"m": 0, "payload_m": self.hnsw_m, "ef_construct": self.hnsw_ef_construct}
        chosen = {
            "quantization_config": _INT8 if self.quantization == "int8" else None,
            "on_disk_payload": True if self.on_disk else None,
            "shard_number": self.shards,
            "replication_factor": self.replicas,
            "write_consistency_factor": self.write_consistency,
        }
        return {
            "vectors": {
                "dense": {"size": dimensions, "distance": "Cosine"} | ({"on_disk": True} if self.on_disk else {})
            },
            "sparse_vectors": {"bm25": {"modifier": "idf"}},
            "hnsw_config": _without_none(graphs),
            **_without_none(chosen),
        }

    def differences(self, info: Mapping[str, Any]) -> dict[str, str]:
        """Return the parameters of an existing collection that differ, by the setting's variable."""
        return {
            f"FOREASK_QDRANT_{name}": f"set {configured}, is {found}"
            for name, configured, found in self._compared(info["config"])
            if configured is not None and configured != found
        }

    def _compared(self, config: Mapping[str, Any]) -> Iterator[tuple[str, object, object]]:
        params, graphs = config["params"], config["hnsw_config"]
        yield "SHARDS", self.shards, params.get("shard_number")
        yield "REPLICAS", self.replicas, params.get("replication_factor")
        yield "WRITE_CONSISTENCY", self.write_consistency, params.get("write_consistency_factor")
        yield "QUANTIZATION", self.quantization, _quantization(config.get("quantization_config"))
        yield "ON_DISK", self.on_disk, bool(params.get("vectors", {}).get("dense", {}).get("on_disk"))
        yield "HNSW_M", self.hnsw_m, graphs.get("payload_m")
        yield "HNSW_EF_CONSTRUCT", self.hnsw_ef_construct, graphs.get("ef_construct")


def _quantization(config: Mapping[str, Any] | None) -> str:
    """Return the setting's value for a collection's quantization; for other kinds, Qdrant's name."""
    if not config:
        return "none"
    (kind,) = config
    return "int8" if kind == "scalar" else str(kind)


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
