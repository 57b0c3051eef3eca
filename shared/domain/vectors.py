"""The type of embeddings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""One vector, shape `(dimensions,)`, or one in each row, shape `(n, dimensions)`; of unit length."""
