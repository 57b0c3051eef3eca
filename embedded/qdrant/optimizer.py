"""Optimizes a copy of a shard: `python -m embedded.qdrant.optimizer DIR CONFIGURATION SEGMENTS GRAPHS`.

The engine keeps Python's interpreter lock while it optimizes, for a minute at 100,000 points, during which its process
answers nothing. So the shard is copied, its process continues to serve, and another one takes over with the optimized
copy (see `embedded.qdrant.collection`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import orjson
import qdrant_edge as engine

from embedded.qdrant.schema import edge_config

NICENESS = 10


def main(directory: str, configuration: str, segments: str, graphs: str) -> None:
    """Optimize the shard in `directory` under the collection's configuration, and close it.

    Args:
        directory: the shard.
        configuration: file with the collection's configuration.
        segments: number of segments that may remain.
        graphs: `graphs`, or `bytes` to build none.
    """
    os.nice(NICENESS)
    config = orjson.loads(Path(configuration).read_bytes())["config"]
    shard = engine.EdgeShard.load(directory, edge_config(config, int(segments), has_graphs=graphs == "graphs"))
    shard.optimize()
    shard.flush()
    shard.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
